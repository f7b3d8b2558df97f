package lab

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
)

// fastPath is a circuit, an edge, a gateway that the fast path passes by, and
// an appliance that a user's route sends traffic through.
//
//	site ══circuit══ edge ── gateway ──── appliance ── vm
//	                   ╰──────────────────╯   ╰ …
func fastPath() *experiment.Experiment {
	hops := []experiment.Hop{
		{Type: experiment.Cable, Name: "circuit", Impairment: experiment.Impairment{Delay: 2 * time.Millisecond}},
		{Type: experiment.Router, Name: "edge", Impairment: experiment.Impairment{Delay: time.Millisecond}},
		{Type: experiment.Gateway, Name: "gateway", Silent: true, Impairment: experiment.Impairment{Delay: 5 * time.Millisecond}, MTU: 1400},
		{Type: experiment.Router, Name: "appliance"},
	}
	return &experiment.Experiment{
		Endpoints: []experiment.Endpoint{{Name: "site", EgressBitsPerSecond: 1e9}, {Name: "vm"}},
		Source:    "site", Destination: "vm",
		Paths: []experiment.Path{
			{Name: "fast", SameAs: "gateway", Hops: hops, Off: []string{"gateway"}},
			{Name: "gateway", Hops: hops},
			{Name: "bare", SameAs: "gateway", Hops: hops, Off: []string{"gateway", "appliance"}},
		},
	}
}

// oneWay is the published setting: the way back always passes by the gateway.
func oneWay() *experiment.Experiment {
	e := fastPath()
	for i := range e.Paths {
		e.Paths[i].Hops = slices.Clone(e.Paths[i].Hops)
		e.Paths[i].Hops[2].OneWay = true
	}
	return e
}

// statesText is the states of a topology as lines.
func statesText(t Topology) string {
	var b strings.Builder
	for _, s := range t.States {
		fmt.Fprintf(&b, "state %s\n", s.Path)
		for _, r := range s.Routes {
			fmt.Fprintf(&b, "    %s\n", Operation{Verb: AddRoute, Node: r.Node, Route: r.Route})
		}
		for _, m := range s.Modes {
			fmt.Fprintf(&b, "    mode %s %s\n", m.Node, m.Mode)
		}
	}
	return b.String()
}

func TestPlanOfSwitchedPaths(t *testing.T) {
	for name, e := range map[string]*experiment.Experiment{"switched": fastPath(), "one-way": oneWay()} {
		topology, _, err := FromExperiment(e)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := topology.Plan()
		if err != nil {
			t.Fatal(err)
		}
		var lines strings.Builder
		for l := range strings.Lines(plan.String()) {
			if !strings.HasPrefix(l, "sysctl ") {
				lines.WriteString(l)
			}
		}
		golden(t, name+".plan", lines.String()+statesText(topology))
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
		"off": {fastPath(), []expected{
			{a(edge, appliance, vm), 62, 62, []string{"edge", "appliance"}, "gateway", ends},
			{a(edge, gateway, appliance, vm), 61, 61, []string{"edge", "gateway", "appliance"}, "", ends},
			{a(edge, vm), 63, 63, []string{"edge"}, "gateway", ends},
		}},
		"one way": {oneWay(), []expected{
			{a(edge, appliance, vm), 62, 62, []string{"edge", "appliance"}, "gateway", ends},
			{a(edge, gateway, appliance, vm), 61, 62, []string{"edge", "gateway", "appliance"}, "", ends},
			{a(edge, vm), 63, 63, []string{"edge"}, "gateway", ends},
		}},
	} {
		_, paths, err := FromExperiment(test.e)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range paths {
			got := expected{p.Hops, p.ReceivedTTL, p.ReturnedTTL, nil, p.SameAs, [2]netip.Addr{p.Source, p.Destination}}
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

// Whatever is switched, every state sets the same routes, so that any may
// follow any; and each leads to the far end of the link that it leaves by.
func TestStatesAreComplete(t *testing.T) {
	for _, e := range []*experiment.Experiment{fastPath(), oneWay()} {
		topology, _, err := FromExperiment(e)
		if err != nil {
			t.Fatal(err)
		}
		far := map[[2]string]netip.Addr{}
		for _, l := range topology.Links {
			far[[2]string{l.A.Node, l.A.Interface}] = l.B.Address.Addr()
			far[[2]string{l.B.Node, l.B.Interface}] = l.A.Address.Addr()
		}
		var keys [][]string
		for _, s := range topology.States {
			var of []string
			for _, r := range s.Routes {
				of = append(of, r.key())
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
	e := oneWay()
	e.Paths = e.Paths[1:2]
	topology, _, err := FromExperiment(e)
	if err != nil {
		t.Fatal(err)
	}
	if len(topology.States) != 0 || len(topology.Links) != 5 {
		t.Errorf("%d states and %d links, want none and 4 with one bypass", len(topology.States), len(topology.Links))
	}
	topology, _, err = FromExperiment(routingAppliance())
	if err != nil {
		t.Fatal(err)
	}
	if len(topology.States) != 0 || slices.ContainsFunc(topology.Links, func(l Link) bool { return l.Standby }) {
		t.Errorf("states %v, links %v", topology.States, topology.Links)
	}
}

func TestSwitchedPathsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*experiment.Experiment)
		want   string
	}{
		"no such path":    {func(e *experiment.Experiment) { e.Paths[0].SameAs = "nowhere" }, `the same as "nowhere"`},
		"same as variant": {func(e *experiment.Experiment) { e.Paths[0].SameAs = "bare" }, `the same as "bare"`},
		"many links": {func(e *experiment.Experiment) {
			for len(e.Paths[1].Hops) < 130 {
				e.Paths[1].Hops = append(e.Paths[1].Hops, experiment.Hop{Type: experiment.Router, Name: fmt.Sprint("r", len(e.Paths[1].Hops))})
			}
		}, "addresses for 128"},
	} {
		e := fastPath()
		test.change(e)
		if _, _, err := FromExperiment(e); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q in it", name, err, test.want)
		}
	}
}

func TestValidateStates(t *testing.T) {
	topology, _, err := FromExperiment(fastPath())
	if err != nil {
		t.Fatal(err)
	}
	topology.States = append(topology.States, topology.States[0], State{Path: "x", Routes: []NodeRoute{
		{Node: "vm", Route: Route{Destination: netip.MustParsePrefix("fe80::/64"), Interface: "nowhere"}},
	}})
	err = topology.Validate()
	for _, want := range []string{"is there twice", "no interface vm:nowhere", "only IPv4"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no word of %q in: %v", want, err)
		}
	}
}
