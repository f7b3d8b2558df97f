package gate_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/hopbench/hopbench/internal/gate"
)

// Joined errors repeat themselves; one that wraps others in its own words is told whole.
func TestReasonOfSeveral(t *testing.T) {
	one, two := errors.New("reset"), errors.New("broken pipe")
	for err, want := range map[error]string{
		errors.Join(one, two):                         "reset (and 1 more)",
		fmt.Errorf("test: %w", errors.Join(one, one)): "reset (and 1 more)",
		fmt.Errorf("%w, as it seems (%w)", one, two):  "reset, as it seems (broken pipe)",
	} {
		if got := gate.Reason(err); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
