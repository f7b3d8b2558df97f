//go:build unix

package live

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/event"
	"github.com/hopbench/hopbench/internal/testutil"
)

// A pipe that nobody reads holds up neither what is published nor, for long, the end.
func TestPipeThatNobodyReads(t *testing.T) {
	t.Parallel() // it waits for drainTime
	pipe := filepath.Join(t.TempDir(), "pipe")
	testutil.OK(t, syscall.Mkfifo(pipe, 0o600))
	reader, err := os.OpenFile(pipe, os.O_RDWR, 0) // both ends, so that neither waits for the other
	testutil.OK(t, err)
	defer reader.Close()
	var told bytes.Buffer
	v, err := Flags{events: pipe}.Open(t.Context(), &base.Streams{Out: &told, Err: &told}, false)
	testutil.OK(t, err)
	for range 10_000 {
		v.Stream.Publish(event.Event{Code: event.Note, Text: strings.Repeat("more than a pipe holds ", 10)})
	}
	if err := v.Close(); err == nil || !strings.Contains(err.Error(), "write the events") {
		t.Errorf("what was not written is not said: %v", err)
	}
}

// Nor are the lines of a watch held up by one that nobody has opened for reading.
func TestLinesIntoAPipeWithoutAReader(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	testutil.OK(t, syscall.Mkfifo(pipe, 0o600))
	opened := make(chan error, 1)
	go func() {
		l, err := OpenLines(pipe, &base.Streams{})
		if err == nil {
			l.Write("told")
			err = l.Close()
		}
		opened <- err
	}()
	select {
	case err := <-opened:
		testutil.OK(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("to open a pipe waits for its reader")
	}
}
