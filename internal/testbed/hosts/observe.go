package hosts

import (
	"context"
	"sync"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/meter"
	"github.com/hopbench/hopbench/internal/testbed"
)

// observation is what is looked at during a test on hosts.
type observation struct {
	h    *Hosts
	hops *meter.Watch
}

// Reset has nothing to bring back: hosts do not change in a trial.
func (h *Hosts) Reset(context.Context, string) error { return nil }

// Observe begins when a test is about to.
func (h *Hosts) Observe(ctx context.Context, path string, spec measurement.Spec) testbed.Observation {
	return observation{h, h.hops.Watch(ctx, path, spec)}
}

// Progress is not needed.
func (observation) Progress(measurement.Progress) {}

// Hops is what the hops have counted so far.
func (o observation) Hops() []measurement.HopSeries { return o.hops.Now() }

// End adds the figures of the path's hops. It finds out, when a test failed, whether that
// was because of an agent: a process that dies takes its sockets with it, and the other end
// of the test sees that as a path that failed, often before this process hears that the
// agent is gone.
func (o observation) End(ctx context.Context, out *measurement.Outcome, failed error) error {
	o.hops.End(out)
	if failed == nil {
		return nil
	}
	var asking sync.WaitGroup
	for _, e := range o.h.ends {
		if e.client != nil {
			asking.Go(func() {
				if err := e.client.Answers(context.WithoutCancel(ctx)); err != nil {
					o.h.lose(e, err)
				}
			})
		}
	}
	asking.Wait()
	return nil
}
