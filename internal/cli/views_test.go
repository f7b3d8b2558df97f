package cli

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
func opened(t *testing.T, f viewFlags, s *streams, json bool) error {
	t.Helper()
	v, err := f.open(t.Context(), s, json)
	if err != nil {
		return err
	}
	v.stream.Publish(event.Event{Code: event.Note, Text: "told"})
	return v.close()
}

func TestEventsAreWritten(t *testing.T) {
	var out, told bytes.Buffer
	file := filepath.Join(t.TempDir(), "events")
	testutil.OK(t, opened(t, viewFlags{events: file}, &streams{out: &out, err: &told}, true))
	text, err := os.ReadFile(file)
	testutil.OK(t, err)
	s := &streams{out: &out, err: &told}
	testutil.OK(t, opened(t, viewFlags{events: "-"}, s, false))
	if s.out == &out {
		t.Error("the report would be printed among the events")
	}
	for _, written := range [][]byte{text, out.Bytes()} {
		var e event.Event
		if err := json.Unmarshal(written, &e); err != nil || e.Text != "told" || e.Number != 1 || e.Time.IsZero() || bytes.Count(written, []byte("\n")) != 1 {
			t.Errorf("%v: %s", err, written)
		}
	}
}

// What cannot be had is said before anything is measured.
func TestViewsThatCannotBe(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.OK(t, err)
	defer taken.Close()
	address := taken.Addr().String()
	for _, c := range []struct {
		flags viewFlags
		json  bool
		says  string
	}{
		{viewFlags{events: "-"}, true, "both want standard output"},
		{viewFlags{events: filepath.Join(t.TempDir(), "no", "folder")}, false, "--events: "},
		{viewFlags{prometheus: address}, false, "write an address and a port that is free"},
		{viewFlags{prometheus: "nonsense"}, false, "--prometheus: "},
		{viewFlags{ui: address}, false, "choose another port"},
		{viewFlags{ui: "nonsense"}, false, "write an address and a port"},
		{viewFlags{events: filepath.Join(t.TempDir(), "events"), prometheus: ":0", ui: address}, false, "choose another port"}, // what was opened is closed
	} {
		var told bytes.Buffer
		err := opened(t, c.flags, &streams{out: &told, err: &told}, c.json)
		if base.Status(err, io.Discard) != base.ExitUsage || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c.flags, err)
		}
	}
}

// Metrics and the page are for this machine unless somebody says otherwise.
func TestViewsAreOfThisMachine(t *testing.T) {
	for _, page := range []string{anyPort, ":0"} {
		var told bytes.Buffer
		testutil.OK(t, opened(t, viewFlags{prometheus: ":0", ui: page}, &streams{out: &told, err: &told}, false))
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
	if err := opened(t, viewFlags{events: "/dev/full"}, &streams{out: &told, err: &told}, false); err == nil || !strings.Contains(err.Error(), "write the events") {
		t.Error(err)
	}
}
