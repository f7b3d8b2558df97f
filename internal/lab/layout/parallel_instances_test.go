package layout

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab/labtest"
	"github.com/hopbench/hopbench/internal/lab/plan"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/testutil"
)

// Link emulators behind several instances are no instance's, and the node that joins those
// is no hop: they are a hop of their own.
func TestLinksBehindInstances(t *testing.T) {
	e := labtest.RoutingAppliance()
	hops := []experiment.Hop{
		{Type: experiment.Router, Name: "edge"},
		{Type: experiment.Firewall, Name: "fw", Instances: 2, Rules: 1, Impairment: experiment.Impairment{RateBitsPerSecond: 1e9}},
		{Type: experiment.Link, Name: "lossy", Impairment: experiment.Impairment{LossFraction: 0.1}},
		{Type: experiment.Link, Impairment: experiment.Impairment{RateBitsPerSecond: 1e6}},
		{Type: experiment.Router, Name: "far"},
	}
	e.Paths = []experiment.Path{
		{Name: "whole", Hops: hops},
		{Name: "no-fw", VariantOf: "whole", Hops: hops, Bypass: []string{"fw"}},
		{Name: "no-far", VariantOf: "whole", Hops: hops, Bypass: []string{"far"}},
	}
	_, paths, err := FromExperiment(e)
	testutil.OK(t, err)
	nodes := func(p Path) (out []string) {
		for _, n := range p.Watched() {
			out = append(out, n.Node)
		}
		return out
	}
	want := [][]string{
		{"whole/edge", "whole/fw.1", "whole/fw.2", "whole/fw.after", "whole/far"},
		{"whole/edge", "whole/far"},
		{"whole/edge", "whole/fw.1", "whole/fw.2", "whole/fw.after"},
	}
	for i, p := range paths {
		if got := nodes(p); !slices.Equal(got, want[i]) {
			t.Errorf("on path %s %q are watched, want %q", p.Name, got, want[i])
		}
	}
	links := paths[2].HopNodes[3]
	if links.Hop != "lossy + link" || links.Instance != 0 || links.Parts != (measurement.HopParts{Rate: "link", Losses: "lossy"}) {
		t.Errorf("the links are %+v", links)
	}
	if !links.Leads("to-destination") || len(links.Bypasses) != 1 || !links.Leads(links.Bypasses[0]) {
		t.Errorf("the links lead to the destination by %s and %q", links.Interface, links.Bypasses)
	}
	if on := paths[1].HopNodes[0].Parts; on != (measurement.HopParts{Rate: "link", Losses: "lossy", Process: "lossy + link"}) {
		t.Errorf("the bypass of the firewall does %+v", on)
	}
}

// The links of instances have the MTU of the link behind the node that joins them.
func TestMTUBehindInstances(t *testing.T) {
	for name, test := range map[string]struct {
		behind []experiment.Hop
		want   []int // of the links from the first instance on
	}{
		"smaller":  {[]experiment.Hop{{Type: experiment.Link, MTU: 1400}, {Type: experiment.Router, Name: "r"}}, []int{1400, 1400, 1500}},
		"larger":   {[]experiment.Hop{{Type: experiment.Link, MTU: 9000}}, []int{9000, 9000}},
		"balanced": {[]experiment.Hop{{Type: experiment.LoadBalancer, Name: "lb", Backends: 1}, {Type: experiment.Firewall, Name: "last", Instances: 2}, {Type: experiment.Link, MTU: 1300}}, []int{1500, 1500, 1500, 1300, 1300}},
	} {
		e := labtest.RoutingAppliance()
		e.Paths = []experiment.Path{{Name: "x", Hops: append([]experiment.Hop{{Type: experiment.Firewall, Name: "fw", Instances: 2}}, test.behind...)}}
		built, _, err := FromExperiment(e)
		testutil.OK(t, err)
		var got []int
		for _, l := range built.Links {
			if l.A.Interface == "to-destination" && l.B.Interface != "to-2" || strings.HasPrefix(l.A.Interface, "to-backend") {
				got = append(got, l.EffectiveMTU())
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: MTUs %v, want %v", name, got, test.want)
		}
	}
}

func TestPlanOfParallelHops(t *testing.T) {
	built, _, err := FromExperiment(labtest.ParallelHops())
	testutil.OK(t, err)
	steps, err := plan.Of(built)
	testutil.OK(t, err)
	labtest.Golden(t, "parallel.plan", steps.String())
}

func TestPathsOfParallelHops(t *testing.T) {
	_, paths, err := FromExperiment(labtest.ParallelHops())
	testutil.OK(t, err)
	a := func(all ...string) (list []netip.Addr) {
		for _, s := range all {
			list = append(list, netip.MustParseAddr(s))
		}
		return list
	}
	want := []Path{
		{
			Name: "fleet", SourceNode: "vm1", DestinationNode: "vm2", Source: a("10.0.0.1")[0], Destination: a("10.0.4.2")[0],
			Hops: a("10.0.1.2", "10.0.3.2", "10.0.4.2"), Others: map[int][]netip.Addr{0: a("10.0.1.6", "10.0.1.10")}, ReceivedTTL: 62, ReturnedTTL: 62, Listen: a("10.0.4.2")[0],
			Leading: &HopNode{Hop: "link", Node: "vm1", Interface: "fleet"},
			HopNodes: []HopNode{
				{Hop: "fw", Instance: 1, Node: "fleet/fw.1", Interface: "to-destination"}, {Hop: "fw", Instance: 2, Node: "fleet/fw.2", Interface: "to-destination"},
				{Hop: "fw", Instance: 3, Node: "fleet/fw.3", Interface: "to-destination"}, {Hop: "r", Instance: 0, Node: "fleet/r", Interface: "to-destination"},
			},
			ScaleOuts: []ScaleOut{{"fw", []string{"fleet/fw.before", "fleet/fw.after"}, 2, time.Second, 3}},
		},
		{
			Name: "balanced", SourceNode: "vm1", DestinationNode: "vm2", Source: a("10.1.0.1")[0], Destination: a("10.1.0.2")[0],
			Hops: a("10.1.0.2", "10.1.0.2"), ReceivedTTL: 63, ReturnedTTL: 63, Listen: a("10.1.1.2")[0],
			HopNodes: []HopNode{{Hop: "lb", Instance: 1, Node: "balanced/lb", Interface: "to-backend-1"}, {Hop: "lb", Instance: 2, Node: "balanced/lb", Interface: "to-backend-2"}},
			Balancer: "balanced/lb", Backends: []Backend{{"vm2", a("10.1.1.2")[0]}, {"balanced/vm2.2", a("10.1.1.6")[0]}}, BackendRoundTrip: 100 * time.Millisecond,
		},
		{
			Name: "both", SourceNode: "vm1", DestinationNode: "vm2", Source: a("10.2.0.1")[0], Destination: a("10.2.3.2")[0],
			Hops: a("10.2.1.2", "10.2.3.2", "10.2.3.2", "10.2.3.2"), Others: map[int][]netip.Addr{0: a("10.2.1.6")}, ReceivedTTL: 61, ReturnedTTL: 61, Listen: a("10.2.5.2")[0],
			HopNodes: []HopNode{
				{Hop: "fw", Instance: 1, Node: "both/fw.1", Interface: "to-destination"}, {Hop: "fw", Instance: 2, Node: "both/fw.2", Interface: "to-destination"},
				{Hop: "lb", Instance: 0, Node: "both/lb", Interface: "to-destination"}, {Hop: "r", Instance: 1, Node: "both/r", Interface: "to-backend-1"}, {Hop: "r", Instance: 2, Node: "both/r", Interface: "to-backend-2"},
			},
			Balancer: "both/lb", Backends: []Backend{{"vm2", a("10.2.5.2")[0]}, {"both/vm2.2", a("10.2.5.6")[0]}},
		},
	}
	for i := range want {
		if !reflect.DeepEqual(paths[i], want[i]) {
			t.Errorf("got  %+v\nwant %+v", paths[i], want[i])
		}
	}
	if got := fmt.Sprint(paths[0].Answers(0), paths[0].Answers(1)); got != "[10.0.1.2 10.0.1.6 10.0.1.10] [10.0.3.2]" {
		t.Errorf("answers are %s", got)
	}
}

// The largest number of everything has addresses.
func TestLargestParallelHops(t *testing.T) {
	e := labtest.RoutingAppliance()
	e.Paths = []experiment.Path{{Name: "large", Hops: []experiment.Hop{
		{Type: experiment.Firewall, Name: "fw", Instances: 64, Rules: 1},
		{Type: experiment.LoadBalancer, Name: "lb", Backends: 16},
	}}}
	built, paths, err := FromExperiment(e)
	testutil.OK(t, err)
	if n := len(paths[0].Answers(0)); n != 64 || len(paths[0].Backends) != 16 {
		t.Errorf("%d instances, %d back ends", n, len(paths[0].Backends))
	}
	if _, err := plan.Of(built); err != nil {
		t.Error(err)
	}
}

func TestParallelHopsThatCannotBe(t *testing.T) {
	balancer := func(name string) experiment.Hop {
		return experiment.Hop{Type: experiment.LoadBalancer, Name: name, Backends: 2}
	}
	var many []experiment.Hop
	for i := range 128 {
		many = append(many, experiment.Hop{Type: experiment.Firewall, Name: fmt.Sprint("fw", i), Instances: 2, Rules: 1})
	}
	for name, test := range map[string]struct {
		hops []experiment.Hop
		want string
	}{
		"two load balancers": {[]experiment.Hop{balancer("a"), balancer("b")}, "hop b: the lab cannot build a second load balancer"},
		"too many instances": {[]experiment.Hop{{Type: experiment.Firewall, Name: "fw", Instances: 65}}, "65 instances are more than 64"},
		"too many links":     {many, "more than 256 links"},
	} {
		e := labtest.RoutingAppliance()
		e.Paths = []experiment.Path{{Name: "x", Hops: test.hops}}
		if _, _, err := FromExperiment(e); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, test.want)
		}
	}
}

// A health check of back ends has as long as the hops behind the balancer can keep it: by their
// delays there and back, and in the queues that a test fills.
func TestRoundTripToBackEnds(t *testing.T) {
	balancer := experiment.Hop{Type: experiment.LoadBalancer, Name: "lb", Backends: 2}
	hop := func(m experiment.Impairment) experiment.Hop {
		return experiment.Hop{Type: experiment.Router, Name: "r", Impairment: m}
	}
	const ms = time.Millisecond
	for name, test := range map[string]struct {
		hops []experiment.Hop
		want time.Duration
	}{
		"nothing":      {[]experiment.Hop{balancer}, 0},
		"before it":    {[]experiment.Hop{hop(experiment.Impairment{Delay: 9 * ms, RateBitsPerSecond: 1e6}), balancer}, 0},
		"delays":       {[]experiment.Hop{balancer, hop(experiment.Impairment{Delay: 5 * ms, Jitter: ms})}, 18 * ms},
		"a fast queue": {[]experiment.Hop{balancer, hop(experiment.Impairment{RateBitsPerSecond: 1e9})}, 100 * ms},
		"a slow queue": {[]experiment.Hop{balancer, hop(experiment.Impairment{RateBitsPerSecond: 1e6, QueueBytes: 250e3})}, 4000 * ms},
		"an idps": {[]experiment.Hop{balancer, {
			Type: experiment.IDPS, Name: "i", Mode: experiment.IDPSAlert, InspectRateBitsPerSecond: 5e8, Impairment: experiment.Impairment{RateBitsPerSecond: 1e9},
		}, {Type: experiment.Router, Name: "r"}}, 200 * ms},
	} {
		_, paths, err := FromExperiment(&experiment.Experiment{
			Endpoints: []experiment.Endpoint{{Name: "a"}, {Name: "b"}}, Source: "a", Destination: "b", Paths: []experiment.Path{{Name: "p", Hops: test.hops}},
		})
		testutil.OK(t, err)
		if got := paths[0].BackendRoundTrip; got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
