package live

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/event"
	"github.com/hopbench/hopbench/internal/testutil"
)

// opened opens views for a run that says a sentence.
func opened(t *testing.T, f Flags, s *base.Streams, json bool) error {
	t.Helper()
	v, err := f.Open(t.Context(), s, json)
	if err != nil {
		return err
	}
	v.Stream.Publish(event.Event{Code: event.Note, Text: "told"})
	return v.Close()
}

func TestEventsAreWritten(t *testing.T) {
	var out, told bytes.Buffer
	file := filepath.Join(t.TempDir(), "events")
	testutil.OK(t, opened(t, Flags{events: file}, &base.Streams{Out: &out, Err: &told}, true))
	text, err := os.ReadFile(file)
	testutil.OK(t, err)
	s := &base.Streams{Out: &out, Err: &told}
	testutil.OK(t, opened(t, Flags{events: "-"}, s, false))
	if s.Out == &out {
		t.Error("the report would be printed among the events")
	}
	for _, written := range [][]byte{text, out.Bytes()} {
		var e event.Event
		if err := json.Unmarshal(written, &e); err != nil || e.Text != "told" || e.Number != 1 || e.Time.IsZero() || bytes.Count(written, []byte("\n")) != 1 {
			t.Errorf("%v: %s", err, written)
		}
	}
}

// A run that goes on has its events behind those of its earlier part, of which the last may be
// half a line; a new run overwrites them.
func TestEventsOfAResumedRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "events")
	for _, c := range []struct {
		resumed bool
		before  string
		lines   int
	}{
		{true, "", 1},
		{true, "", 2},
		{true, `{"half`, 4},
		{false, "", 1},
	} {
		text, _ := os.ReadFile(file) // none at first
		testutil.OK(t, os.WriteFile(file, append(text, c.before...), 0o600))
		testutil.OK(t, opened(t, Flags{events: file, Resumed: c.resumed}, &base.Streams{}, true))
		text, err := os.ReadFile(file)
		if lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"); err != nil || len(lines) != c.lines || !json.Valid([]byte(lines[len(lines)-1])) {
			t.Errorf("%+v: %v\n%s", c, err, text)
		}
	}
}

// Views of a run that has nothing to tell, for a mistake on its command line, leave what is there.
func TestEventsOfNoRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "events")
	testutil.OK(t, os.WriteFile(file, []byte("kept\n"), 0o600))
	v, err := Flags{events: file}.Open(t.Context(), &base.Streams{}, true)
	testutil.OK(t, err)
	testutil.OK(t, v.Close())
	if text, err := os.ReadFile(file); err != nil || string(text) != "kept\n" {
		t.Errorf("%q, %v", text, err)
	}
	testutil.OK(t, opened(t, Flags{events: file}, &base.Streams{}, true))
	if text, err := os.ReadFile(file); err != nil || !json.Valid(text) {
		t.Errorf("%q, %v", text, err)
	}
}

// What cannot be had is said before anything is measured.
func TestViewsThatCannotBe(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.OK(t, err)
	defer taken.Close()
	address, run := taken.Addr().String(), t.TempDir()
	for _, c := range []struct {
		flags Flags
		json  bool
		says  string
	}{
		{Flags{events: "-"}, true, "both want standard output"},
		{Flags{events: filepath.Join(t.TempDir(), "no", "folder")}, false, "--events: "},
		{Flags{events: "run.sqlite-wal"}, false, "--events: run.sqlite-wal: hopbench keeps a file of its own under this name; choose another"},
		{Flags{events: filepath.Join(run, "result.json"), Folder: run}, false, "choose another"},
		{Flags{prometheus: address}, false, "write an address and a port that is free"},
		{Flags{prometheus: "nonsense"}, false, "--prometheus: "},
		{Flags{ui: address}, false, "choose another port"},
		{Flags{ui: "nonsense"}, false, "write an address and a port"},
		{Flags{events: filepath.Join(t.TempDir(), "events"), prometheus: ":0", ui: address}, false, "choose another port"}, // what was opened is closed
	} {
		var told bytes.Buffer
		err := opened(t, c.flags, &base.Streams{Out: &told, Err: &told}, c.json)
		if base.Status(err, io.Discard) != base.ExitUsage || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c.flags, err)
		}
	}
}

// Metrics and the page are for this machine unless somebody says otherwise.
func TestViewsAreOfThisMachine(t *testing.T) {
	for _, page := range []string{AnyPort, ":0"} {
		var told bytes.Buffer
		testutil.OK(t, opened(t, Flags{prometheus: ":0", ui: page}, &base.Streams{Out: &told, Err: &told}, false))
		if text := told.String(); !strings.Contains(text, "metrics: http://127.0.0.1:") || !strings.Contains(text, "page: http://127.0.0.1:") || strings.Contains(text, "warning") {
			t.Errorf("%s", text)
		}
	}
}

// A full disk is told at the end, and costs no trial.
func TestEventsThatCannotBeWritten(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		testutil.Need(t, false, "/dev/full")
	}
	var told bytes.Buffer
	if err := opened(t, Flags{events: "/dev/full"}, &base.Streams{Out: &told, Err: &told}, false); err == nil || !strings.Contains(err.Error(), "write the events") {
		t.Error(err)
	}
}
