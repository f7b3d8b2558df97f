package cause

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/hopbench/hopbench/internal/analysis/statistics"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

const (
	// keptTo is the share of a pacing rate that is carried by a flow that can.
	keptTo = 0.95
	// calmer is what remains of losses, or of waiting, once a flow keeps to what the
	// path takes.
	calmer = 0.5
	// noGain is up to what factor more flows, or larger windows, bring nothing.
	noGain = 1.1
	// risen is the share of the factor by which something was changed from which on, and
	// up to whose inverse, the rate has grown with it.
	risen = 0.75
	// candidate is the share of the time from which on a cause may be the one.
	candidate = 0.2
	// noticed is the waiting, as a share of the smallest round trip, that may be that
	// of a queue.
	noticed = 0.5
	// slower is the share of what a flow carried at which it is tried again.
	slower = 0.9
	// longestVariation is how long a test that is done again takes at most, in seconds.
	longestVariation = 2
)

// responses say how a test responds to each intervention, by what limits it; absent
// where that is not foreseen.
var responses = map[result.Cause]map[result.Intervention]result.Response{
	result.CauseHopRate:               {result.Slower: result.Calms, result.TwiceWindow: result.Stays, result.TwiceFlows: result.Stays},
	result.CauseHopFlowRate:           {result.Slower: result.Calms, result.TwiceWindow: result.Stays, result.TwiceFlows: result.Rises},
	result.CauseHopPolicer:            {result.Slower: result.Calms, result.TwiceWindow: result.Stays, result.TwiceFlows: result.Stays},
	result.CauseCongestionWindowLoss:  {result.Slower: result.Persists, result.TwiceWindow: result.Stays, result.TwiceFlows: result.Rises},
	result.CauseCongestionWindowDelay: {result.TwiceWindow: result.Stays, result.TwiceFlows: result.Rises},
	result.CauseReceiveWindow:         {result.TwiceWindow: result.Rises, result.TwiceFlows: result.Rises},
	result.CauseSendBuffer:            {result.TwiceWindow: result.Rises, result.TwiceFlows: result.Rises},
	result.CauseSenderApplication:     {result.TwiceWindow: result.Stays, result.TwiceFlows: result.Rises},
	result.CauseReceiverApplication:   {result.TwiceWindow: result.Stays, result.TwiceFlows: result.Rises},
	result.CauseSourceThread:          {result.TwiceWindow: result.Stays, result.TwiceFlows: result.Rises},
	result.CauseDestinationThread:     {result.TwiceWindow: result.Stays, result.TwiceFlows: result.Rises},
	result.CauseSourceCap:             {result.TwiceWindow: result.Stays, result.TwiceFlows: result.Stays},
	result.CauseDestinationCap:        {result.TwiceWindow: result.Stays, result.TwiceFlows: result.Stays},
	// Something else, which all flows may share.
	result.CauseUnknown: {result.TwiceWindow: result.Stays, result.TwiceFlows: result.Stays},
}

// intervene is the first intervention that is possible and to which not all of the causes
// respond alike; false where there is none. What disturbs the path least comes first.
func intervene(among []result.Cause, possible func(result.Intervention) bool) (result.Intervention, bool) {
	for _, by := range result.Interventions() {
		differ := slices.ContainsFunc(among, func(c result.Cause) bool { return responses[c][by] != responses[among[0]][by] })
		if differ && possible(by) {
			return by, true
		}
	}
	return "", false
}

// consistent are the causes to which a response fits; all of them where it fits none,
// since it is then to something else.
func consistent(among []result.Cause, by result.Intervention, r result.Response) []result.Cause {
	out := slices.DeleteFunc(slices.Clone(among), func(c result.Cause) bool { return responses[c][by] != r })
	if r == "" || len(out) == 0 {
		return among
	}
	return out
}

// explainer tells apart what may have limited the tests on a path.
type explainer struct {
	run  Run
	path string
	opts Options
}

// explain uses the tests that were done again with one thing changed, and those that
// differ in the number of their flows alone.
func (x explainer) explain(a *result.Attribution) {
	before, asked := x.candidates(*a)
	if len(asked) < 2 {
		return
	}
	among := asked
	learn := func(by result.Intervention, r result.Response, after mannered) {
		if rest := consistent(among, by, r); len(rest) < len(among) {
			among = rest
			a.Answers = append(a.Answers, result.Answer{Intervention: by, Response: r, Flows: int(after.flows / after.pairs), GoodputRatio: after.goodput / before.goodput})
		}
	}
	for _, v := range x.variations(a.Test) {
		if after, ok := manner(v.Trials, v.Test.Spec, x.opts); ok {
			learn(v.Test.Intervention, before.respond(after, v.Test.Intervention), after)
		}
	}
	for _, other := range x.otherFlows(a.Test) {
		more, fewer := other, before
		if other.flows < before.flows {
			more, fewer = before, other
		}
		learn(result.TwiceFlows, fewer.grow(more, more.flows/fewer.flows), other)
	}
	if len(among) > 1 {
		a.Remaining = among
	}
	// A rate of a hop is called that of all flows, unless more of them brought more.
	ofHop := !slices.ContainsFunc(among, func(c result.Cause) bool { return c != result.CauseHopRate && c != result.CauseHopFlowRate })
	if len(a.Answers) == 0 || len(among) > 1 && (!ofHop || a.MoreFlowsGain > noGain) {
		return
	}
	giveTo(a.Shares, among[0], asked...)
	switch among[0] {
	case result.CauseHopRate:
		a.RateBitsPerSecond = before.wire
		if before.hop.busy >= mostlyUsed { // else it is another's, which does not say so
			a.Hop, a.RateBitsPerSecond = before.rate.hop, before.rate.rate
		}
	case result.CauseHopFlowRate:
		a.RateBitsPerSecond = before.wire / before.flows
		if before.flowHop.flowBusy >= mostlyUsed*before.flows {
			a.Hop, a.RateBitsPerSecond = before.flowRate.hop, before.flowRate.rate
		}
	}
}

// candidates are the causes between which a test itself cannot tell, in the order of all
// causes; fewer than two where there is nothing to tell.
func (x explainer) candidates(a result.Attribution) (before mannered, among []result.Cause) {
	spec := x.run.Test(a.Test).Spec
	if spec.Kind != measurement.TCP || spec.Direction == measurement.Both {
		return before, nil
	}
	before, ok := manner(x.run.Trials(x.path, a.Test), spec, x.opts)
	if !ok || before.full {
		return before, nil
	}
	may := map[result.Cause]bool{}
	switch cause, known := dominant(a.Shares); {
	case known && cause == result.CauseHopRate && a.Hop == "":
		may[cause] = true
	case known && cause != result.CauseUnknown:
		return before, nil
	default:
		for cause, share := range a.Shares {
			may[cause] = share >= candidate && responses[cause] != nil
		}
		waits := before.waiting > 0 && before.waiting >= noticed*before.minRTT
		if may[result.CauseUnknown] && (before.losses > 0 || waits) {
			// Hops of a lab say themselves for how much of the time they are at it.
			may[result.CauseHopRate] = !x.opts.Lab || before.hop.busy >= mostlyUsed
			may[result.CauseCongestionWindowLoss] = before.losses > 0
			may[result.CauseCongestionWindowDelay] = before.losses == 0
		}
	}
	may[result.CauseHopFlowRate] = may[result.CauseHopFlowRate] || may[result.CauseHopRate] && !x.opts.Lab
	for _, cause := range result.Causes() {
		if may[cause] {
			among = append(among, cause)
		}
	}
	return before, among
}

// variations are those of a test on the path, with the trials of each that count.
func (x explainer) variations(test string) (out []result.Variation) {
	for _, v := range x.opts.Variations {
		if v.Path == x.path && v.Test.Explains == test {
			v.Trials = slices.DeleteFunc(slices.Clone(v.Trials), func(t measurement.Trial) bool { return !t.Gate.Passed })
			out = append(out, v)
		}
	}
	for _, t := range x.run.Tests {
		if t.Explains == test {
			out = append(out, result.Variation{Path: x.path, Test: t, Trials: x.run.Trials(x.path, t.Name)})
		}
	}
	return out
}

// otherFlows are the tests on the path that differ from one in the number of their flows
// alone.
func (x explainer) otherFlows(test string) (out []mannered) {
	own := x.run.Test(test).Spec
	for _, t := range x.run.Tests {
		if t.Explains != "" || t.Spec.Flows == own.Flows || !alike(t.Spec, own) {
			continue
		}
		if m, ok := manner(x.run.Trials(x.path, t.Name), t.Spec, x.opts); ok {
			out = append(out, m)
		}
	}
	return out
}

// alike says that two tests differ in the number of their flows, and in time, at most.
func alike(a, b measurement.Spec) bool {
	for _, s := range []*measurement.Spec{&a, &b} {
		s.Flows, s.Duration, s.MaxWarmup = 0, 0, 0
	}
	return a == b && a.Kind == measurement.TCP
}

// Vary lists tests to do again with one thing changed: one for each test on each path of
// which neither its own trials nor the variations of the options tell what limited it,
// while that one may.
func Vary(run Run, opts Options) []result.Variation {
	var out []result.Variation
	for _, a := range Attribute(run, opts) {
		if len(a.Remaining) == 0 {
			continue
		}
		x := explainer{run, a.Path, opts}
		before, _ := x.candidates(a)
		tried := x.variations(a.Test)
		test := run.Test(a.Test)
		by, ok := intervene(a.Remaining, func(by result.Intervention) bool {
			_, possible := vary(test, by, before.goodput/before.flows)
			return possible && !slices.ContainsFunc(tried, func(v result.Variation) bool { return v.Test.Intervention == by })
		})
		if ok {
			varied, _ := vary(test, by, before.goodput/before.flows)
			out = append(out, result.Variation{Path: a.Path, Test: varied})
		}
	}
	return out
}

// vary is a test with one thing changed, each of whose flows carried so many bit/s; false
// where that thing cannot be changed.
func vary(test result.TestInfo, by result.Intervention, flowGoodput float64) (result.TestInfo, bool) {
	out := test
	out.Explains, out.Intervention = test.Name, by
	s := &out.Spec
	s.Duration = min(s.Duration, longestVariation)
	var name, title string
	switch by {
	case result.Slower:
		name, title = "-slower", ", a tenth slower"
		s.PacingBitsPerSecond = slower * flowGoodput
	case result.TwiceFlows:
		name, title = "-twice-flows", ", twice the flows"
		s.Flows = 2 * max(s.Flows, 1)
	case result.TwiceWindow:
		// What the kernel tunes by itself cannot be raised from here.
		name, title = "-twice-window", ", twice the window"
		if s.WindowBytes+s.SendBufferBytes+s.ReceiveBufferBytes == 0 {
			return out, false
		}
		s.WindowBytes, s.SendBufferBytes, s.ReceiveBufferBytes = 2*s.WindowBytes, 2*s.SendBufferBytes, 2*s.ReceiveBufferBytes
	}
	out.Name, out.Title = test.Name+name, cmp.Or(test.Title, test.Name)+title
	return out, len(kind.Check(*s)) == 0
}

// mannered is how a test went on the path.
type mannered struct {
	flows          float64 // of all pairs together
	pairs          float64
	goodput, wire  float64 // bit/s
	pace           float64 // bit/s, of all flows together, 0 for none
	losses         float64 // retransmitted segments of each that was carried
	waiting        float64 // seconds, of the round trip
	minRTT         float64 // seconds
	window         float64 // bytes, the largest that was advertised, 0 where not known
	buffer         float64 // bytes, the sender's, likewise
	hop, flowHop   hopFacts
	rate, flowRate place // of these
	full           bool  // an end may have been the limit
}

// manner is that of the trials of a test of one direction, their medians; false where
// the kernel told nothing of them.
func manner(trials []measurement.Trial, spec measurement.Spec, opts Options) (out mannered, ok bool) {
	out.pairs = pairsOf(trials)
	out.flows = float64(max(spec.Flows, 1)) * out.pairs
	out.pace = spec.PacingBitsPerSecond * out.flows
	spec = spec.Defaults()
	var goodput, wire, losses, waiting, minRTT, window, buffer []float64
	for _, t := range trials {
		w := directionsOf(t, spec, opts)[0]
		if len(w.flows) == 0 || w.goodput <= 0 {
			continue
		}
		d := w.divide()
		sent, again := 0.0, 0.0
		for _, f := range d.flows {
			sent += f.rate * f.elapsed / 8 / max(float64(f.mss), 1)
			again += f.retransmits
		}
		if sent == 0 {
			continue
		}
		goodput, wire, losses = append(goodput, w.goodput), append(wire, d.wire(w.goodput)), append(losses, again/sent)
		waiting = append(waiting, medianOver(d.flows, func(f flowFacts) float64 { return f.rtt - f.minRTT }))
		minRTT = append(minRTT, medianOver(d.flows, func(f flowFacts) float64 { return f.minRTT }))
		window = append(window, medianOver(d.flows, func(f flowFacts) float64 { return f.largestWindow }))
		bytes, _ := strconv.ParseFloat(t.Effective["send_buffer_bytes"], 64)
		buffer = append(buffer, bytes)
		out.full = out.full || w.endsFull(&d)
		if h := most(w.hops, func(h hopFacts) float64 { return h.busy }); h.busy > 0 {
			out.hop, out.rate = h, place{h.ofRate(), w.rateOf(&d, h)}
		}
		if h := most(w.hops, func(h hopFacts) float64 { return h.flowBusy }); h.flowBusy > 0 {
			out.flowHop, out.flowRate = h, place{h.ofFlowRate(), w.flowRateOf(&d, h)}
		}
	}
	if len(goodput) == 0 {
		return out, false
	}
	out.goodput, out.wire, out.losses, out.waiting = statistics.Median(goodput), statistics.Median(wire), statistics.Median(losses), statistics.Median(waiting)
	out.minRTT, out.window, out.buffer = statistics.Median(minRTT), statistics.Median(window), statistics.Median(buffer)
	return out, true
}

// respond is the response to an intervention, after which the test went so; empty where
// that is neither one nor the other.
func (m mannered) respond(after mannered, by result.Intervention) result.Response {
	switch by {
	case result.Slower:
		return m.calm(after)
	case result.TwiceWindow:
		// A kernel that did not allow it has changed nothing.
		if !raised(m.window, after.window) && !raised(m.buffer, after.buffer) {
			return ""
		}
	}
	return m.grow(after, 2)
}

// raised says that something known is about twice as large.
func raised(before, after float64) bool { return before > 0 && after >= 2*risen*before }

// calm is the response to a pace below what was carried.
func (m mannered) calm(after mannered) result.Response {
	kept := after.goodput >= keptTo*after.pace
	switch {
	case after.pace <= 0 || after.full:
	case kept && (m.losses > 0 && after.losses <= calmer*m.losses || m.losses == 0 && after.waiting <= calmer*m.waiting):
		return result.Calms
	case !kept && m.losses > 0 && after.losses > calmer*m.losses:
		return result.Persists
	}
	return ""
}

// grow is the response to so many times as much of something.
func (m mannered) grow(after mannered, times float64) result.Response {
	gain := after.goodput / m.goodput
	switch {
	case gain >= risen*times && risen*gain <= times:
		return result.Rises
	case gain <= noGain && gain >= 1/noGain && !after.full:
		return result.Stays
	}
	return ""
}
