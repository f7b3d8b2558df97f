package cli

import (
	"bytes"
	"context"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/hopbench/hopbench/internal/cli/base"
)

// Stopped, doctor says so, and not that what it was about to try is missing.
func TestDoctorIsStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	c := doctorCommand(base.Streams{Out: &out, Err: &out})
	c.SetArgs(nil)
	c.SilenceErrors, c.SilenceUsage = true, true
	if err := c.ExecuteContext(ctx); err == nil || !strings.Contains(err.Error(), "stopped") || strings.Contains(out.String(), "MISSING") {
		t.Errorf("%v:\n%s", err, out.String())
	}
}

// broken takes nothing.
type broken struct{ error }

func (b broken) Write([]byte) (int, error) { return 0, b.error }

// Output that could not be written is told and in the exit status, also of commands that write
// it line by line; a reader that has gone is no failure.
func TestOutputThatCannotBeWritten(t *testing.T) {
	for _, line := range []string{"--help", "version", "experiments check aa-null", "results " + t.TempDir() + " --json"} {
		for err, want := range map[error]int{syscall.ENOSPC: base.ExitFailed, nil: base.ExitDone} {
			var out io.Writer = io.Discard
			if err != nil {
				out = broken{err}
			}
			var problems bytes.Buffer
			if status := Main(strings.Fields(line), nil, out, &problems); status != want || strings.Contains(problems.String(), "no space left") != (err != nil) {
				t.Errorf("%s, %v: status %d: %s", line, err, status, problems.String())
			}
		}
	}
	var problems bytes.Buffer
	if status := Main([]string{"--help"}, nil, broken{syscall.EPIPE}, &problems); status != base.ExitDone {
		t.Errorf("status %d: %s", status, problems.String())
	}
}
