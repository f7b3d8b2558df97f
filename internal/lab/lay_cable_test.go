package lab

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
)

// The cables that a path begins with are one link, wherever it begins and
// whatever comes behind it.
func TestLeadingCables(t *testing.T) {
	cable := func(name string) experiment.Hop {
		return experiment.Hop{Type: experiment.Cable, Name: name, Impairment: experiment.Impairment{Delay: time.Millisecond}}
	}
	router := experiment.Hop{Type: experiment.Router, Name: "r"}
	for name, test := range map[string]struct {
		hops  []experiment.Hop
		off   []string
		pairs int
		want  *HopNode
	}{
		"none":          {hops: []experiment.Hop{router, cable("late")}},
		"one":           {hops: []experiment.Hop{cable("wire")}, want: &HopNode{Hop: "wire", Node: "vm1", Interface: "p"}},
		"several":       {hops: []experiment.Hop{cable("wire"), cable(""), router, cable("late")}, want: &HopNode{Hop: "wire + cable", Node: "vm1", Interface: "p"}},
		"before a fork": {hops: []experiment.Hop{cable("wire"), router}, off: []string{"r"}, want: &HopNode{Hop: "wire", Node: "vm1", Interface: "p", Bypasses: []string{"bypass-0-1"}}},
		"of many hosts": {hops: []experiment.Hop{cable("wire")}, pairs: 2, want: &HopNode{Hop: "wire", Node: "p/vm1-access", Interface: "to-destination"}},
	} {
		e := routingAppliance()
		e.Pairs = test.pairs
		e.Paths = []experiment.Path{{Name: "p", Hops: test.hops}, {Name: "other", Hops: []experiment.Hop{router}}}
		if test.off != nil {
			e.Paths[1] = experiment.Path{Name: "off", SameAs: "p", Hops: test.hops, Off: test.off}
		}
		_, paths, err := FromExperiment(e)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !reflect.DeepEqual(paths[0].Leading, test.want) {
			t.Errorf("%s: got %+v, want %+v", name, paths[0].Leading, test.want)
		}
		if test.off != nil && !reflect.DeepEqual(paths[1].Leading, test.want) {
			t.Errorf("%s, switched: got %+v, want %+v", name, paths[1].Leading, test.want)
		}
		watched := paths[0].Watched()
		if test.want == nil && len(watched) != len(paths[0].HopNodes) || test.want != nil && (len(watched) != len(paths[0].HopNodes)+1 || watched[0].Hop != test.want.Hop) {
			t.Errorf("%s: watched are %+v", name, watched)
		}
	}
}

// Every link of a hop whose processor time is wanted is a process, and no other.
func TestAccountCPU(t *testing.T) {
	hop := func(kind experiment.HopType, name string) experiment.Hop {
		return experiment.Hop{Type: kind, Name: name, AccountCPU: true, Instances: 1, Rules: 1, Backends: 2}
	}
	nat := hop(experiment.NAT, "n")
	nat.Translate = experiment.TranslateSource
	fleet := hop(experiment.Firewall, "fw")
	fleet.Instances = 3
	plain := experiment.Hop{Type: experiment.Router, Name: "plain"}
	for name, test := range map[string]struct {
		hop   experiment.Hop
		nodes []string
	}{
		"router":    {hop(experiment.Router, "r"), []string{"p/r"}},
		"firewall":  {hop(experiment.Firewall, "fw"), []string{"p/fw"}},
		"instances": {fleet, []string{"p/fw.1", "p/fw.2", "p/fw.3"}},
		"nat":       {nat, []string{"p/n"}},
		"gateway":   {hop(experiment.Gateway, "g"), []string{"p/g"}},
		"balancer":  {hop(experiment.LoadBalancer, "lb"), []string{"p/lb"}},
	} {
		e := routingAppliance()
		hops := []experiment.Hop{plain, {Type: experiment.Router, Name: "between"}, test.hop}
		e.Paths = []experiment.Path{{Name: "p", Hops: hops}}
		topology, _, err := FromExperiment(e)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		seen := 0
		for _, l := range topology.Links {
			at := slices.Contains(test.nodes, l.A.Node) || slices.Contains(test.nodes, l.B.Node)
			if at {
				seen++
			}
			if at != (l.Cable != nil) {
				t.Errorf("%s: link %s is a process: %v", name, l.name(), l.Cable != nil)
			}
		}
		if seen < 2*len(test.nodes) {
			t.Errorf("%s: %d links at %v", name, seen, test.nodes)
		}
	}
}
