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
	"github.com/hopbench/hopbench/internal/lab/topology"
	"github.com/hopbench/hopbench/internal/linkem"
	"github.com/hopbench/hopbench/internal/testutil"
)

// client-1 ┐                                                             ┌ server-1
// client-2 ┴ fleet/client-access ── fleet/node ══ fleet/server-access ──┴ server-2
func TestPlanOfPairs(t *testing.T) {
	built, paths, err := FromExperiment(labtest.Pairs(2))
	testutil.OK(t, err)
	steps, err := plan.Of(built)
	testutil.OK(t, err)
	labtest.Golden(t, "pairs.plan", steps.String())
	addr := netip.MustParseAddr
	hops := func(texts ...string) (out []netip.Addr) {
		for _, s := range texts {
			out = append(out, addr(s))
		}
		return out
	}
	want := Path{
		Name: "fleet", SourceNode: "client-1", DestinationNode: "server-1", Source: addr("10.1.254.3"), Destination: addr("10.1.255.3"),
		Hops: hops("10.1.254.2", "10.1.0.2", "10.1.1.2", "10.1.255.3"), ReceivedTTL: 61, ReturnedTTL: 61, HopNodes: []HopNode{{Hop: "node", Node: "fleet/node", Interface: "to-destination"}}, Listen: addr("10.1.255.3"),
		Pairs: []Pair{
			{SourceNode: "client-1", DestinationNode: "server-1", Source: addr("10.1.254.3"), Destination: addr("10.1.255.3"), Access: addr("10.1.254.2")},
			{SourceNode: "client-2", DestinationNode: "server-2", Source: addr("10.1.254.5"), Destination: addr("10.1.255.5"), Access: addr("10.1.254.4")},
		},
	}
	if !reflect.DeepEqual(paths[1], want) {
		t.Errorf("got  %+v\nwant %+v", paths[1], want)
	}
	second := paths[1].Of(1)
	if second.SourceNode != "client-2" || second.Pairs != nil || !reflect.DeepEqual(second.Hops, hops("10.1.254.4", "10.1.0.2", "10.1.1.2", "10.1.255.5")) {
		t.Errorf("pair 2 takes %+v", second)
	}
	if !reflect.DeepEqual(paths[1].Hops, want.Hops) {
		t.Error("asking for a pair changed the path")
	}
}

func TestLargestPairsAreValid(t *testing.T) {
	if _, _, err := FromExperiment(labtest.Pairs(maxPairs + 1)); err == nil || !strings.Contains(err.Error(), "128 pairs: a lab has addresses for 127") {
		t.Errorf("one too many: %v", err)
	}
	built, paths, err := FromExperiment(labtest.Pairs(maxPairs))
	testutil.OK(t, err)
	if last := paths[1].Pairs[maxPairs-1]; last.Source != netip.MustParseAddr("10.1.254.255") || last.Destination != netip.MustParseAddr("10.1.255.255") {
		t.Errorf("the last pair is %+v", last)
	}
	if len(paths[0].Pairs) != maxPairs || len(built.Nodes) != 2*maxPairs+2*2+1 {
		t.Errorf("%d pairs, %d nodes", len(paths[0].Pairs), len(built.Nodes))
	}
	if steps, err := plan.Of(built); err != nil || strings.Contains(steps.String(), "10.1.254.2/31 via") {
		t.Errorf("%v; nodes beyond have routes to single access links", err)
	}
}

// With several pairs the kernel meters a plain rate at both ends of the hop's link.
func TestMetersOfPairs(t *testing.T) {
	e := labtest.Pairs(2)
	rate := experiment.Impairment{RateBitsPerSecond: 1e8}
	e.Paths[1].Hops = []experiment.Hop{
		{Type: experiment.Link, Impairment: rate},
		{Type: experiment.Firewall, Name: "fw", Instances: 2, Rules: 1, Impairment: rate},
		{Type: experiment.Router, Name: "free"},
		{Type: experiment.Router, Name: "slow", Impairment: rate},
	}
	_, paths, err := FromExperiment(e)
	testutil.OK(t, err)
	want := []ReturnMeter{
		{"fleet/fw.before", "to-source"}, {"fleet/fw.after", "to-1"}, {"fleet/fw.after", "to-2"}, {}, {"fleet/server-access", "to-source"},
	}
	for i, h := range paths[1].Watched() {
		if got := append(h.Returns, ReturnMeter{})[0]; got != want[i] || len(h.Returns) > 1 {
			t.Errorf("%s: towards the source %+v, want %+v", h.Node, h.Returns, want[i])
		}
	}
}

// A bypass is metered as the links that it stands for, and once.
func TestMetersOfBypasses(t *testing.T) {
	e := labtest.Pairs(2)
	rate := func(r float64) experiment.Impairment { return experiment.Impairment{RateBitsPerSecond: r} }
	hops := []experiment.Hop{
		{Type: experiment.Link, Impairment: rate(5e7)},
		{Type: experiment.Router, Name: "r", Impairment: rate(3e7)},
		{Type: experiment.Link, Impairment: rate(4e7)},
	}
	e.Paths[1].Hops = hops
	e.Paths = append(e.Paths, experiment.Path{Name: "no-r", VariantOf: "fleet", Hops: hops, Bypass: []string{"r"}})
	built, paths, err := FromExperiment(e)
	testutil.OK(t, err)
	for _, l := range built.Links {
		if l.Standby && (l.Emulation != nil || l.A.EgressBitsPerSecond != 4e7 || l.B.EgressBitsPerSecond != 4e7) {
			t.Errorf("the bypass has meters of %g and %g bit/s and the link emulator %+v", l.A.EgressBitsPerSecond, l.B.EgressBitsPerSecond, l.Emulation)
		}
	}
	want := []ReturnMeter{{"fleet/r", "to-source"}, {"fleet/server-access", "bypass-1-1"}}
	if got := paths[2].Watched()[0].Returns; !slices.Equal(got, want) {
		t.Errorf("towards the source %+v, want %+v", got, want)
	}
}

// Each pair has a tunnel of its own, between its two hosts alone.
// The link of a host carries what the widest way behind its access node does, whichever hops are
// bypassed.
func TestAccessIsAsWideAsBypasses(t *testing.T) {
	narrow := experiment.Hop{Type: experiment.Router, Name: "narrow", MTU: 1400}
	wide := experiment.Hop{Type: experiment.Link, MTU: 9000}
	oneWay := narrow
	oneWay.OneWay = true
	for name, test := range map[string]struct {
		hops                []experiment.Hop
		bypass              []string
		source, destination int // 0 for 1500
	}{
		"nothing is bypassed": {[]experiment.Hop{narrow}, nil, 0, 1400},
		"the last hop is":     {[]experiment.Hop{narrow}, []string{"narrow"}, 0, 0},
		"by the way back":     {[]experiment.Hop{oneWay}, nil, 0, 0},
		"on a wide path":      {[]experiment.Hop{wide, {Type: experiment.Router, Name: "first"}, {Type: experiment.Link, MTU: 1300}}, []string{"first"}, 9000, 1300},
	} {
		e := labtest.Pairs(2)
		e.Paths[1].Hops = test.hops
		if test.bypass != nil {
			e.Paths = append(e.Paths, experiment.Path{Name: "past", VariantOf: e.Paths[1].Name, Bypass: test.bypass, Hops: test.hops})
		}
		built, _, err := FromExperiment(e)
		testutil.OK(t, err)
		for _, l := range built.Links {
			want := test.source
			if l.A.Node == "fleet/server-access" {
				want = test.destination
			}
			if l.Aggregate.IsValid() && strings.Contains(l.A.Node+l.B.Node, "fleet/") && l.MTU != want {
				t.Errorf("%s: %s has an MTU of %d, want %d", name, l.Name(), l.MTU, want)
			}
		}
	}
}

func TestPlanOfPairsWithTunnels(t *testing.T) {
	built, paths, err := FromExperiment(labtest.PairsInTunnels())
	testutil.OK(t, err)
	addr := netip.MustParseAddr
	second := paths[1].Of(1)
	if second.Source != addr("10.255.1.4") || second.Destination != addr("10.255.1.5") || second.Listen != second.Destination ||
		!reflect.DeepEqual(second.Hops, []netip.Addr{second.Destination}) || second.ReceivedTTL != topology.InitialTTL {
		t.Errorf("inside, pair 2 takes %+v", second)
	}
	want := OuterPath{
		Source: addr("10.1.254.5"), Destination: addr("10.1.255.5"), Interface: "fleet", Port: 4789, MTU: 1450,
		Hops: []netip.Addr{addr("10.1.254.4"), addr("10.1.0.2"), addr("10.1.1.2"), addr("10.1.255.5")},
	}
	if !reflect.DeepEqual(*second.Outer, want) {
		t.Errorf("outside, pair 2 takes %+v, want %+v", *second.Outer, want)
	}
	ends := make(map[string]topology.Tunnel)
	for _, n := range built.Nodes {
		for _, tunnel := range n.Tunnels {
			ends[n.Name] = tunnel
		}
	}
	if near, far := ends["client-2"], ends["server-2"]; len(ends) != 4 || near.Local != want.Source || near.Remote != far.Local || far.Remote != near.Local ||
		near.Peer != far.Address.Addr() || far.Peer != near.Address.Addr() {
		t.Errorf("the ends are %+v", ends)
	}
}

func setRouters(hops []experiment.Hop) {
	for i := range hops {
		hops[i].Type, hops[i].Name = experiment.Router, fmt.Sprint("r", i)
	}
}

// A rate alone is metered by the kernel, anything more keeps its link emulator.
func TestMeterOfSharedLinks(t *testing.T) {
	rate := linkem.Direction{RateBitsPerSecond: 5e7}
	narrow := linkem.Direction{RateBitsPerSecond: 1e5}
	slow := linkem.Direction{RateBitsPerSecond: 5e7, Delay: time.Millisecond}
	for name, test := range map[string]struct {
		link   topology.Link
		meters bool
	}{
		"rate":            {topology.Link{Emulation: &linkem.Config{Forward: rate, Backward: rate, Seed: 7}}, true},
		"narrow queue":    {topology.Link{Emulation: &linkem.Config{Forward: narrow, Backward: narrow, NoOffload: true}}, true},
		"one way":         {topology.Link{Emulation: &linkem.Config{Forward: rate}}, true},
		"no emulator":     {topology.Link{}, false},
		"delay":           {topology.Link{Emulation: &linkem.Config{Forward: slow, Backward: slow}}, false},
		"delay back":      {topology.Link{Emulation: &linkem.Config{Forward: rate, Backward: slow}}, false},
		"single segments": {topology.Link{Emulation: &linkem.Config{Forward: rate, NoOffload: true}}, false},
		"metered already": {topology.Link{A: topology.End{EgressBitsPerSecond: 1e9}, Emulation: &linkem.Config{Forward: rate}}, false},
		"something else":  {topology.Link{Aggregate: address(0, 0, 0), Emulation: &linkem.Config{Forward: rate}}, false},
	} {
		l := test.link
		meter(&l)
		if test.meters {
			if l.Emulation != nil || l.A.EgressBitsPerSecond != test.link.Emulation.Forward.RateBitsPerSecond || l.B.EgressBitsPerSecond != test.link.Emulation.Backward.RateBitsPerSecond {
				t.Errorf("%s: %+v", name, l)
			}
		} else if !reflect.DeepEqual(l, test.link) {
			t.Errorf("%s: changed to %+v", name, l)
		}
	}
}

// Access links take two of a path's subnets.
func TestPairsLeaveFewerLinks(t *testing.T) {
	e := labtest.Pairs(2)
	e.Paths[1].Hops = make([]experiment.Hop, 254)
	setRouters(e.Paths[1].Hops)
	if _, _, err := FromExperiment(e); err == nil || !strings.Contains(err.Error(), "more than 254 links") {
		t.Errorf("got %v", err)
	}
}
