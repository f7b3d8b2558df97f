package layout

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab/labtest"
	"github.com/hopbench/hopbench/internal/lab/plan"
	"github.com/hopbench/hopbench/internal/lab/topology"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestPlanOfTunnels(t *testing.T) {
	e := labtest.Attached()
	e.Paths = append(e.Paths, experiment.Path{Name: "secret", Tunnel: &experiment.Tunnel{Type: experiment.WireGuard, Port: 51820, MTU: 1420}})
	built, paths, err := FromExperiment(e)
	testutil.OK(t, err)
	steps, err := plan.Of(built)
	testutil.OK(t, err)
	var text strings.Builder
	for _, o := range steps {
		if _, is := o.(plan.SetSysctl); !is {
			text.WriteString(o.String() + "\n")
		}
	}
	labtest.Golden(t, "tunnels.plan", text.String())

	addr := netip.MustParseAddr
	want := Path{
		Name: "inside", SourceNode: "vm1", DestinationNode: "vm2", Source: addr("10.255.1.1"), Destination: addr("10.255.1.2"),
		Hops: []netip.Addr{addr("10.255.1.2")}, ReceivedTTL: 64, ReturnedTTL: 64, HopNodes: []HopNode{{Hop: "appliance", Node: "inside/appliance", Interface: "to-destination"}}, Listen: addr("10.255.1.2"),
		Leading: &HopNode{Hop: "link", Node: "vm1", Interface: "inside", Devices: map[string]Device{"inside": {"vm1.switch", "link1"}}},
		Outer:   &OuterPath{Source: addr("10.1.0.1"), Destination: addr("10.1.1.2"), Hops: []netip.Addr{addr("10.1.0.2"), addr("10.1.1.2")}, Interface: "inside", Port: 4789, MTU: 1450},
	}
	if !reflect.DeepEqual(paths[1], want) {
		t.Errorf("got  %+v\nwant %+v", paths[1], want)
	}
}

// What a tunnel sends leaves by the bypass where the first hop is bypassed.
func TestTunnelOverBypass(t *testing.T) {
	e := labtest.Attached()
	hops := []experiment.Hop{{Type: experiment.Link}, {Type: experiment.Router, Name: "r"}, {Type: experiment.Router, Name: "s"}}
	e.Paths = []experiment.Path{{Name: "whole", Hops: hops, Tunnel: &experiment.Tunnel{Type: experiment.VXLAN, ID: 1, Port: 4789, MTU: 1450}}}
	for _, off := range [][]string{{"r"}, {"s"}, {"r", "s"}} {
		e.Paths = append(e.Paths, experiment.Path{Name: "no-" + strings.Join(off, "-"), VariantOf: "whole", Hops: hops, Tunnel: e.Paths[0].Tunnel, Bypass: off})
	}
	built, paths, err := FromExperiment(e)
	testutil.OK(t, err)
	for _, p := range paths {
		for _, r := range built.State(p.Name).Routes {
			if r.Node == p.SourceNode && r.Route.Destination.Contains(p.Outer.Destination) && r.Route.Interface != p.Outer.Interface {
				t.Errorf("path %s: looked for at %s, but packets leave by %s", p.Name, p.Outer.Interface, r.Route.Interface)
			}
		}
	}
}

// A path says by itself how endpoints are attached to it.
func TestAttachmentOfAPath(t *testing.T) {
	e := labtest.Attached()
	e.Paths[0].SoftwareSwitch = new(false)
	e.Paths[1].SoftwareSwitch = new(true)
	built, _, err := FromExperiment(e)
	testutil.OK(t, err)
	var got []string
	for _, l := range built.Links {
		got = append(got, l.A.Switch, l.B.Switch)
	}
	want := []string{"", "", "vm1.switch", "", "", "vm2.switch", "vm1.switch", ""}
	if !slices.Equal(got, want) {
		t.Errorf("the ends of links have the switches %q, want %q", got, want)
	}
}

func TestValidateTunnelsAndSwitches(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*topology.Topology)
		want   string
	}{
		"a taken interface":        {func(t *topology.Topology) { t.Nodes[0].Tunnels[0].Interface = "vxlan-1" }, "taken"},
		"no interface name":        {func(t *topology.Topology) { t.Nodes[0].Tunnels[0].Interface = "sixteen-letters-" }, "not one for an interface"},
		"an unknown type":          {func(t *topology.Topology) { t.Nodes[0].Tunnels[0].Type = "gre" }, `not "gre"`},
		"a large id":               {func(t *topology.Topology) { t.Nodes[0].Tunnels[0].ID = 1 << 24 }, "24 bits"},
		"no port":                  {func(t *topology.Topology) { t.Nodes[0].Tunnels[0].Port = 0 }, "not a UDP port"},
		"a small MTU":              {func(t *topology.Topology) { t.Nodes[0].Tunnels[0].MTU = 60 }, "MTU of 60"},
		"no remote":                {func(t *topology.Topology) { t.Nodes[0].Tunnels[0].Remote = netip.Addr{} }, "IPv4 addresses"},
		"a far peer":               {func(t *topology.Topology) { t.Nodes[0].Tunnels[0].Peer = netip.MustParseAddr("10.9.9.9") }, "is not in"},
		"a taken address":          {func(t *topology.Topology) { t.Nodes[0].Tunnels[0].Address = address(0, 0, 1) }, "already that of"},
		"one id twice":             {func(t *topology.Topology) { t.Nodes[0].Tunnels[1].ID = 7 }, "id 7 is already that of vxlan-1x"},
		"no switch":                {func(t *topology.Topology) { t.Links[0].A.Switch = "nowhere" }, `no node "nowhere"`},
		"a switch that is the end": {func(t *topology.Topology) { t.Links[0].A.Switch = "vm2" }, "is an end of it"},
		"one switch at both ends":  {func(t *topology.Topology) { t.Links[0].B.Switch = t.Links[0].A.Switch }, "both ends"},
	} {
		t.Run(name, func(t *testing.T) {
			built, _, err := FromExperiment(labtest.Attached())
			testutil.OK(t, err)
			test.change(&built)
			if err := built.Validate(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}
