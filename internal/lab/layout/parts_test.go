package layout

import (
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/testutil"
)

// What a node's counters count of the link behind it is told by the names of the hops that
// act there.
func TestParts(t *testing.T) {
	node := func(name string, i experiment.Impairment) experiment.Hop {
		return experiment.Hop{Type: experiment.Router, Name: name, Impairment: i}
	}
	link := func(name string, i experiment.Impairment) experiment.Hop {
		return experiment.Hop{Type: experiment.Link, Name: name, Impairment: i}
	}
	rate := func(r float64) experiment.Impairment { return experiment.Impairment{RateBitsPerSecond: r} }
	for name, c := range map[string]struct {
		hops    []experiment.Hop
		off     []string // of the second path
		leading *measurement.HopParts
		want    []measurement.HopParts // of the nodes of the first path, in order
		variant []measurement.HopParts // of those of the second
	}{
		"all is its own": {hops: []experiment.Hop{node("n", rate(1e6)), link("wire", experiment.Impairment{})}, want: []measurement.HopParts{{}}},
		"a slow link behind a node": {
			hops: []experiment.Hop{node("n", experiment.Impairment{}), link("slow", rate(1e6))},
			want: []measurement.HopParts{{Rate: "slow", Process: "slow"}},
		},
		"the slowest of several": {
			hops: []experiment.Hop{node("n", rate(5e6)), link("fast", rate(9e6)), link("slow", rate(1e6)), node("m", rate(2e6)), link("wire", rate(3e6))},
			want: []measurement.HopParts{{Rate: "slow", Process: "n + fast + slow"}, {Process: "m + wire"}},
		},
		"each its own": {
			hops: []experiment.Hop{
				node("n", experiment.Impairment{Delay: time.Millisecond}), link("fair", experiment.Impairment{PerFlowRateBitsPerSecond: 1e6}),
				link("lossy", experiment.Impairment{LossFraction: 0.1, ReorderFraction: 0.1}), link("worse", experiment.Impairment{LossFraction: 0.2}),
			},
			want: []measurement.HopParts{{FlowRate: "fair", Losses: "lossy + worse", Reordering: "lossy", Process: "n + fair + lossy + worse"}},
		},
		"links first": {
			hops:    []experiment.Hop{link("a", rate(2e6)), link("b", rate(1e6)), node("n", rate(3e6))},
			leading: &measurement.HopParts{Rate: "b"}, want: []measurement.HopParts{{}},
		},
		"behind a node that is bypassed": {
			hops: []experiment.Hop{node("n", experiment.Impairment{}), node("m", rate(1e6)), link("slow", rate(2e6)), node("last", experiment.Impairment{})},
			off:  []string{"m"},
			want: []measurement.HopParts{{}, {Process: "m + slow"}, {}}, variant: []measurement.HopParts{{Rate: "slow", Process: "slow"}, {}},
		},
	} {
		e := &experiment.Experiment{Endpoints: []experiment.Endpoint{{Name: "a"}, {Name: "b"}}, Source: "a", Destination: "b", Paths: []experiment.Path{{Name: "p", Hops: c.hops}}}
		if c.off != nil {
			e.Paths = append(e.Paths, experiment.Path{Name: "v", VariantOf: "p", Hops: c.hops, Bypass: c.off})
		}
		_, paths, err := FromExperiment(e)
		testutil.OK(t, err)
		for i, want := range [][]measurement.HopParts{c.want, c.variant} {
			if i == len(paths) {
				break
			}
			if p := paths[i]; len(p.HopNodes) != len(want) {
				t.Errorf("%s: path %d has %d nodes, want %d", name, i+1, len(p.HopNodes), len(want))
			} else {
				for k, n := range p.HopNodes {
					if n.Parts != want[k] {
						t.Errorf("%s: path %d, %s has %+v, want %+v", name, i+1, n.Hop, n.Parts, want[k])
					}
				}
			}
		}
		if leading := paths[0].Leading; (leading != nil) != (c.leading != nil) || leading != nil && leading.Parts != *c.leading {
			t.Errorf("%s: it begins with %+v, want %+v", name, leading, c.leading)
		}
	}
}
