package layout

import (
	"reflect"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab/labtest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// The link emulators that a path begins with are one link, wherever it begins and
// whatever comes behind it.
func TestLeadingLinks(t *testing.T) {
	link := func(name string) experiment.Hop {
		return experiment.Hop{Type: experiment.Link, Name: name, Impairment: experiment.Impairment{Delay: time.Millisecond}}
	}
	router := experiment.Hop{Type: experiment.Router, Name: "r"}
	for name, test := range map[string]struct {
		hops  []experiment.Hop
		off   []string
		pairs int
		want  *HopNode
	}{
		"none":          {hops: []experiment.Hop{router, link("late")}},
		"one":           {hops: []experiment.Hop{link("wire")}, want: &HopNode{Hop: "wire", Node: "vm1", Interface: "p"}},
		"several":       {hops: []experiment.Hop{link("wire"), link(""), router, link("late")}, want: &HopNode{Hop: "wire + link", Node: "vm1", Interface: "p"}},
		"before a fork": {hops: []experiment.Hop{link("wire"), router}, off: []string{"r"}, want: &HopNode{Hop: "wire", Node: "vm1", Interface: "p", Bypasses: []string{"bypass-0-1"}}},
		"of many hosts": {hops: []experiment.Hop{link("wire")}, pairs: 2, want: &HopNode{Hop: "wire", Node: "p/vm1-access", Interface: "to-destination"}},
	} {
		e := labtest.RoutingAppliance()
		e.Pairs = test.pairs
		e.Paths = []experiment.Path{{Name: "p", Hops: test.hops}, {Name: "other", Hops: []experiment.Hop{router}}}
		if test.off != nil {
			e.Paths[1] = experiment.Path{Name: "off", VariantOf: "p", Hops: test.hops, Bypass: test.off}
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

// Behind a software switch, or where interfaces share an egress, the link leaves by another
// device than the interface.
func TestDevicesOfLeadingLinks(t *testing.T) {
	hops := []experiment.Hop{{Type: experiment.Link, Name: "wire"}, {Type: experiment.Router, Name: "r"}}
	for name, test := range map[string]struct {
		change func(*experiment.Endpoint)
		want   map[string]Device
	}{
		"switch": {func(e *experiment.Endpoint) { e.SoftwareSwitch = true }, map[string]Device{"p": {"vm1.switch", "link0"}, "bypass-0-1": {"vm1.switch", "link4"}}},
		"shared": {func(e *experiment.Endpoint) { e.NICs = 2 }, map[string]Device{"p": {"vm1", "port0"}, "bypass-0-1": {"vm1", "port4"}}},
		"plain":  {func(*experiment.Endpoint) {}, nil},
	} {
		e := labtest.RoutingAppliance()
		test.change(&e.Endpoints[0])
		e.Paths = []experiment.Path{{Name: "p", Hops: hops}, {Name: "other", Hops: hops}, {Name: "off", VariantOf: "p", Hops: hops, Bypass: []string{"r"}}}
		_, paths, err := FromExperiment(e)
		testutil.OK(t, err)
		for _, p := range []Path{paths[0], paths[2]} {
			if got := p.Leading.Devices; !reflect.DeepEqual(got, test.want) {
				t.Errorf("%s: path %s leaves by %v, want %v", name, p.Name, got, test.want)
			}
		}
	}
}

// A link that ends behind the software switch of the destination drops there, too.
func TestEndsOfLastLinks(t *testing.T) {
	hops := []experiment.Hop{{Type: experiment.Link, Name: "wire"}, {Type: experiment.Router, Name: "r"}, {Type: experiment.Router, Name: "last"}}
	e := labtest.RoutingAppliance()
	e.Endpoints[1].SoftwareSwitch = true
	e.Paths = []experiment.Path{{Name: "p", Hops: hops}, {Name: "off", VariantOf: "p", Hops: hops, Bypass: []string{"last"}}, {Name: "none", VariantOf: "p", Hops: hops, Bypass: []string{"r", "last"}}}
	_, paths, err := FromExperiment(e)
	testutil.OK(t, err)
	for i, want := range [][][]Device{
		{{{"vm2.switch", "link4"}}, {{"vm2.switch", "link3"}}, {{"vm2.switch", "link2"}}},
		{{{"vm2.switch", "link4"}}, {{"vm2.switch", "link3"}}},
		{{{"vm2.switch", "link4"}}},
	} {
		var got [][]Device
		for _, n := range paths[i].Watched() {
			got = append(got, n.Ends)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("path %s: links end at %v, want %v", paths[i].Name, got, want)
		}
	}
}
