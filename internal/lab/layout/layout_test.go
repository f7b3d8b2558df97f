package layout

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab/labtest"
	"github.com/hopbench/hopbench/internal/lab/plan"
	"github.com/hopbench/hopbench/internal/lab/topology"
	"github.com/hopbench/hopbench/internal/linkem"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestPlanOfExperiment(t *testing.T) {
	built, _, err := FromExperiment(labtest.RoutingAppliance())
	testutil.OK(t, err)
	steps, err := plan.Of(built)
	testutil.OK(t, err)
	labtest.Golden(t, "experiment.plan", steps.String())
}

func TestPlanOfStar(t *testing.T) {
	built := topology.Topology{
		Nodes: []topology.Node{
			{Name: "hub", Forward: true, Sysctls: map[string]string{"net.ipv4.tcp_ecn": "1", "net.ipv4.ip_default_ttl": "99"}},
			{Name: "a"},
			{Name: "b", Routes: []topology.Route{{Destination: netip.MustParsePrefix("192.0.2.0/24"), Via: address(0, 1, 1).Addr(), Interface: "up"}}},
		},
		Links: []topology.Link{
			{A: topology.End{Node: "hub", Interface: "a", Address: address(0, 0, 1)}, B: topology.End{Node: "a", Interface: "up", Address: address(0, 0, 2)}, MTU: 9000},
			{A: topology.End{Node: "hub", Interface: "b", Address: address(0, 1, 1)}, B: topology.End{Node: "b", Interface: "up", Address: address(0, 1, 2)},
				Emulation: &linkem.Config{Forward: linkem.Direction{RateBitsPerSecond: 1e9}}},
		},
	}
	steps, err := plan.Of(built)
	testutil.OK(t, err)
	labtest.Golden(t, "star.plan", steps.String())
}

func TestPathsOfExperiment(t *testing.T) {
	_, paths, err := FromExperiment(labtest.RoutingAppliance())
	testutil.OK(t, err)
	addr := netip.MustParseAddr
	want := []Path{
		{Name: "plain", Source: addr("10.0.0.1"), Destination: addr("10.0.0.2"), Hops: []netip.Addr{addr("10.0.0.2")}, ReceivedTTL: 64},
		{Name: "direct", Source: addr("10.1.0.1"), Destination: addr("10.1.0.2"), Hops: []netip.Addr{addr("10.1.0.2")}, ReceivedTTL: 64,
			Leading: &HopNode{Hop: "peering", Node: "vm1", Interface: "direct"}},
		{Name: "two-appliances", Source: addr("10.2.0.1"), Destination: addr("10.2.2.2"), Hops: []netip.Addr{addr("10.2.0.2"), addr("10.2.1.2"), addr("10.2.2.2")}, ReceivedTTL: 62,
			Leading: &HopNode{Hop: "peering", Node: "vm1", Interface: "two-appliances"},
			HopNodes: []HopNode{
				{Hop: "appliance", Node: "two-appliances/appliance", Interface: "to-destination"},
				{Hop: "appliance", Node: "two-appliances/appliance.2", Interface: "to-destination"},
			}},
	}
	for i := range want {
		want[i].SourceNode, want[i].DestinationNode, want[i].ReturnedTTL = "vm1", "vm2", want[i].ReceivedTTL
		want[i].Listen = want[i].Destination
	}
	if !reflect.DeepEqual(paths, want) {
		t.Errorf("got  %+v\nwant %+v", paths, want)
	}
}

func TestFromExperimentRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*experiment.Experiment)
		want   string
	}{
		"unknown source": {func(e *experiment.Experiment) { e.Source = "vm9" }, `endpoint "vm9"`},
		"unknown hop":    {func(e *experiment.Experiment) { e.Paths[0].Hops = []experiment.Hop{{Type: "tunnel"}} }, `cannot build the type "tunnel"`},
		"many paths":     {func(e *experiment.Experiment) { e.Paths = make([]experiment.Path, 257) }, "257 paths"},
		"many links": {func(e *experiment.Experiment) {
			e.Paths[0].Hops = make([]experiment.Hop, 256)
			for i := range e.Paths[0].Hops {
				e.Paths[0].Hops[i].Type = experiment.Router
			}
		}, "more than 256 links"},
		"one endpoint": {func(e *experiment.Experiment) { e.Destination = "vm1" }, "twice"},
	} {
		t.Run(name, func(t *testing.T) {
			e := labtest.RoutingAppliance()
			test.change(e)
			if _, _, err := FromExperiment(e); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

func TestEveryTypeOfHopIsBuilt(t *testing.T) {
	builders := hopBuilders()
	for _, hopType := range experiment.HopTypes() {
		if _, found := builders[hopType]; !found {
			t.Errorf("a file may have a %s, and nothing builds one", hopType)
		}
	}
}

func TestInterfaceNames(t *testing.T) {
	taken := map[string]bool{}
	var got []string
	for i, path := range []string{"direct", "one-appliance", "a-path-with-a-long-name", "direct", "lo", "über", "with space", "-dash", "all", "default", "port0"} {
		got = append(got, interfaceFor(path, i, taken))
	}
	want := []string{"direct", "one-appliance", "path-2", "path-3", "path-4", "path-5", "with-space", "path-7", "path-8", "path-9", "port0"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The queue is that of the slowest rate, and of equal rates the smallest that is set.
func TestQueuesCombine(t *testing.T) {
	wire := func(rate float64, queue int) experiment.Impairment {
		return experiment.Impairment{RateBitsPerSecond: rate, QueueBytes: queue}
	}
	for _, c := range []struct {
		wires []experiment.Impairment
		want  int
	}{
		{[]experiment.Impairment{wire(1e8, 5000), wire(1e9, 7000)}, 5000},
		{[]experiment.Impairment{wire(1e9, 7000), wire(1e8, 5000)}, 5000},
		{[]experiment.Impairment{wire(1e9, 7000), wire(1e8, 0)}, 0},
		{[]experiment.Impairment{wire(1e8, 5000), wire(1e8, 0), {}}, 5000},
		{[]experiment.Impairment{wire(1e8, 0), wire(1e8, 5000)}, 5000},
		{[]experiment.Impairment{wire(1e8, 5000), wire(1e8, 7000)}, 5000},
	} {
		if got := emulationOf(c.wires, "p", 0).Forward.QueueBytes; got != c.want {
			t.Errorf("%+v: a queue of %d, want %d", c.wires, got, c.want)
		}
	}
}

func TestImpairmentsCombine(t *testing.T) {
	got := emulationOf([]experiment.Impairment{
		{Delay: time.Millisecond, Jitter: 30 * time.Microsecond, LossFraction: 0.1, RateBitsPerSecond: 2e9},
		{},
		{Delay: 2 * time.Millisecond, Jitter: 40 * time.Microsecond, LossFraction: 0.5, DuplicateFraction: 0.25, RateBitsPerSecond: 1e9, PerFlowRateBitsPerSecond: 3e8},
		{PerFlowRateBitsPerSecond: 4e8},
	}, "p", 0)
	want := linkem.Direction{Delay: 3 * time.Millisecond, Jitter: 50 * time.Microsecond, LossFraction: 0.55, DuplicateFraction: 0.25, RateBitsPerSecond: 1e9, PerFlowRateBitsPerSecond: 3e8}
	if got == nil || got.Forward != want || got.Backward != want {
		t.Errorf("got %+v, want %+v both ways", got, want)
	}
	if !got.NoOffload || emulationOf([]experiment.Impairment{{Delay: 1}}, "p", 0).NoOffload {
		t.Error("single segments are for links that lose, duplicate or reorder, and no others")
	}
	for _, slow := range []experiment.Impairment{{RateBitsPerSecond: 100e3}, {PerFlowRateBitsPerSecond: 100e3}} {
		if !emulationOf([]experiment.Impairment{slow}, "p", 0).NoOffload {
			t.Errorf("%+v: super-packets before a queue that has no room for two", slow)
		}
	}
	if c := emulationOf([]experiment.Impairment{{}, {}}, "p", 0); c != nil {
		t.Errorf("nothing impairs, but there is a link emulator: %+v", c)
	}
	same := emulationOf([]experiment.Impairment{{Delay: 1}}, "p", 0)
	other := emulationOf([]experiment.Impairment{{Delay: 1}}, "p", 1)
	if same.Seed == other.Seed {
		t.Error("two links draw the same losses")
	}
}
