package trial

import (
	"cmp"
	"context"
	"math"
	"slices"
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
	askedAtOnce = 2
	answerEvery = 200 * time.Microsecond
	// askTime bounds how long they are asked, and how long they are asked again: one that says
	// nothing holds up no start.
	askTime = 2 * time.Second
	// wellKnown is the bound of the error of a clock for which its source is not asked again.
	wellKnown = 500 * time.Microsecond
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
		timed, ok := s.(testbed.Timed)
		if !ok {
			continue
		}
		if e, known := timed.Clock(); known {
			all = append(all, timed)
			shortest = min(shortest, 2*e.Uncertainty)
		}
	}
	atOnce := askedAtOnce + int(shortest/answerEvery)
	began := time.Now()
	ask(ctx, all, atOnce)
	asked := time.Since(began)
	askAgain(ctx, all, atOnce)
	for _, s := range all {
		if e, known := s.Clock(); known {
			ahead = max(ahead, 2*e.Uncertainty+2*asked+busyStart)
		}
	}
	return ahead
}

// ask asks sources for their time, so many at the same time, and waits for their answers.
func ask(ctx context.Context, sources []testbed.Timed, atOnce int) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var asking errgroup.Group
	asking.SetLimit(atOnce)
	for _, s := range sources {
		if ctx.Err() != nil {
			break
		}
		asking.Go(func() error {
			_ = s.Exchange(ctx) // what is lost is seen by its test
			return nil
		})
	}
	_ = asking.Wait() // is nil
}

// askAgain asks those once more whose clocks are not well known, the least known first, since
// an answer that had to wait for others says little; and again, until all are well known, or
// asking makes them hardly better known: then their round trips take so long.
func askAgain(ctx context.Context, sources []testbed.Timed, atOnce int) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	type doubt struct {
		source testbed.Timed
		bound  time.Duration
	}
	for before := time.Duration(math.MaxInt64); ctx.Err() == nil; {
		var doubts []doubt
		var sum time.Duration
		now := time.Now()
		for _, s := range sources {
			if _, bound, known := s.Reads(now); known && bound > wellKnown {
				doubts = append(doubts, doubt{s, bound})
				sum += bound
			}
		}
		if len(doubts) == 0 || sum > before/10*9 {
			return
		}
		slices.SortFunc(doubts, func(a, b doubt) int { return cmp.Compare(b.bound, a.bound) })
		sources, before = make([]testbed.Timed, len(doubts)), sum
		for i, d := range doubts {
			sources[i] = d.source
		}
		ask(ctx, sources, atOnce)
	}
}
