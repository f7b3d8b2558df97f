package live

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/event"
	"github.com/hopbench/hopbench/internal/testutil"
)

// fullDisk has room for so many bytes, until it is asked so often.
type fullDisk struct {
	bytes.Buffer
	room, writes, until int
}

func (d *fullDisk) Write(p []byte) (int, error) {
	if d.writes++; d.writes > d.until {
		return d.Buffer.Write(p)
	}
	n, _ := d.Buffer.Write(p[:min(len(p), d.room)])
	if d.room -= n; n < len(p) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

// A disk that is full for a while costs no line, half a line neither, and is told of when it
// happens; one that stays full is told of at the end, too.
func TestLinesOntoAFullDisk(t *testing.T) {
	const events = 8
	var want strings.Builder
	for i := range events {
		fmt.Fprintf(&want, "\"event %d\"\n", i)
	}
	for _, c := range []struct {
		name    string
		until   int // a write
		written string
		err     string
	}{
		{"has room again", 5, want.String(), ""},
		{"has room at the end", events, want.String(), ""},
		{"stays full", 2 * events, want.String()[:25], syscall.ENOSPC.Error()},
	} {
		t.Run(c.name, func(t *testing.T) {
			var told bytes.Buffer
			disk := &fullDisk{room: 25, until: c.until}
			l := writeLines(disk, func() error { return nil }, &told)
			for i := range events {
				l.Write(fmt.Sprintf("event %d", i))
			}
			if err := l.Close(); (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("the end: %v", err)
			}
			if disk.String() != c.written {
				t.Errorf("written: %q", disk.String())
			}
			if got := told.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, syscall.ENOSPC.Error()) {
				t.Errorf("told: %q", got)
			}
		})
	}
}

// Nor does it cost a run an event; its user is warned at once.
func TestEventsOntoAFullDisk(t *testing.T) {
	disk := &fullDisk{room: 25, until: 5}
	v := &Views{Stream: event.NewStream()}
	v.write(t.Context(), disk, func() error { return nil })
	for range 8 {
		v.Stream.Publish(event.Event{Code: event.Note, Text: "told"})
	}
	warned := event.Event{}
	for reader := v.Stream.Read(8); warned.Code != event.Warning; {
		events, err := reader.Next(t.Context())
		testutil.OK(t, err)
		warned = events[0]
	}
	if !strings.Contains(warned.Text, syscall.ENOSPC.Error()) {
		t.Errorf("warned: %q", warned.Text)
	}
	testutil.OK(t, v.Close())
	lines := json.NewDecoder(disk)
	for number := int64(1); number <= warned.Number; number++ {
		var e event.Event
		if err := lines.Decode(&e); err != nil || e.Number != number {
			t.Fatalf("event %d: %v, %+v", number, err, e)
		}
	}
}

// What waits for room is bounded, and what is left out is told of.
func TestLinesOntoADiskThatStaysFull(t *testing.T) {
	l := writeLines(&fullDisk{until: 1000}, func() error { return nil }, io.Discard)
	for range 3 {
		l.Write(strings.Repeat("x", mostPending/2))
	}
	if err := l.Close(); err == nil || !strings.Contains(err.Error(), "2 events found no room") {
		t.Errorf("the end: %v", err)
	}
}

// noReader is a pipe whose reader has gone.
type noReader struct{}

func (noReader) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func TestLinesWithoutAReader(t *testing.T) {
	var told bytes.Buffer
	l := writeLines(noReader{}, func() error { return nil }, &told)
	l.Write("event")
	if err := l.Close(); err == nil || !strings.Contains(told.String(), "nobody reads them any more") {
		t.Errorf("%v, %q", err, told.String())
	}
}

// Lines do not go on where those of a program that was killed ended.
func TestLinesBehindHalfALine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "events")
	for before, want := range map[string]string{"": "1\n", "0\n": "0\n1\n", `{"half`: "{\"half\n1\n"} {
		testutil.OK(t, os.WriteFile(file, []byte(before), 0o600))
		l, err := OpenLines(file, &base.Streams{Err: io.Discard})
		testutil.OK(t, err)
		l.Write(1)
		testutil.OK(t, l.Close())
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("behind %q: %q, %v", before, got, err)
		}
	}
}
