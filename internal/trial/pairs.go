package trial

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/clock"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/testbed"
)

// test does the trial's test: by the only pair, or by all at the same time. The
// outcome is all of them together, each what every single one brought back. An
// error is that of the only pair, or of all.
func (t *trial) test(ctx context.Context, progress func(measurement.Progress)) (measurement.Outcome, []measurement.Outcome, error) {
	if len(t.path.Pairs) == 1 {
		pair := t.path.Pairs[0]
		outcome, err := t.sources[0].Run(ctx, t.request(pair), progress)
		t.noteClocks(pair, &outcome)
		return outcome, []measurement.Outcome{outcome}, err
	}
	sum := &progressSum{last: make([]measurement.Progress, len(t.path.Pairs)), report: progress}
	common := newCommonStart(len(t.path.Pairs))
	brought := make([]brought, len(t.path.Pairs))
	var group sync.WaitGroup
	for k, pair := range t.path.Pairs {
		request := t.request(pair)
		request.Pairs = len(t.path.Pairs)
		if kind := request.Spec.Kind; kind == measurement.TCP || kind == measurement.Load {
			request.Spec.ShareThreads = true // with a thread per flow, 1920 flows are 3840 threads
		}
		arrive := sync.OnceFunc(common.arrived.Done)
		request.Prepared = func(ctx context.Context) (time.Time, error) {
			arrive()
			select {
			case <-common.start:
				return common.at, nil
			case <-ctx.Done():
				return time.Time{}, context.Cause(ctx)
			}
		}
		group.Go(func() {
			defer arrive() // nobody waits for one that failed before its start
			b := &brought[k]
			b.source, b.destination = pair.Source, pair.Destination
			b.outcome, b.err = t.sources[k].Run(ctx, request, func(p measurement.Progress) { sum.add(k, p) })
			t.noteClocks(pair, &b.outcome)
		})
	}
	common.open(headStart(t.sources))
	group.Wait()
	return together(t.spec, brought)
}

// commonStart lets pairs start when all are prepared or have failed.
type commonStart struct {
	arrived sync.WaitGroup
	start   chan struct{}
	at      time.Time // once start is closed
}

func newCommonStart(pairs int) *commonStart {
	c := &commonStart{start: make(chan struct{})}
	c.arrived.Add(pairs)
	return c
}

// open waits for every pair and starts those that are there: at a moment that is so far
// ahead, or at once where that is 0.
func (c *commonStart) open(ahead time.Duration) {
	c.arrived.Wait()
	if ahead > 0 {
		c.at = time.Now().Add(ahead)
	}
	close(c.start)
}

// busyStart is what the machine of a coordinator or of an agent may take, while it is
// busy, to pass on a start.
const busyStart = 50 * time.Millisecond

// headStart is how far ahead a common start has to be for every source to know of it in
// time, 0 where their clocks are not known: those of a lab hear of it at once. What the
// way there takes is at most a round trip, of which the uncertainty of a clock is half.
func headStart(sources []testbed.Agent) (ahead time.Duration) {
	for _, s := range sources {
		if e, known := clockOf(s); known {
			ahead = max(ahead, 2*e.Uncertainty+busyStart)
		}
	}
	return ahead
}

func clockOf(a testbed.Agent) (clock.Estimate, bool) {
	timed, ok := a.(testbed.Timed)
	if !ok {
		return clock.Estimate{}, false
	}
	return timed.Clock()
}

// noteClocks adds to what a pair brought how the clocks of its ends stood, where that is
// known.
func (t *trial) noteClocks(p testbed.Pair, o *measurement.Outcome) {
	for _, of := range []struct {
		name string
		end  *measurement.End
	}{{p.Source, &o.Source}, {p.Destination, &o.Destination}} {
		agent, err := t.bed.Agent(of.name)
		if err != nil {
			continue // an end that only serves
		}
		if e, known := clockOf(agent); known {
			of.end.Clock = &measurement.Clock{
				Offset: measurement.SecondsOf(e.Offset), Uncertainty: measurement.SecondsOf(e.Uncertainty), DriftPPM: e.Drift * 1e6, Steps: e.Steps,
			}
		}
	}
}

// brought is what one pair came back with.
type brought struct {
	source, destination string
	outcome             measurement.Outcome
	err                 error
}

// progressSum adds up the signs of life of several pairs.
type progressSum struct {
	report func(measurement.Progress)

	mu       sync.Mutex
	last     []measurement.Progress
	reported time.Time
}

// sumInterval is how often the sum is reported: as often as each pair reports.
const sumInterval = 200 * time.Millisecond

func (s *progressSum) add(k int, p measurement.Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last[k] = p
	if now := time.Now(); s.report != nil && now.Sub(s.reported) >= sumInterval {
		s.reported = now
		all := measurement.Progress{Elapsed: p.Elapsed}
		for _, one := range s.last {
			all.Throughput += one.Throughput
			all.RTT = max(all.RTT, one.RTT)
		}
		s.report(all)
	}
}

// together puts what the pairs brought back into one outcome.
func together(spec measurement.Spec, all []brought) (measurement.Outcome, []measurement.Outcome, error) {
	each := make([]measurement.Outcome, len(all))
	failed := 0
	for k, b := range all {
		each[k] = b.outcome
		if b.err != nil {
			failed++
		}
	}
	out := combine(spec, all)
	if failed == len(all) {
		return out, each, fmt.Errorf("none of %d pairs brought back a result, %s to %s because of: %w", len(all), all[0].source, all[0].destination, all[0].err)
	}
	return out, each, nil
}
