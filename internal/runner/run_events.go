package runner

import (
	"time"

	"github.com/hopbench/hopbench/internal/event"
	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/trial"
)

// publishEvery is how often a trial's signs of life become an event.
const publishEvery = time.Second

// publisher makes events of the steps of a run.
type publisher struct {
	stream *event.Stream
	block  int
	trial  *event.PlannedTrial // that began last
	second second
}

// second collects the signs of life of a trial since the event before.
type second struct {
	began     time.Time // of collecting, zero before the first sign
	published bool      // an event of this trial
	moves     bool      // the trial has moved bytes: what is 0 from then on stands still
	last      measurement.Progress
	all       mean
	pairs     []mean
	hops      []measurement.HopSeries // the newest
}

// mean adds up what pairs do. A time that was not told is not counted.
type mean struct {
	throughput, rtt float64
	n, rtts         int
}

func (m *mean) add(throughput float64, rtt measurement.Seconds) {
	m.n++
	m.throughput += throughput
	if rtt > 0 {
		m.rtts++
		m.rtt += float64(rtt)
	}
}

func (m mean) of() (throughput float64, rtt measurement.Seconds) {
	return m.throughput / float64(max(m.n, 1)), measurement.Seconds(m.rtt / float64(max(m.rtts, 1)))
}

// Publish returns what publishes the steps of a run, for Options.OnEvent. Who carries the
// run out publishes its begin and its end.
func Publish(s *event.Stream) func(Event) {
	p := &publisher{stream: s}
	return p.step
}

func (p *publisher) step(e Event) {
	switch {
	case e.Rebuilt != nil:
		p.publish(e, event.Event{Code: event.Fault, Text: e.Rebuilt.Error()})
	case e.Finished != nil:
		p.ended(e)
	case e.Live != nil:
		p.second.add(*e.Live)
		if time.Since(p.second.began) >= publishEvery {
			p.publishSecond(e)
		}
	case e.Switched != nil:
		p.publish(e, event.Event{Code: event.Switched, Trial: p.trial, Switch: trial.SwitchOf(*e.Switched)})
	default:
		p.began(e)
	}
}

// publish publishes an event with where the run is.
func (p *publisher) publish(at Event, e event.Event) {
	e.Done, e.Planned, e.Left = at.Done, at.Planned, measurement.SecondsOf(at.Left)
	e, _ = measurement.OnlyFinite(e)
	p.stream.Publish(e)
}

func (p *publisher) began(e Event) {
	if e.Trial.Block != p.block && e.Trial.Block > 0 {
		p.block = e.Trial.Block
		p.publish(e, event.Event{Code: event.BlockStarted, Block: p.block})
	}
	p.trial, p.second = plannedTrial(e.Trial), second{}
	p.publish(e, event.Event{Code: event.TrialStarted, Trial: p.trial})
}

func plannedTrial(t experiment.PlannedTrial) *event.PlannedTrial {
	return &event.PlannedTrial{ID: t.ID, Block: t.Block, Path: t.Path, Test: t.Test, Kind: t.Spec.Kind, Expected: t.Spec.ExpectedDuration()}
}

func (s *second) add(p measurement.Progress) {
	if s.began.IsZero() {
		s.began = time.Now()
	}
	s.last = p
	if p.Hops != nil {
		s.hops = p.Hops
	}
	s.moves = s.moves || p.Throughput > 0
	if p.RTT == 0 && !s.moves {
		return // it says no more than that the test goes on
	}
	s.all.add(p.Throughput, p.RTT)
	if len(s.pairs) != len(p.Pairs) {
		s.pairs = make([]mean, len(p.Pairs))
	}
	for i, one := range p.Pairs {
		s.pairs[i].add(one.Throughput, one.RTT)
	}
}

// publishSecond publishes what was collected.
func (p *publisher) publishSecond(e Event) {
	s := &p.second
	out := event.Second{At: s.last.Elapsed}
	carries := measurement.HasThroughput(p.trial.Kind)
	of := func(m mean) (throughput *float64, rtt measurement.Seconds) {
		rate, rtt := m.of()
		if carries {
			throughput = &rate
		}
		return throughput, rtt
	}
	out.Throughput, out.RTT = of(s.all)
	for i, one := range s.pairs {
		pair := event.PairSecond{Source: s.last.Pairs[i].Source, Destination: s.last.Pairs[i].Destination}
		pair.Throughput, pair.RTT = of(one)
		out.Pairs = append(out.Pairs, pair)
	}
	if e.Finished == nil { // else what is left has not begun
		e.Left = max(0, e.Left-out.At.Duration())
	}
	hops := hopTotals(s.hops)
	for i := range hops {
		hops[i].Counted.At = out.At
	}
	p.publish(e, event.Event{Code: event.Measured, Trial: p.trial, Second: &out, Hops: hops})
	p.second = second{began: time.Now(), published: true, moves: s.moves}
}

// hopTotals are the last samples of hops.
func hopTotals(all []measurement.HopSeries) (out []event.HopTotals) {
	for _, h := range all {
		if n := len(h.Samples); n > 0 {
			out = append(out, event.HopTotals{Name: h.Name, Instance: h.Instance, Counted: h.Samples[n-1]})
		}
	}
	return out
}

func (p *publisher) ended(e Event) {
	t := e.Finished
	if p.trial == nil || p.trial.ID != t.ID { // one that never began: its hop died before
		p.trial, p.second = plannedTrial(e.Trial), second{published: true}
	}
	if !p.second.published && p.second.all.n > 0 {
		p.publishSecond(e) // shorter than a second
	}
	p.publish(e, event.Event{Code: event.TrialEnded, Trial: p.trial, Hops: hopTotals(t.HopSeries), Ended: &event.TrialEnd{
		Elapsed: t.Elapsed, Gate: t.Gate, Metrics: t.Metrics, Stored: measurement.SecondsOf(e.Stored),
	}})
	if spread := spreadOf(t); spread != nil {
		p.publish(e, event.Event{Code: event.Spread, Trial: p.trial, Clocks: spread})
	}
}

// spreadOf is how the starts and clocks of a trial stood, nil where it has one pair and
// one clock.
func spreadOf(t *measurement.Trial) *event.ClockSpread {
	out := event.ClockSpread{Start: measurement.StartSpread(t.Pairs)}
	clocks := false
	for _, end := range []measurement.End{t.Source, t.Destination} {
		c := end.Clock
		if c == nil {
			continue
		}
		clocks = true
		if max(c.Offset, -c.Offset) > max(out.Offset, -out.Offset) {
			out.Offset = c.Offset
		}
		out.Uncertainty = max(out.Uncertainty, c.Uncertainty)
	}
	if !clocks && len(t.Pairs) < 2 {
		return nil
	}
	return &out
}
