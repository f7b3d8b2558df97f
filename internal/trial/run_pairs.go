package trial

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/clock"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
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
		t.failed[0], t.unanswered[0] = err, unanswered(outcome)
		t.findHoles(ctx)
		if t.failed[0] != nil {
			outcome = measurement.Outcome{}
		}
		return outcome, []measurement.Outcome{outcome}, t.failed[0]
	}
	sum := newProgressSum(t.path.Pairs, progress)
	start := newCommonStart(t.spec, len(t.path.Pairs))
	outcomes := make([]measurement.Outcome, len(t.path.Pairs))
	var group sync.WaitGroup
	for k, pair := range t.path.Pairs {
		wait := t.spec.StartOf(k, len(t.path.Pairs))
		if t.failed[k] != nil {
			start.arrive(k, wait, false)
			continue
		}
		request := t.request(pair)
		request.Spec = measuresLater(request.Spec, t.spec.StartSpan()-wait)
		request.Spec.Pairs = len(t.path.Pairs)
		if kind := request.Spec.Kind; kind == measurement.TCP || kind == measurement.Load {
			request.Spec.ShareThreads = true // with a thread per flow, 1920 flows are 3840 threads
		}
		ctx, giveUp := context.WithCancelCause(ctx)
		start.giveUp[k] = giveUp
		group.Go(func() {
			defer giveUp(nil)
			defer start.arrive(k, wait, false) // nobody waits for one that failed before its start
			if t.failed[k] = start.turn(ctx, wait); t.failed[k] != nil {
				return
			}
			began := time.Now()
			request.Prepared = func(ctx context.Context) (time.Time, error) {
				start.took(time.Since(began))
				start.arrive(k, wait, true)
				return start.await(ctx, wait)
			}
			outcomes[k], t.failed[k] = t.sources[k].Run(ctx, request, func(p measurement.Progress) {
				p.Elapsed += wait
				sum.add(k, p)
			})
			sum.gone(k)
			t.unanswered[k] = unanswered(outcomes[k])
			t.noteClocks(pair, &outcomes[k])
		})
	}
	start.open(stragglers(t.spec, len(t.path.Pairs)), func() time.Duration { return headStart(ctx, t.sources) })
	group.Wait()
	t.findHoles(ctx)
	brought := make([]brought, len(t.path.Pairs))
	for k, pair := range t.path.Pairs {
		brought[k].source, brought[k].destination = pair.Source, pair.Destination
		brought[k].outcome, brought[k].err = outcomes[k], t.failed[k]
	}
	return together(t.spec, brought)
}

// unanswered is how many requests of a pair had no answer.
func unanswered(o measurement.Outcome) int64 {
	if o.Latency == nil {
		return 0
	}
	return o.Latency.Unanswered
}

// noteClocks adds to what a pair brought how the clocks of its ends stood, where that is
// known.
func (t *trial) noteClocks(p testbed.Pair, o *measurement.Outcome) {
	for _, of := range []struct {
		name string
		end  *measurement.End
	}{{p.Source, &o.Source}, {p.Destination, &o.Destination}} {
		timed := t.timed(of.name)
		if timed == nil {
			continue
		}
		if e, known := timed.Clock(); known {
			of.end.Clock = &measurement.Clock{
				Offset: measurement.SecondsOf(e.Offset), Uncertainty: measurement.SecondsOf(e.Uncertainty), DriftPPM: e.Drift * 1e6, Steps: e.Steps,
			}
		}
	}
	if o.OneWay != nil {
		t.narrowOneWay(p, o)
	}
}

// narrowOneWay has the one-way delays of a pair be as well known as the clocks of its ends
// are to this process: it may reach them on shorter ways than the path.
func (t *trial) narrowOneWay(p testbed.Pair, o *measurement.Outcome) {
	one, near, far := o.OneWay, t.timed(p.Source), t.timed(p.Destination)
	if one.SourceStarted == 0 || one.DestinationStarted == 0 || near == nil || far == nil {
		return
	}
	least, most := measurement.Seconds(math.Inf(1)), measurement.Seconds(math.Inf(-1))
	// Bounds of straight lines: the ends of the time have the extremes.
	for _, since := range []measurement.Seconds{one.From, one.To} {
		moment := o.Started.Add(since.Duration())
		source, u, known := near.Reads(moment)
		destination, v, alsoKnown := far.Reads(moment)
		if !known || !alsoKnown {
			return
		}
		ahead := destination - time.Duration(one.DestinationStarted) - (source - time.Duration(one.SourceStarted))
		off := u + v + 2*clock.Step() // each was compared with the clock of this process
		least, most = min(least, measurement.SecondsOf(ahead-off)), max(most, measurement.SecondsOf(ahead+off))
	}
	before := *one
	if !one.Narrow(least, most) {
		return
	}
	if !one.Fill(o.Metrics) {
		*one = before // it cannot be: packets arrived before they were sent
		return
	}
	o.Facts = append(o.Facts, "one-way delay: the coordinator knows the clocks of the two agents better than stamps over the path do, which makes the bound smaller")
}

// timed is the agent of an end, nil where its clock is this process's or is not known: that of an
// end that only serves.
func (t *trial) timed(name string) testbed.Timed {
	agent, err := t.bed.Agent(name)
	if err != nil {
		return nil
	}
	timed, _ := agent.(testbed.Timed)
	return timed
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
	last     []measurement.PairProgress
	reported time.Time
}

func newProgressSum(pairs []testbed.Pair, report func(measurement.Progress)) *progressSum {
	s := &progressSum{report: report, last: make([]measurement.PairProgress, len(pairs))}
	for k, p := range pairs {
		s.last[k].Source, s.last[k].Destination = p.Source, p.Destination
	}
	return s
}

// sumInterval is how often the sum is reported: as often as each pair reports.
const sumInterval = 200 * time.Millisecond

func (s *progressSum) add(k int, p measurement.Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last[k].Throughput, s.last[k].RTT = p.Throughput, p.RTT
	if now := time.Now(); s.report != nil && now.Sub(s.reported) >= sumInterval {
		s.reported = now
		all := measurement.Progress{Elapsed: p.Elapsed, Pairs: slices.Clone(s.last)}
		for _, one := range s.last {
			all.Throughput += one.Throughput
			all.RTT = max(all.RTT, one.RTT)
		}
		s.report(all)
	}
}

// gone takes a pair that failed or is done out of the sum: what it did last it does no more.
func (s *progressSum) gone(k int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last[k].Throughput, s.last[k].RTT = 0, 0
}

// measuresLater is what one of several pairs is asked to do that starts so much before the
// last: it measures when all do.
func measuresLater(s measurement.Spec, wait measurement.Seconds) measurement.Spec {
	s = s.Defaults() // what is added to a default is none
	if s.Kind == measurement.TCP && s.Tool == measurement.Native {
		s.Lead = wait // whose warm-up ends when the rate is steady
	} else if wait > 0 {
		s.MaxWarmup += wait
	}
	return s
}

// together puts what the pairs brought back into one outcome.
func together(spec measurement.Spec, all []brought) (measurement.Outcome, []measurement.Outcome, error) {
	each := make([]measurement.Outcome, len(all))
	failed, why := 0, all[0]
	for k, b := range all {
		each[k] = b.outcome
		if b.err != nil {
			failed++
		}
		if !probe.ReasonOf(why.err).OfPath() && probe.ReasonOf(b.err).OfPath() {
			why = b // it says more of the path
		}
	}
	out := combine(spec, all)
	if failed == len(all) {
		return out, each, fmt.Errorf("none of %d pairs returned a result, %s to %s because of: %w", len(all), why.source, why.destination, why.err)
	}
	return out, each, nil
}
