package cli

import (
	"bytes"
	"context"
	"strings"
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
