package trial

import (
	"context"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/testbed"
	"github.com/hopbench/hopbench/internal/testutil"
)

// tracer shows one trace after the other, the last for ever.
type tracer struct {
	ways    [][]string
	traced  int
	timeout time.Duration // of the last trace
}

func (r *tracer) Run(_ context.Context, request probe.Request, _ func(measurement.Progress)) (measurement.Outcome, error) {
	r.timeout = request.Spec.Timeout.Duration()
	way := r.ways[min(r.traced, len(r.ways)-1)]
	r.traced++
	hops := traced(way)
	if n := len(hops); n > 0 && way[n-1] == "dst" {
		hops[n-1].Reached = true
	}
	return measurement.Outcome{Hops: hops}, nil
}

// A path of unknown hops is known again by those that all its flows meet.
func TestLearnedWays(t *testing.T) {
	way := func(hops ...string) []string { return hops }
	for _, c := range []struct {
		name         string
		first, later [][]string
		same         bool
	}{
		{"the same", [][]string{way("a", "b", "dst")}, [][]string{way("a", "b", "dst")}, true},
		{"another hop", [][]string{way("a", "b", "dst")}, [][]string{way("a", "c", "dst")}, false},
		{"a hop less", [][]string{way("a", "b", "dst")}, [][]string{way("a", "dst")}, false},
		{"a hop more", [][]string{way("a", "dst")}, [][]string{way("a", "b", "dst")}, false},
		{"a silent hop", [][]string{way("a", "b", "dst")}, [][]string{way("a", "", "dst")}, true},
		{"a silent hop less", [][]string{way("a", "", "dst")}, [][]string{way("a", "dst")}, false},
		{"was silent at first", [][]string{way("a", "", "dst")}, [][]string{way("a", "b", "dst")}, true},
		{"one flow goes the learned way", [][]string{way("a", "b", "dst")}, [][]string{way("a", "c", "dst"), way("a", "c", "dst"), way("a", "b", "dst")}, true},
		{"flows part", [][]string{way("a", "b", "dst"), way("a", "c", "dst")}, [][]string{way("a", "d", "dst")}, true},
		{"flows part, and another hop", [][]string{way("a", "b", "dst"), way("a", "c", "dst")}, [][]string{way("x", "b", "dst")}, false},
		{"flows part and arrive at other steps", [][]string{way("a", "dst"), way("a", "b", "dst")}, [][]string{way("a", "dst")}, true},
		{"flows part and arrive later", [][]string{way("a", "dst"), way("a", "b", "dst")}, [][]string{way("a", "c", "dst")}, true},
		{"the destination is silent", [][]string{way("a", "b", "")}, [][]string{way("a", "b", "", "")}, true},
		{"the destination is silent, and another hop", [][]string{way("a", "b", "")}, [][]string{way("a", "c", "")}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			hops, err := Learn(t.Context(), &tracer{ways: c.first}, nil, probe.Request{})
			testutil.OK(t, err)
			source := &tracer{ways: c.later}
			seen, err := Learn(t.Context(), source, hops, probe.Request{})
			testutil.OK(t, err)
			f := learned(testbed.Expectation{Traced: true}, measurement.Fingerprint{Hops: hops}, measurement.Fingerprint{Hops: seen, Matches: true})
			if f.Matches != c.same {
				t.Errorf("learned %+v, saw %+v: matches %v", hops, seen, f.Matches)
			}
			if !c.same && source.traced != mostLearned {
				t.Errorf("given up after %d flows", source.traced)
			}
		})
	}
}

// Where pairs were traced before the first trial, each has to go its own way again, whatever
// that of the first is.
func TestEachPairHasItsWay(t *testing.T) {
	ways := [][]measurement.TraceHop{traced([]string{"a", "dst"}), traced([]string{"b", "c", "dst"}), {}}
	other := &trial{failed: make([]error, len(ways)), Wanted: Wanted{First: measurement.Fingerprint{Hops: traced([]string{"x"}), ReceivedTTL: 60, PathMTU: 9000}}}
	for k, hops := range ways {
		other.path.Pairs = append(other.path.Pairs, testbed.Pair{Source: string(rune('a' + k)), Destination: "dst", Expect: testbed.Expectation{
			Learned: true, Traced: len(hops) > 0, Before: &measurement.Fingerprint{Hops: hops, ReceivedTTL: 62 - k},
		}})
	}
	for _, c := range []struct {
		name   string
		change func(seen [][]measurement.TraceHop, each []measurement.Outcome)
		pair   string // that is wrong
		code   measurement.FindingCode
	}{
		{name: "the same", change: func([][]measurement.TraceHop, []measurement.Outcome) {}},
		{"the first goes elsewhere", func(seen [][]measurement.TraceHop, _ []measurement.Outcome) { seen[0] = ways[1] }, "a to dst", measurement.FoundOtherHops},
		{"another goes the way of the first", func(seen [][]measurement.TraceHop, _ []measurement.Outcome) { seen[1] = ways[0] }, "b to dst", measurement.FoundOtherHops},
		{"one that cannot trace passes more hops", func(_ [][]measurement.TraceHop, each []measurement.Outcome) { each[2].Destination.ReceivedTTL-- }, "c to dst", measurement.FoundOtherTTL},
	} {
		seen, each := append([][]measurement.TraceHop{}, ways...), make([]measurement.Outcome, len(ways))
		for k := range each {
			each[k].Destination.ReceivedTTL = 62 - k
		}
		c.change(seen, each)
		f := other.fingerprints(seen, make([][]measurement.TraceHop, len(ways)), each)
		if f.Matches != (c.code == "") || !f.Matches && (f.Why.Code != c.code || f.Why.Pair != c.pair) {
			t.Errorf("%s: %+v, %+v", c.name, f, f.Why)
		}
	}
}
