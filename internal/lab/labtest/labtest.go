// Package labtest has the experiments and the golden files that tests of the lab's
// packages share.
package labtest

import (
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
)

var update = flag.Bool("update", false, "write what the tests got to their golden files")

// Golden compares got with testdata/name.
func Golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("differs from %s (run with -update to accept):\n%s", file, got)
	}
}

// RoutingAppliance is an experiment of paths over none, one and two appliances.
func RoutingAppliance() *experiment.Experiment {
	return &experiment.Experiment{
		Endpoints:   []experiment.Endpoint{{Name: "vm1", EgressBitsPerSecond: 1.25e9}, {Name: "vm2", EgressBitsPerSecond: 1.25e9, CongestionControl: "reno"}},
		Source:      "vm1",
		Destination: "vm2",
		Paths: []experiment.Path{
			{Name: "plain"},
			{Name: "direct", Hops: []experiment.Hop{
				{Type: experiment.Link, Name: "peering", Impairment: experiment.Impairment{Delay: 369 * time.Microsecond}},
			}},
			{Name: "two-appliances", Hops: []experiment.Hop{
				{Type: experiment.Link, Name: "peering", Impairment: experiment.Impairment{Delay: 369 * time.Microsecond}},
				{Type: experiment.Router, Name: "appliance", Impairment: experiment.Impairment{Delay: 1128 * time.Microsecond}},
				{Type: experiment.Link, Impairment: experiment.Impairment{Delay: 31 * time.Microsecond, LossFraction: 0.01}},
				{Type: experiment.Router, Name: "appliance"},
			}},
		},
	}
}

// SharedEgress is an experiment whose source has two interfaces with one egress.
func SharedEgress() *experiment.Experiment {
	e := Attached()
	e.Endpoints[0] = experiment.Endpoint{Name: "vm1", EgressBitsPerSecond: 50e6, NICs: 2}
	e.Endpoints[1].EgressBitsPerSecond = 400e6
	e.Paths = []experiment.Path{
		{Name: "plain"},
		{Name: "routed", Hops: []experiment.Hop{{Type: experiment.Router, Name: "box", MTU: 1400}}},
		e.Paths[1],
	}
	return e
}

// Pairs is an experiment of n pairs over a plain path and one with a router.
func Pairs(n int) *experiment.Experiment {
	return &experiment.Experiment{
		Endpoints: []experiment.Endpoint{{Name: "client", EgressBitsPerSecond: 1e8}, {Name: "server"}},
		Source:    "client", Destination: "server", Pairs: n,
		Paths: []experiment.Path{
			{Name: "plain", Hops: []experiment.Hop{{Type: experiment.Link, MTU: 9000}}},
			{Name: "fleet", Hops: []experiment.Hop{
				{Type: experiment.Firewall, Name: "node", Rules: 10, Impairment: experiment.Impairment{Delay: time.Millisecond}},
			}},
		},
	}
}

func PairsInTunnels() *experiment.Experiment {
	e := Pairs(2)
	e.Paths[1].Tunnel = &experiment.Tunnel{Type: experiment.VXLAN, ID: 7, Port: 4789, MTU: 1450}
	return e
}

// ParallelHops is an experiment with everything that stands side by side.
func ParallelHops() *experiment.Experiment {
	rate := experiment.Impairment{RateBitsPerSecond: 1e8}
	e := RoutingAppliance()
	e.Paths = []experiment.Path{
		{Name: "fleet", Hops: []experiment.Hop{
			{Type: experiment.Link, Impairment: experiment.Impairment{Delay: time.Millisecond}},
			{Type: experiment.Firewall, Name: "fw", Instances: 2, Rules: 1, Impairment: rate, MTU: 1400,
				ScaleOut: &experiment.ScaleOut{At: time.Second, Instances: 3}},
			{Type: experiment.Router, Name: "r"},
		}},
		{Name: "balanced", Hops: []experiment.Hop{
			{Type: experiment.LoadBalancer, Name: "lb", Backends: 2, Impairment: rate},
		}},
		{Name: "both", Hops: []experiment.Hop{
			{Type: experiment.Firewall, Name: "fw", Instances: 2, Rules: 1},
			{Type: experiment.LoadBalancer, Name: "lb", Backends: 2},
			{Type: experiment.Router, Name: "r"},
		}},
	}
	return e
}

// Attached is an experiment with an endpoint behind a software switch and paths
// inside tunnels.
func Attached() *experiment.Experiment {
	delay := experiment.Impairment{Delay: 300 * time.Microsecond}
	return &experiment.Experiment{
		Endpoints:   []experiment.Endpoint{{Name: "vm1", SoftwareSwitch: true}, {Name: "vm2", CongestionControl: "reno"}},
		Source:      "vm1",
		Destination: "vm2",
		Paths: []experiment.Path{
			{Name: "vxlan-1"},
			{Name: "inside", Tunnel: &experiment.Tunnel{Type: experiment.VXLAN, ID: 7, Port: 4789, MTU: 1450}, Hops: []experiment.Hop{
				{Type: experiment.Link, Impairment: delay},
				{Type: experiment.Router, Name: "appliance"},
			}},
			{Name: "narrow", Tunnel: &experiment.Tunnel{Type: experiment.VXLAN, ID: 8, Port: 4789, MTU: 1400}},
		},
	}
}

// FastPath is a circuit, an edge, a gateway that the fast path passes by, and
// an appliance that a user's route sends traffic through.
//
//	site ══circuit══ edge ── gateway ──── appliance ── vm
//	                   ╰──────────────────╯   ╰ …
func FastPath() *experiment.Experiment {
	hops := []experiment.Hop{
		{Type: experiment.Link, Name: "circuit", Impairment: experiment.Impairment{Delay: 2 * time.Millisecond}},
		{Type: experiment.Router, Name: "edge", Impairment: experiment.Impairment{Delay: time.Millisecond}},
		{Type: experiment.VNetGateway, Name: "gateway", Silent: true, Impairment: experiment.Impairment{Delay: 5 * time.Millisecond}, MTU: 1400},
		{Type: experiment.Router, Name: "appliance"},
	}
	return &experiment.Experiment{
		Endpoints: []experiment.Endpoint{{Name: "site", EgressBitsPerSecond: 1e9}, {Name: "vm"}},
		Source:    "site", Destination: "vm",
		Paths: []experiment.Path{
			{Name: "fast", VariantOf: "gateway", Hops: hops, Bypass: []string{"gateway"}},
			{Name: "gateway", Hops: hops},
			{Name: "bare", VariantOf: "gateway", Hops: hops, Bypass: []string{"gateway", "appliance"}},
		},
	}
}

// OneWay is the published setting: the reverse direction always passes by the gateway.
func OneWay() *experiment.Experiment {
	e := FastPath()
	for i := range e.Paths {
		e.Paths[i].Hops = slices.Clone(e.Paths[i].Hops)
		e.Paths[i].Hops[2].OneWay = true
	}
	return e
}

// Address is that of a host on a link of a path, as package layout gives it.
func Address(path, link, host int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(path), byte(link), byte(host)}), 30)
}
