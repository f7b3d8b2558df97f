package hosts

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/testbed"
)

// observation is what is looked at during a test on hosts.
type observation struct{ h *Hosts }

// Reset has nothing to bring back: hosts do not change in a trial.
func (h *Hosts) Reset(context.Context, string) error { return nil }

// Observe begins when a test is about to.
func (h *Hosts) Observe(context.Context, string, measurement.Spec) testbed.Observation {
	return observation{h}
}

// Progress is not needed.
func (observation) Progress(measurement.Progress) {}

// End finds out, when a test failed, whether that was because of an agent: a process that
// dies takes its sockets with it, and the other end of the test sees that as a
// path that failed, often before this process hears that the agent is gone.
func (o observation) End(ctx context.Context, _ *measurement.Outcome, failed error) error {
	if failed == nil {
		return nil
	}
	var asking sync.WaitGroup
	for _, e := range o.h.ends {
		if e.client != nil {
			asking.Go(func() { o.h.askWhetherThere(context.WithoutCancel(ctx), e) })
		}
	}
	asking.Wait()
	return nil
}

// answerTime is how long an agent may take to say that it is there.
const answerTime = 5 * time.Second

// askWhetherThere waits for any answer of an agent.
func (h *Hosts) askWhetherThere(ctx context.Context, e *end) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	_, err := e.client.Counters(ctx, "")
	switch reason := probe.ReasonOf(err); {
	case reason == probe.TimedOut:
		h.lose(e, fmt.Errorf("it does not answer within %v", answerTime))
	case reason == probe.Local: // or the agent said so; the connection tells
		select {
		case <-e.client.Done():
			h.lose(e, e.client.Err())
		default:
		}
	}
}
