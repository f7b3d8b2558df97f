package trial

import (
	"context"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/testbed"
	"github.com/hopbench/hopbench/internal/testutil"
)

// tracer shows one trace after the other, the last for ever.
type tracer struct {
	ways   [][]string
	traced int
}

func (r *tracer) Run(context.Context, probe.Request, func(measurement.Progress)) (measurement.Outcome, error) {
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
			first := &trial{}
			hops, err := first.learn(t.Context(), &tracer{ways: c.first}, probe.Request{})
			testutil.OK(t, err)
			later := &trial{Wanted: Wanted{First: measurement.Fingerprint{Hops: hops}}}
			source := &tracer{ways: c.later}
			seen, err := later.learn(t.Context(), source, probe.Request{})
			testutil.OK(t, err)
			f := learned(testbed.Expectation{Traced: true}, later.First, measurement.Fingerprint{Hops: seen, Matches: true})
			if f.Matches != c.same {
				t.Errorf("learned %+v, saw %+v: matches %v", hops, seen, f.Matches)
			}
			if !c.same && source.traced != mostLearned {
				t.Errorf("given up after %d flows", source.traced)
			}
		})
	}
}
