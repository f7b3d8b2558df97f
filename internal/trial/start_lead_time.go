package trial

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hopbench/hopbench/internal/testbed"
)

// busyStart is what the machine of a coordinator or of an agent may take, while it is
// busy, to pass on a start.
const busyStart = 50 * time.Millisecond

const (
	// askedAtOnce is how many sources are asked for their time at the same time, besides those
	// whose answers are on the way, one in each answerEvery: more would only wait for each
	// other, and say less of their clocks.
	askedAtOnce = 8
	answerEvery = 200 * time.Microsecond
	// askTime bounds how long they are asked: one that says nothing holds up no start.
	askTime = 2 * time.Second
)

// headStart is how far ahead a common start has to be for every source to know of it in
// time, 0 where their clocks are not known: those of a lab hear of it at once. That all are
// told takes no longer than asking them all for their time, and hearing all answers, which is
// done here, once they are prepared, and makes their clocks better known. What an order may be
// held up beyond that is as much again, and busyStart.
func headStart(ctx context.Context, sources []testbed.Agent) (ahead time.Duration) {
	var all []testbed.Timed
	shortest := askTime // round trip
	for _, s := range sources {
		if e, known := clockOf(s); known {
			all = append(all, s.(testbed.Timed))
			shortest = min(shortest, 2*e.Uncertainty)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	began := time.Now()
	var asking errgroup.Group
	asking.SetLimit(askedAtOnce + int(shortest/answerEvery))
	for _, s := range all {
		if ctx.Err() != nil {
			break
		}
		asking.Go(func() error {
			_ = s.Exchange(ctx) // what is lost is seen by its test
			return nil
		})
	}
	_ = asking.Wait() // is nil
	asked := time.Since(began)
	for _, s := range all {
		if e, known := s.Clock(); known {
			ahead = max(ahead, 2*e.Uncertainty+2*asked+busyStart)
		}
	}
	return ahead
}
