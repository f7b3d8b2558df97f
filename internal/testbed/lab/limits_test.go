package lab

import (
	"slices"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab"
)

// What stands side by side carries its rate several times.
func TestLimitsOfParallelHops(t *testing.T) {
	rate := func(h experiment.Hop, bits float64) experiment.Hop {
		h.RateBitsPerSecond = bits
		return h
	}
	firewall := experiment.Hop{Type: experiment.Firewall, Instances: 4}
	growing := experiment.Hop{Type: experiment.Firewall, Instances: 1, ScaleOut: &experiment.ScaleOut{Instances: 3}}
	balancer := experiment.Hop{Type: experiment.LoadBalancer, Backends: 2}
	router := experiment.Hop{Type: experiment.Router}
	for name, test := range map[string]struct {
		hops              []experiment.Hop
		path, destination float64
	}{
		"none":            {nil, 0, 1000},
		"a router":        {[]experiment.Hop{rate(router, 10)}, 10, 1000},
		"instances":       {[]experiment.Hop{rate(firewall, 10), rate(router, 50)}, 40, 1000},
		"growing":         {[]experiment.Hop{rate(growing, 10)}, 30, 1000},
		"balancer":        {[]experiment.Hop{rate(balancer, 10)}, 20, 2000},
		"behind balancer": {[]experiment.Hop{rate(router, 100), balancer, rate(router, 10)}, 20, 2000},
	} {
		e := &experiment.Experiment{
			Scale: 1, Source: "a", Destination: "b",
			Endpoints: []experiment.Endpoint{{Name: "a", EgressBitsPerSecond: 500}, {Name: "b", EgressBitsPerSecond: 1000}},
			Paths:     []experiment.Path{{Name: "p", Hops: test.hops}},
		}
		if l := limits(e, "p"); l.PathBitsPerSecond != test.path || l.DestinationEgressBitsPerSecond != test.destination || l.SourceEgressBitsPerSecond != 500 {
			t.Errorf("%s: %+v, want %v on the path and %v from the destination", name, l, test.path, test.destination)
		}
	}
}

// A trace waits for what the path's delays take there and back, those of hops that are
// bypassed apart.
func TestRoundTripOfDelays(t *testing.T) {
	hops := []experiment.Hop{
		{Type: experiment.Link, Impairment: experiment.Impairment{Delay: 700 * time.Millisecond}},
		{Type: experiment.Router, Name: "far", Impairment: experiment.Impairment{Delay: time.Second, Jitter: 100 * time.Millisecond}},
	}
	e := &experiment.Experiment{Paths: []experiment.Path{{Name: "p", Hops: hops}, {Name: "v", VariantOf: "p", Bypass: []string{"far"}, Hops: hops}}}
	queue := []experiment.Hop{{Type: experiment.Router, Name: "slow", Impairment: experiment.Impairment{RateBitsPerSecond: 1e6, QueueBytes: 1e6}}}
	e.Paths = append(e.Paths, experiment.Path{Name: "queue", Hops: queue})
	for path, want := range map[string]time.Duration{"p": 4200 * time.Millisecond, "v": 1400 * time.Millisecond, "queue": 16 * time.Second} {
		if got := roundTrip(e, path); got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}

// Only hops with a limit that a path crosses have flows to forget.
func TestLimitedNodes(t *testing.T) {
	hops := []experiment.Hop{{Type: experiment.VNetGateway, Name: "gw", FlowLimit: 9}, {Type: experiment.VNetGateway, Name: "open"}}
	e := &experiment.Experiment{Paths: []experiment.Path{{Name: "p", Hops: hops}, {Name: "v", VariantOf: "p", Bypass: []string{"gw"}, Hops: hops}}}
	open := lab.HopNode{Hop: "open", Node: "p/open"}
	for _, test := range []struct {
		path lab.Path
		want []string
	}{
		{lab.Path{Name: "p", HopNodes: []lab.HopNode{{Hop: "gw", Node: "p/gw"}, open}}, []string{"p/gw"}},
		{lab.Path{Name: "v", HopNodes: []lab.HopNode{open}}, nil},
	} {
		if got := limitedNodes(e, test.path); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", test.path.Name, got, test.want)
		}
	}
}
