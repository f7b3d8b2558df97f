package cause_test

import (
	"slices"
	"testing"

	"github.com/hopbench/hopbench/internal/analysis"
	"github.com/hopbench/hopbench/internal/analysis/cause"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/words"
)

// varied is a test over one flow and what is asked to tell what limited it, until nothing
// is asked any more. Respond gives the rate and the flow of a variation.
func varied(t *testing.T, spec measurement.Spec, rate float64, first measurement.Flow, respond func(result.TestInfo) (float64, measurement.Flow)) (asked []result.TestInfo, a result.Attribution) {
	t.Helper()
	test := result.TestInfo{Name: "flows", Title: "1 flow", Spec: spec.Defaults()}
	trial := throughputTrial(rate, first)
	trial.Test = test.Name
	for range 5 {
		r := &result.Result{Trials: []measurement.Trial{trial}, Tests: []result.TestInfo{test}, Paths: pathsNamed("hop")}
		for _, a := range asked {
			rate, f := respond(a)
			again := throughputTrial(rate, f)
			again.Test = a.Name
			if a.Spec.Flows == 2 {
				again.Flows = append(again.Flows, f)
			}
			excluded := again
			excluded.Gate.Passed, excluded.Metrics = false, measurement.Metrics{goodput: 1}
			r.Variations = append(r.Variations, result.Variation{Path: "hop", Test: a, Trials: []measurement.Trial{excluded, again}})
		}
		analysis.Fill(r, analysis.Options{})
		if len(r.Attributions) != 1 || len(r.Cells) != len(trial.Metrics) {
			t.Fatalf("%d attributions, %d cells", len(r.Attributions), len(r.Cells))
		}
		further := analysis.Vary(r.Trials, r.Tests, r.Paths, analysis.Options{Options: cause.Options{Variations: r.Variations}})
		if len(further) == 0 {
			return asked, r.Attributions[0]
		}
		asked = append(asked, further[0].Test)
	}
	t.Fatalf("more is asked again and again: %+v", asked)
	return nil, a
}

// What remains after one intervention is asked by another, and each is tried once.
func TestVary(t *testing.T) {
	lossy := flow{busy: 1, inFlight: 100e3, cwnd: 105e3, rtt: 10e-3, minRTT: 9e-3, retransmits: 100}
	calm := flow{busy: 1, inFlight: 50e3, cwnd: 400e3, rtt: 9.5e-3, minRTT: 9e-3, pacing: 72e6}
	queueing := flow{busy: 1, inFlight: 100e3, cwnd: 105e3, rtt: 10e-3, minRTT: 1e-3}
	half := flow{busy: 1, window: 0.45, inFlight: 10e3, cwnd: 400e3, rtt: 10e-3, minRTT: 9e-3}
	advertising := func(window int64) measurement.Flow {
		return half.with(func(s *measurement.TCPInfo) { s.SendWindow, s.Delivered = window, 0 })
	}
	spec := measurement.Spec{Kind: measurement.TCP}
	windowed := spec
	windowed.WindowBytes = 100e3
	type answer struct {
		rate float64
		flow measurement.Flow
	}
	type answers map[result.Intervention]answer
	for _, c := range []struct {
		name     string
		spec     measurement.Spec
		first    measurement.Flow
		respond  answers
		asked    []result.Intervention
		want     result.Cause
		rate     float64
		sentence string
	}{
		{name: "rate of a hop", spec: spec, first: lossy.build(), respond: answers{result.Slower: {71.9e6, calm.build()}, result.TwiceFlows: {80e6, lossy.build()}},
			asked: []result.Intervention{result.Slower, result.TwiceFlows}, want: result.CauseHopRate, rate: 83.6e6,
			sentence: "at the rate of a hop of the path, 83.6 Mbit/s; paced a tenth slower it carried 0.899× as much, with less than half of the losses or of the queueing; with 2 flows it carried 1.000× as much"},
		{name: "rate per flow", spec: spec, first: lossy.build(), respond: answers{result.Slower: {71.9e6, calm.build()}, result.TwiceFlows: {158e6, lossy.build()}},
			asked: []result.Intervention{result.Slower, result.TwiceFlows}, want: result.CauseHopFlowRate, rate: 83.6e6},
		{name: "losses at any rate", spec: spec, first: lossy.build(), respond: answers{result.Slower: {60e6, lossy.build()}}, asked: []result.Intervention{result.Slower}, want: result.CauseCongestionWindowLoss},
		{name: "neither", spec: spec, first: lossy.build(), respond: answers{result.Slower: {71e6, lossy.build()}, result.TwiceFlows: {100e6, lossy.build()}},
			asked: []result.Intervention{result.Slower, result.TwiceFlows}, want: result.CauseUnknown,
			sentence: "the senders' counters do not show the limit for 100 % of the time; it may be congestion window (loss), hop's rate, hop's rate per flow or something else"},
		{name: "queue of a rate per flow", spec: spec, first: queueing.build(), respond: answers{result.TwiceFlows: {155e6, queueing.build()}}, asked: []result.Intervention{result.TwiceFlows}, want: result.CauseHopFlowRate, rate: 83.6e6},
		{name: "window", spec: windowed, first: advertising(100e3), respond: answers{result.TwiceWindow: {158e6, advertising(200e3)}}, asked: []result.Intervention{result.TwiceWindow}, want: result.CauseReceiveWindow},
		{name: "window that the kernel does not raise", spec: windowed, first: advertising(100e3), respond: answers{result.TwiceWindow: {158e6, advertising(100e3)}, result.TwiceFlows: {100e6, advertising(100e3)}},
			asked: []result.Intervention{result.TwiceWindow, result.TwiceFlows}, want: result.CauseUnknown},
		{name: "window that the kernel tunes", spec: spec, first: advertising(100e3), respond: answers{result.TwiceFlows: {100e6, advertising(100e3)}}, asked: []result.Intervention{result.TwiceFlows}, want: result.CauseUnknown},
		{name: "known", spec: spec, first: flow{busy: 1, window: 0.9, inFlight: 10e3, cwnd: 400e3, rtt: 10e-3, minRTT: 9e-3}.build(), want: result.CauseReceiveWindow},
	} {
		t.Run(c.name, func(t *testing.T) {
			tests, a := varied(t, c.spec, 80e6, c.first, func(v result.TestInfo) (float64, measurement.Flow) {
				r, ok := c.respond[v.Intervention]
				if !ok {
					t.Fatalf("asks for %+v", v)
				}
				return r.rate, r.flow
			})
			var asked []result.Intervention
			for _, v := range tests {
				asked = append(asked, v.Intervention)
				if v.Explains != "flows" || v.Spec.Duration > 2 || v.Spec.Flows != 1 && v.Intervention != result.TwiceFlows {
					t.Errorf("asks for %+v", v)
				}
			}
			if !slices.Equal(asked, c.asked) {
				t.Errorf("asked %v, want %v", asked, c.asked)
			}
			text := plain(words.Attribution(a, measurement.Spec{}))
			if cause := largest(a.Shares); cause != c.want || c.rate > 0 && !near(a.RateBitsPerSecond, c.rate, 0.01*c.rate) {
				t.Errorf("%s, want %s: %+v: %s", cause, c.want, a, text)
			}
			if c.sentence != "" && text != c.sentence {
				t.Errorf("sentence\n%s\nwant\n%s", text, c.sentence)
			}
		})
	}
}

func largest(s map[result.Cause]float64) (out result.Cause) {
	for _, c := range result.Causes() {
		if s[c] > s[out] {
			out = c
		}
	}
	return out
}

// In a lab hops say themselves for how much of the time they send at their rate: one that
// does so for little of it is no candidate.
func TestLabsHopsSayThemselves(t *testing.T) {
	lossy := flow{busy: 1, inFlight: 100e3, cwnd: 105e3, rtt: 10e-3, minRTT: 9e-3, retransmits: 100}.build()
	test := result.TestInfo{Name: "flows-1", Spec: measurement.Spec{Kind: measurement.TCP}.Defaults()}
	for busy, want := range map[float64]bool{0.5: false, 0.8: true} {
		trial := throughputTrial(80e6, lossy)
		trial.HopSeries = []measurement.HopSeries{hopCounts("box", measurement.HopSample{ForwardBusy: measurement.Seconds(busy)})}
		a := analysis.Analyse([]measurement.Trial{trial}, []result.TestInfo{test}, pathsNamed("hop"), analysis.Options{Options: cause.Options{Lab: true}}).Attributions[0]
		if slices.Contains(a.Remaining, result.CauseHopRate) != want || slices.Contains(a.Remaining, result.CauseHopFlowRate) {
			t.Errorf("a hop that sends for %v of the time: %v", busy, a.Remaining)
		}
	}
}

// Of two flows whose rate by the hop is as much as the source may send, half of the trials reach
// the one and half the other; with one flow half as much came. It is the hop's, which has a name.
func TestRatePerFlowNearTheCap(t *testing.T) {
	of := func(test string, goodput, flowBusy float64, flows int) measurement.Trial {
		f := flow{busy: 1, inFlight: 100e3, cwnd: 105e3, rtt: 10e-3, minRTT: 1e-3}.build()
		x := throughputTrial(goodput, slices.Repeat([]measurement.Flow{f}, flows)...)
		x.Test = test
		x.HopSeries = []measurement.HopSeries{hopCounts("box", measurement.HopSample{ForwardFlowBusy: measurement.Seconds(flowBusy)})}
		return x
	}
	var tests []result.TestInfo
	for i, name := range []string{"flows-1", "flows-2"} {
		tests = append(tests, result.TestInfo{Name: name, Spec: measurement.Spec{Kind: measurement.TCP, Flows: i + 1}.Defaults()})
	}
	trials := []measurement.Trial{of("flows-1", 40e6, 0.99, 1), of("flows-2", 79e6, 1.9, 2), of("flows-2", 75e6, 1.98, 2)}
	for i := range trials {
		trials[i].Block = i + 1
	}
	a := analysis.Analyse(trials, tests, pathsNamed("hop"), analysis.Options{Options: cause.Options{Lab: true, SourceEgressBitsPerSecond: 84e6}}).Attributions[1]
	if a.Shares[result.CauseHopFlowRate] != 1 || a.Hop != "box" || !near(a.RateBitsPerSecond, 40e6, 2e6) {
		t.Errorf("%s: %+v", words.Attribution(a, measurement.Spec{}), a)
	}
}
