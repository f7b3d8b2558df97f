package runner

import (
	"context"
	"fmt"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/measurement"
)

// Switcher is a testbed some of whose paths share their nodes and addresses,
// so that only one of them is in force at a time.
type Switcher interface {
	// Switch brings a path into force, and says whether it had to change
	// anything for that. After an error it is not known which path is in force;
	// the next Switch tries anew.
	Switch(ctx context.Context, path string) (switched bool, err error)
}

// settling is what a trial waited for before it.
type settling struct {
	switched bool
	settle   measurement.Seconds
}

// switchTo brings a path into force where the testbed switches its paths, and
// waits until it has settled.
func (r *run) switchTo(ctx context.Context, path string) (settling, error) {
	testbed, ok := r.Testbed.(Switcher)
	if !ok {
		return settling{}, nil
	}
	switched, err := testbed.Switch(ctx, path)
	if err != nil {
		return settling{}, fmt.Errorf("switch the path: %w", err)
	}
	if !switched {
		return settling{}, nil
	}
	settle := settleTime(r.Experiment, path)
	timer := time.NewTimer(settle)
	defer timer.Stop()
	select {
	case <-timer.C:
		return settling{switched: true, settle: measurement.SecondsOf(settle)}, nil
	case <-ctx.Done():
		return settling{}, ctx.Err()
	}
}

// settleTime is how long nothing is measured after a path was switched to: its
// own time, or when its hops are switched on again, the longest of those paths
// that switch them off.
func settleTime(e *experiment.Experiment, path string) time.Duration {
	var longest time.Duration
	for _, p := range e.Paths {
		switch {
		case p.Name == path && p.VariantOf != "":
			return p.Settle
		case p.VariantOf == path:
			longest = max(longest, p.Settle)
		}
	}
	return longest
}
