// Package cause finds what limited the rate of a test: it divides the time of its flows
// among causes, by what the kernels of both ends and the hops counted, and tells apart
// what these leave open by tests that were done again with one thing changed.
// docs/methodology.md states the rules with their sources.
package cause

import (
	"cmp"
	"maps"
	"slices"

	"github.com/hopbench/hopbench/internal/analysis/statistics"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// shares divides time among causes; they add to 1.
type shares map[result.Cause]float64

func (s shares) move(to result.Cause, fraction float64, from ...result.Cause) {
	for _, cause := range from {
		moved := s[cause] * fraction
		s[cause] -= moved
		s[to] += moved
	}
}

// Options are what is known of a run besides its trials. The zero value means nothing.
type Options struct {
	// Lab says that the trials are a lab's, where microseconds matter and hops that limit
	// say so themselves.
	Lab bool
	// Variations are the tests that were done again, with their trials; those of the
	// tests that explain another are among the others.
	Variations []result.Variation
	// SourceEgressBitsPerSecond and DestinationEgressBitsPerSecond are the
	// metered rates on the wire of all that the endpoints send, as they are on
	// this testbed (scaled); 0 where nothing meters.
	SourceEgressBitsPerSecond      float64
	DestinationEgressBitsPerSecond float64
	// BackEnds is how many back ends of a load balancer are the destination of a path, by
	// its name, each with that egress; those of one are absent.
	BackEnds map[string]int
}

// destinationEgress is that of all that the destination of a path is.
func (o Options) destinationEgress(path string) float64 {
	return o.DestinationEgressBitsPerSecond * float64(max(o.BackEnds[path], 1))
}

// Run is the trials of a run that count.
type Run struct {
	Tests  []result.TestInfo
	Paths  []result.PathInfo
	Trials func(path, test string) []measurement.Trial
}

// Test is the one of a name; a zero one where there is none.
func (r Run) Test(name string) result.TestInfo {
	if i := slices.IndexFunc(r.Tests, func(t result.TestInfo) bool { return t.Name == name }); i >= 0 {
		return r.Tests[i]
	}
	return result.TestInfo{}
}

// Attribute divides the time of every test with TCP flows that fill the path,
// on every path. What holds datagrams back no kernel counts.
func Attribute(run Run, opts Options) []result.Attribution {
	var out []result.Attribution
	for _, p := range run.Paths {
		from := len(out)
		for _, t := range run.Tests {
			trials := run.Trials(p.Name, t.Name)
			if k, _ := kind.Of(t.Spec.Kind); !k.Attributed || t.Explains != "" || len(trials) == 0 {
				continue
			}
			a := average(trials, t.Spec.Defaults(), opts)
			a.Path, a.Test = p.Name, t.Name
			out = append(out, a)
		}
		compareFlows(run, out[from:])
		x := explainer{run, p.Name, opts}
		for i := range out[from:] {
			x.explain(&out[from+i])
		}
	}
	return out
}

// average averages the division over the trials of one cell.
func average(trials []measurement.Trial, spec measurement.Spec, opts Options) result.Attribution {
	sum := shares{}
	var observed []flowFacts
	places := map[result.Cause][]place{}
	for _, t := range trials {
		d := divide(t, spec, opts)
		observed = append(observed, d.flows...)
		for cause, share := range d.shares {
			sum[cause] += share / float64(len(trials))
		}
		for cause, at := range d.places {
			places[cause] = append(places[cause], at)
		}
	}
	a := result.Attribution{N: len(trials), Shares: map[result.Cause]float64{}}
	for cause, share := range sum {
		// Below a millionth it is rounding, not a cause.
		if share > 1e-6 {
			a.Shares[cause] = share
		}
	}
	normalise(a.Shares)
	if cause, ok := dominant(a.Shares); ok {
		a.Hop, a.RateBitsPerSecond = together(places[cause])
	}
	a.InFlightBytes = medianOver(observed, func(f flowFacts) float64 { return f.inFlight })
	a.RTT = measurement.Seconds(medianOver(observed, func(f flowFacts) float64 { return f.rtt }))
	a.MinRTT = measurement.Seconds(medianOver(observed, func(f flowFacts) float64 { return f.minRTT }))
	a.Queued = queued(observed)
	a.MarkedFraction = medianOver(observed, func(f flowFacts) float64 { return f.marked })
	for _, t := range trials {
		a.SourceLinkBitsPerSecond = max(a.SourceLinkBitsPerSecond, t.Source.LinkBitsPerSecond)
		a.DestinationLinkBitsPerSecond = max(a.DestinationLinkBitsPerSecond, t.Destination.LinkBitsPerSecond)
	}
	a.SourceEgressBitsPerSecond, a.DestinationEgressBitsPerSecond = opts.SourceEgressBitsPerSecond, opts.destinationEgress(trials[0].Path)
	return a
}

// dominant is the cause with more than half of the time; ok is false where there is none.
// What limits one of two directions has half at most.
func dominant(s map[result.Cause]float64) (cause result.Cause, ok bool) {
	for _, c := range result.Causes() {
		if result.MostOfTheTime(s[c]) {
			return c, true
		}
	}
	return "", false
}

// together is the hop that most trials name, and the median of its rates.
func together(places []place) (hop string, rate float64) {
	trials := map[string]int{}
	var rates []float64
	for _, p := range places {
		trials[p.hop]++
	}
	// Of those that are named equally often, the first by name.
	names := slices.Sorted(maps.Keys(trials))
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(trials[b], trials[a]) })
	if len(names) > 0 {
		hop = names[0]
	}
	for _, p := range places {
		if p.hop == hop && p.rate > 0 {
			rates = append(rates, p.rate)
		}
	}
	return hop, statistics.Median(rates)
}

func normalise(s shares) {
	total := 0.0
	for _, cause := range result.Causes() {
		total += s[cause]
	}
	for cause := range s {
		s[cause] /= total
	}
}

// division is the time of some flows of a trial, divided among causes.
type division struct {
	shares shares
	flows  []flowFacts
	places map[result.Cause]place
}

// place is where on the path a cause was found: the name of a hop, empty for one that
// does not say who it is, and its rate on the wire in bit/s.
type place struct {
	hop  string
	rate float64
}

// divide divides the measured time of one trial. In a test of both
// directions each direction counts by its number of flows.
func divide(t measurement.Trial, spec measurement.Spec, opts Options) division {
	out := division{shares: shares{}, places: map[result.Cause]place{}}
	if len(t.Flows) == 0 {
		out.shares[result.CauseUnknown] = 1
		return out
	}
	for _, w := range directionsOf(t, spec, opts) {
		if len(w.flows) == 0 {
			continue
		}
		d := w.divide()
		for cause, share := range d.shares {
			out.shares[cause] += share * float64(len(w.flows)) / float64(len(t.Flows))
		}
		maps.Copy(out.places, d.places)
		out.flows = append(out.flows, d.flows...)
	}
	return out
}

// oneWay is the flows of a trial that go one way, and what is known of both ends and
// of the hops between them.
type oneWay struct {
	trial             measurement.Trial
	spec              measurement.Spec
	flows             []measurement.Flow
	goodput           float64 // bit/s, of all flows together
	sender, receiver  end
	hops              []hopFacts
	lab               bool // all hops that limit say so
	congestionControl string
	pacing            float64 // of a flow, as an end paced it, 0 for none
}

// end is one end of the path, with what its causes are called.
type end struct {
	measurement.End
	cpu, thread, link, cap result.Cause
	egressBitsPerSecond    float64 // on the wire, 0 for no cap
}

// measured is from when to when a trial was measured, from the start of its samples: for
// as long as the test asked for, or until its file was there.
func measured(t measurement.Trial, spec measurement.Spec) (from, to measurement.Seconds) {
	return t.Warmup, t.Warmup + cmp.Or(spec.Duration, measurement.Seconds(t.Metrics["transfer_seconds"]))
}

// directionsOf divides a trial's flows by the end that sends.
func directionsOf(t measurement.Trial, spec measurement.Spec, opts Options) []oneWay {
	goodput := t.Metrics["goodput_bits_per_second"]
	if spec.Kind == measurement.Load {
		goodput = t.Metrics["load_bits_per_second"]
	}
	source := end{t.Source, result.CauseSourceCPU, result.CauseSourceThread, result.CauseSourceLink, result.CauseSourceCap, opts.SourceEgressBitsPerSecond}
	destination := end{t.Destination, result.CauseDestinationCPU, result.CauseDestinationThread, result.CauseDestinationLink, result.CauseDestinationCap, opts.destinationEgress(t.Path)}
	forward := oneWay{trial: t, spec: spec, sender: source, receiver: destination, congestionControl: t.Effective["congestion_control"], pacing: t.PacedAt(spec), lab: opts.Lab}
	reverse := forward
	reverse.sender, reverse.receiver = destination, source
	forward.hops, reverse.hops = hopsOf(t, spec, false), hopsOf(t, spec, true)
	switch spec.Direction {
	case measurement.Both:
	case measurement.Receive:
		reverse.flows, reverse.goodput = t.Flows, goodput
		return []oneWay{reverse}
	default:
		forward.flows, forward.goodput = t.Flows, goodput
		return []oneWay{forward}
	}
	for _, f := range t.Flows {
		if f.Reverse {
			reverse.flows = append(reverse.flows, f)
		} else {
			forward.flows = append(forward.flows, f)
		}
	}
	reverse.goodput = goodput * measurement.ReverseShare(t.Flows)
	forward.goodput = goodput - reverse.goodput
	return []oneWay{forward, reverse}
}

// compareFlows uses what tests with other numbers of flows on the same path showed: a
// rate of the path that grows with the flows is one of each flow, and more flows are no
// remedy where they were tried and gave the same.
func compareFlows(run Run, of []result.Attribution) {
	type cell struct {
		flows   int // of all pairs together
		goodput float64
		spec    measurement.Spec
	}
	cells := make([]cell, len(of))
	for i, a := range of {
		test := run.Test(a.Test)
		var rates []float64
		trials := run.Trials(a.Path, a.Test)
		for _, t := range trials {
			rates = append(rates, t.Metrics["goodput_bits_per_second"])
		}
		cells[i] = cell{max(test.Spec.Flows, 1) * int(pairsOf(trials)), statistics.Median(rates), test.Spec}
	}
	comparable := func(a, b cell) bool { return alike(a.spec, b.spec) && a.goodput > 0 && b.goodput > 0 }
	for i := range of {
		a, own := &of[i], cells[i]
		for _, other := range cells {
			if !comparable(own, other) || other.flows == own.flows {
				continue
			}
			gain := other.goodput / own.goodput
			if other.flows > own.flows {
				a.MoreFlowsGain = max(a.MoreFlowsGain, gain)
			}
			times := float64(other.flows) / float64(own.flows)
			if a.Hop == "" && a.Shares[result.CauseHopRate] > 0 && gain > times*(1-flowRateTolerance) && gain < times*(1+flowRateTolerance) {
				shares(a.Shares).move(result.CauseHopFlowRate, 1, result.CauseHopRate)
				delete(a.Shares, result.CauseHopRate)
				a.RateBitsPerSecond /= float64(own.flows)
			}
		}
	}
	// What cannot be told of some flows, others may have told: as much with more or
	// fewer of them is the same rate of the same hop.
	for i := range of {
		if cause, ok := dominant(of[i].Shares); ok && cause != result.CauseUnknown {
			continue
		}
		for j, other := range cells {
			cause, ok := dominant(of[j].Shares)
			gain := other.goodput / cells[i].goodput
			if !ok || cause != result.CauseHopRate || !comparable(cells[i], other) || gain > noGain || gain < 1/noGain {
				continue
			}
			giveTo(of[i].Shares, cause)
			of[i].Hop, of[i].RateBitsPerSecond = of[j].Hop, of[j].RateBitsPerSecond
			break
		}
	}
}

// giveTo gives what a sender fills while something further on is slower, what is
// unknown, and what others have, to a cause.
func giveTo(s map[result.Cause]float64, cause result.Cause, others ...result.Cause) {
	shares(s).move(cause, 1, result.CauseUnknown, result.CauseCongestionWindowLoss, result.CauseCongestionWindowDelay)
	shares(s).move(cause, 1, others...)
	for c, share := range s {
		if share == 0 {
			delete(s, c)
		}
	}
}

// flowRateTolerance is how far the rates of n flows may be from n times that of one
// and still show a rate of each flow.
const flowRateTolerance = 0.15

// divide divides the time of the flows of one way: first by the kernel's own
// account of each flow, then by what is known of the ends and of the hops.
func (w oneWay) divide() division {
	d := division{shares: shares{}, places: map[result.Cause]place{}}
	received := float64(measurement.ReceivedBytes(w.flows))
	for _, f := range w.flows {
		rate := w.goodput / float64(len(w.flows))
		if received > 0 {
			rate = w.goodput * float64(f.ReceivedBytes) / received
		}
		whole := f.SentBytes
		if from, to := measured(w.trial, w.spec); w.spec.Duration > 0 {
			whole = 0
		} else if f.Final != nil && to > from { // which is of when the sender saw that the file is there
			final := *f.Final
			final.At = min(final.At, to)
			f.Final = &final
		}
		facts := account(f, whole, w.trial.Warmup, rate, w.pacing, w.congestionControl)
		w.blameReceiver(&facts)
		for cause, share := range facts.shares {
			d.shares[cause] += share / float64(len(w.flows))
		}
		d.flows = append(d.flows, facts)
	}
	if !w.atCap(&d) && !w.atLink(&d) && !w.blameHop(&d) {
		w.explainLosses(&d)
		d.blameMarks()
		w.explainWindow(&d)
	}
	w.blameCPUs(&d)
	return d
}
