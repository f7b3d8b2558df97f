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
	"github.com/hopbench/hopbench/internal/testutil"
)

// statesText is the states of a built as lines.
func statesText(t topology.Topology) string {
	var b strings.Builder
	for _, s := range t.States {
		fmt.Fprintf(&b, "state %s\n", s.Path)
		for _, r := range s.Routes {
			fmt.Fprintf(&b, "    %s\n", plan.AddRoute{Node: r.Node, Route: r.Route})
		}
		for _, m := range s.Modes {
			fmt.Fprintf(&b, "    mode %s %s\n", m.Node, m.Mode)
		}
	}
	return b.String()
}

func TestPlanOfSwitchedPaths(t *testing.T) {
	for name, e := range map[string]*experiment.Experiment{"switched": labtest.FastPath(), "one-way": labtest.OneWay()} {
		built, _, err := FromExperiment(e)
		testutil.OK(t, err)
		steps, err := plan.Of(built)
		testutil.OK(t, err)
		var lines strings.Builder
		for l := range strings.Lines(steps.String()) {
			if !strings.HasPrefix(l, "sysctl ") {
				lines.WriteString(l)
			}
		}
		labtest.Golden(t, name+".plan", lines.String()+statesText(built))
	}
}

func TestSwitchedPathsExpect(t *testing.T) {
	a := func(texts ...string) []netip.Addr {
		var out []netip.Addr
		for _, text := range texts {
			address, _ := netip.ParseAddr(text) // invalid where the hop is silent
			out = append(out, address)
		}
		return out
	}
	type expected struct {
		hops      []netip.Addr
		there     int
		back      int
		nodes     []string
		sameAs    string
		addresses [2]netip.Addr
	}
	const edge, gateway, appliance, vm = "10.1.0.2", "*", "10.1.2.2", "10.1.3.2"
	ends := [2]netip.Addr(a("10.1.0.1", vm))
	for name, test := range map[string]struct {
		e    *experiment.Experiment
		want []expected
	}{
		"off": {labtest.FastPath(), []expected{
			{a(edge, appliance, vm), 62, 62, []string{"edge", "appliance"}, "gateway", ends},
			{a(edge, gateway, appliance, vm), 61, 61, []string{"edge", "gateway", "appliance"}, "", ends},
			{a(edge, vm), 63, 63, []string{"edge"}, "gateway", ends},
		}},
		"one way": {labtest.OneWay(), []expected{
			{a(edge, appliance, vm), 62, 62, []string{"edge", "appliance"}, "gateway", ends},
			{a(edge, gateway, appliance, vm), 61, 62, []string{"edge", "gateway", "appliance"}, "", ends},
			{a(edge, vm), 63, 63, []string{"edge"}, "gateway", ends},
		}},
	} {
		_, paths, err := FromExperiment(test.e)
		testutil.OK(t, err)
		for i, p := range paths {
			got := expected{p.Hops, p.ReceivedTTL, p.ReturnedTTL, nil, p.VariantOf, [2]netip.Addr{p.Source, p.Destination}}
			for _, n := range p.HopNodes {
				got.nodes = append(got.nodes, n.Hop)
				if n.Node != "gateway/"+n.Hop || n.Interface != "to-destination" {
					t.Errorf("%s, path %s: hop %s is at %s:%s", name, p.Name, n.Hop, n.Node, n.Interface)
				}
			}
			if p.Name != test.e.Paths[i].Name || !reflect.DeepEqual(got, test.want[i]) {
				t.Errorf("%s, path %s:\ngot  %+v\nwant %+v", name, p.Name, got, test.want[i])
			}
		}
	}
}

// A bypass has the MTU of the links that it stands for, also behind instances.
func TestBypassMTU(t *testing.T) {
	e := labtest.RoutingAppliance()
	hops := []experiment.Hop{
		{Type: experiment.Link, MTU: 9000},
		{Type: experiment.Firewall, Name: "fw", Instances: 2, Rules: 1, MTU: 4000, Impairment: experiment.Impairment{Delay: time.Millisecond}},
		{Type: experiment.Router, Name: "r", MTU: 1000},
	}
	e.Paths = []experiment.Path{{Name: "whole", Hops: hops}, {Name: "no-r", VariantOf: "whole", Hops: hops, Bypass: []string{"r"}}, {Name: "none", VariantOf: "whole", Hops: hops, Bypass: []string{"fw", "r"}}}
	built, _, err := FromExperiment(e)
	testutil.OK(t, err)
	var got []int
	for _, l := range built.Links {
		if l.Standby {
			got = append(got, l.EffectiveMTU())
			if l.Emulation != nil {
				t.Errorf("%s does to frames what each instance does: %+v", l.Name(), l.Emulation)
			}
		}
	}
	if want := []int{4000, 9000}; !slices.Equal(got, want) {
		t.Errorf("the bypasses of r, and of fw and r, have %v, want %v", got, want)
	}
}

// What an idps before a bypassed hop inspects takes the bypass, in either direction alone, too.
func TestBypassBehindIDPSInspects(t *testing.T) {
	for _, oneWay := range []bool{false, true} {
		e := labtest.RoutingAppliance()
		hops := []experiment.Hop{
			{Type: experiment.IDPS, Name: "ips", Mode: experiment.IDPSDeny, InspectRateBitsPerSecond: 1e7},
			{Type: experiment.Router, Name: "r", OneWay: oneWay},
		}
		e.Paths = []experiment.Path{{Name: "whole", Hops: hops}, {Name: "no-r", VariantOf: "whole", Hops: hops, Bypass: []string{"r"}}}
		if oneWay {
			e.Paths = e.Paths[:1]
		}
		built, _, err := FromExperiment(e)
		testutil.OK(t, err)
		i := slices.IndexFunc(built.Links, func(l topology.Link) bool { return l.Standby })
		if l := built.Links[i]; !reflect.DeepEqual(l.IDPS, built.Links[1].IDPS) || l.IDPS == nil || !reflect.DeepEqual(l.Emulation, built.Links[1].Emulation) {
			t.Errorf("one way %v: the bypass does %+v, %+v", oneWay, l.IDPS, l.Emulation)
		}
	}
}

// A hop that is bypassed takes no more flows in the middle of a trial.
func TestBypassedHopDoesNotGrow(t *testing.T) {
	e := labtest.RoutingAppliance()
	hops := []experiment.Hop{
		{Type: experiment.Firewall, Name: "fw", Instances: 2, Rules: 1, ScaleOut: &experiment.ScaleOut{At: time.Second, Instances: 3}},
		{Type: experiment.Firewall, Name: "later", Instances: 1, Rules: 1, ScaleOut: &experiment.ScaleOut{At: time.Second, Instances: 2}},
	}
	e.Paths = []experiment.Path{{Name: "whole", Hops: hops}, {Name: "no-fw", VariantOf: "whole", Hops: hops, Bypass: []string{"fw"}}}
	_, paths, err := FromExperiment(e)
	testutil.OK(t, err)
	for i, want := range [][]string{{"fw", "later"}, {"later"}} {
		var got []string
		for _, s := range paths[i].ScaleOuts {
			got = append(got, s.Hop)
		}
		if !slices.Equal(got, want) {
			t.Errorf("on path %s %q grow, want %q", paths[i].Name, got, want)
		}
	}
}

// Whatever is switched, every state sets the same routes, so that any may
// follow any; and each leads to the far end of the link that it leaves by.
func TestStatesAreComplete(t *testing.T) {
	for _, e := range []*experiment.Experiment{labtest.FastPath(), labtest.OneWay()} {
		built, _, err := FromExperiment(e)
		testutil.OK(t, err)
		far := map[[2]string]netip.Addr{}
		for _, l := range built.Links {
			far[[2]string{l.A.Node, l.A.Interface}] = l.B.Address.Addr()
			far[[2]string{l.B.Node, l.B.Interface}] = l.A.Address.Addr()
		}
		var keys [][]string
		for _, s := range built.States {
			var of []string
			for _, r := range s.Routes {
				of = append(of, r.Key())
				if got := far[[2]string{r.Node, r.Route.Interface}]; got != r.Route.Via {
					t.Errorf("%s: the route of %s to %s leaves by %s, at whose end is %s, to %s", s.Path, r.Node, r.Route.Destination, r.Route.Interface, got, r.Route.Via)
				}
			}
			keys = append(keys, of)
		}
		if len(keys) != 3 || len(keys[0]) == 0 || !reflect.DeepEqual(keys[0], keys[1]) || !reflect.DeepEqual(keys[1], keys[2]) {
			t.Errorf("the states are about different routes: %v", keys)
		}
	}
}

// A path whose hops cannot be passed by has neither bypass nor states, and
// one that is one-way without variants has no states.
func TestNothingToSwitch(t *testing.T) {
	e := labtest.OneWay()
	e.Paths = e.Paths[1:2]
	built, _, err := FromExperiment(e)
	testutil.OK(t, err)
	if len(built.States) != 0 || len(built.Links) != 5 {
		t.Errorf("%d states and %d links, want none and 4 with one bypass", len(built.States), len(built.Links))
	}
	built, _, err = FromExperiment(labtest.RoutingAppliance())
	testutil.OK(t, err)
	if len(built.States) != 0 || slices.ContainsFunc(built.Links, func(l topology.Link) bool { return l.Standby }) {
		t.Errorf("states %v, links %v", built.States, built.Links)
	}
}

func TestSwitchedPathsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*experiment.Experiment)
		want   string
	}{
		"no such path":    {func(e *experiment.Experiment) { e.Paths[0].VariantOf = "nowhere" }, `the same as "nowhere"`},
		"same as variant": {func(e *experiment.Experiment) { e.Paths[0].VariantOf = "bare" }, `the same as "bare"`},
		"many links": {func(e *experiment.Experiment) {
			for len(e.Paths[1].Hops) < 130 {
				e.Paths[1].Hops = append(e.Paths[1].Hops, experiment.Hop{Type: experiment.Router, Name: fmt.Sprint("r", len(e.Paths[1].Hops))})
			}
		}, "addresses for 128"},
	} {
		e := labtest.FastPath()
		test.change(e)
		if _, _, err := FromExperiment(e); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q in it", name, err, test.want)
		}
	}
}

func TestValidateStates(t *testing.T) {
	built, _, err := FromExperiment(labtest.FastPath())
	testutil.OK(t, err)
	built.States = append(built.States, built.States[0], topology.State{Path: "x", Routes: []topology.NodeRoute{
		{Node: "vm", Route: topology.Route{Destination: netip.MustParsePrefix("fe80::/64"), Interface: "nowhere"}},
	}})
	err = built.Validate()
	for _, want := range []string{"is there twice", "no interface vm:nowhere", "only IPv4"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no word of %q in: %v", want, err)
		}
	}
}
