package hosts

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/meter"
	"github.com/hopbench/hopbench/internal/probe"
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
				if _, _, err := e.client.Answers(context.WithoutCancel(ctx), 0); err != nil {
					o.h.lose(e, err)
				}
			})
		}
	}
	if o.h.destination().client == nil {
		asking.Go(func() { o.h.askServer(context.WithoutCancel(ctx)) })
	}
	asking.Wait()
	return nil
}

// serverTime is how long a server has to answer that is asked whether it is there.
const serverTime = 10 * time.Second

// askServer finds out whether a server that was there already still is: no connection to it
// ends with it.
func (h *Hosts) askServer(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, serverTime)
	defer cancel()
	if err := h.serverGone(ctx); err != nil {
		h.lose(h.destination(), fmt.Errorf("it answers on none of the paths: %w", err))
	}
}

// awaitServer waits for a server as for an agent.
func (h *Hosts) awaitServer(ctx context.Context) {
	if h.destination().client == nil {
		_ = h.again(ctx, func() error { return h.serverGone(ctx) }) // who proves the paths says why
	}
}

// serverGone is why a server is not there. Any path may fail, so that is known when it answers on
// none of those in force.
func (h *Hosts) serverGone(ctx context.Context) (why error) {
	var asking sync.WaitGroup
	answers := make([]error, len(h.places))
	for i, p := range h.places {
		if len(p.Set) == 0 {
			asking.Go(func() { _, answers[i] = h.source().client.Prove(ctx, h.request(p)) })
		}
	}
	asking.Wait()
	for i, p := range h.places {
		switch {
		case len(p.Set) > 0:
		case !slices.Contains([]probe.Reason{probe.Refused, probe.Unreachable, probe.Vanished, probe.TimedOut}, probe.ReasonOf(answers[i])):
			return nil // it answered, or the source could not ask
		default:
			why = cmp.Or(why, answers[i])
		}
	}
	return why
}
