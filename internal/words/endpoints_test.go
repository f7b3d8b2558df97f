package words

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// What differs between the ends is said, as far as both tell it.
func TestEndsDiffer(t *testing.T) {
	end := func(name string, environment map[string]string) result.TestbedEndpoint {
		return result.TestbedEndpoint{Name: name, Environment: environment}
	}
	client := map[string]string{"nic_eth0": "virtio_net, MTU 1500", "nic_eth0_offloads": "tso gro", "net.ipv4.tcp_rmem": "1 2 3", "kernel": "6.1"}
	server := map[string]string{"nic_ens3": "virtio_net, MTU 1500", "nic_ens3_offloads": "gro", "net.ipv4.tcp_rmem": "1 2 4", "kernel": "6.2", "clock_source": "tsc"}
	got := endsDiffer([]result.TestbedEndpoint{end("client", client), end("silent", nil), end("server", server)})
	if want := []string{"client and server differ in NIC offloads (tso gro, and gro), net.ipv4.tcp_rmem (1 2 3, and 1 2 4)"}; !slices.Equal(got, want) {
		t.Errorf("it says %q, want %q", got, want)
	}
	server["nic_ens4"] = "igb, MTU 1500"
	if got := endsDiffer([]result.TestbedEndpoint{end("client", client), end("server", server)}); len(got) != 1 || strings.Contains(got[0], "NIC") {
		t.Errorf("of two interfaces it says %q", got)
	}
}

// A run on hosts says where its ends and paths were; one in a lab has nothing to say.
func TestWhere(t *testing.T) {
	if got := Where(&result.Result{Testbed: result.Testbed{Kind: "lab"}}); len(got) > 0 {
		t.Errorf("of a lab it says %q", got)
	}
	visit := func(path string, switched bool, took measurement.Seconds, proof string) measurement.Trial {
		return measurement.Trial{Path: path, Fingerprint: &measurement.Fingerprint{
			Switched: switched, Switch: &measurement.PathSwitch{Set: map[string]string{"idps": "deny"}, Took: took, Proof: proof},
		}}
	}
	r := &result.Result{
		Testbed: result.Testbed{
			Kind: "hosts", Name: "office",
			Endpoints: []result.TestbedEndpoint{
				{Name: "client", Reach: "local", Host: "c1", Version: "v1.2.3", Environment: map[string]string{"cloud": "Azure, Standard_D4s_v5", "cpus": "4", "kernel": "6.1"}},
				{Name: "server", Reach: "serve", EgressBitsPerSecond: 1e10},
			},
			Paths: []result.TestbedPath{
				{Name: "public", To: "203.0.113.9:5201", Listen: "10.0.0.7:5201", From: "10.0.5.2", DSCP: 46, Proof: result.ProofTrace},
				{Name: "deny", To: "10.0.0.7:5201", Device: "eth1", Proof: result.ProofTTL, Set: map[string]string{"idps": "deny"}},
				{Name: "hoped", To: "10.0.0.8:5201", Proof: result.ProofTTL, Set: map[string]string{"idps": "deny"}},
			},
		},
		Trials: []measurement.Trial{
			visit("deny", true, 3, "canary"), visit("deny", false, 9, "canary"), visit("deny", true, 2, "canary"), visit("deny", true, 4, "canary"), visit("hoped", true, 1, "none"),
		},
	}
	want := []string{
		"client: host c1, Azure, Standard_D4s_v5, kernel 6.1, 4 CPUs, hopbench v1.2.3, in the process of the run",
		"server: egress 10.0 Gbit/s, a server that was there, which reports little about itself",
		"public: to 203.0.113.9:5201, which is 10.0.0.7:5201 at the destination, from 10.0.5.2, with DSCP 46; a trace before each trial had to show what the first did",
		"deny: to 10.0.0.7:5201, by interface eth1; packets of each trial had to arrive with the TTL of the first; in force with idps deny, switched to 3 times in 3.00 s (median), proven by canary",
		"hoped: to 10.0.0.8:5201; packets of each trial had to arrive with the TTL of the first; in force with idps deny, switched to 1 time in 1.00 s (median); NOT PROVEN to be in force: a switch that does nothing would look like a hop that costs nothing",
	}
	if got := Where(r); !slices.Equal(got, want) {
		t.Errorf("it says\n%q, want\n%q", got, want)
	}
}

// Of many machines those that are alike have one line, whatever their names.
func TestWhereOfAFleet(t *testing.T) {
	r := &result.Result{Testbed: result.Testbed{Kind: result.TestbedFleet, MoreEndpoints: 872}}
	add := func(name string, environment map[string]string) {
		r.Testbed.Endpoints = append(r.Testbed.Endpoints, result.TestbedEndpoint{Name: name, Reach: "fleet", Host: name, Version: "v1", Environment: environment})
	}
	add("odd", map[string]string{"kernel": "6.1", "net.ipv4.tcp_rmem": "1 2 4"})
	for i := range 126 {
		add(fmt.Sprint("vm-", i+1), map[string]string{"kernel": "6.1", "net.ipv4.tcp_rmem": "1 2 3"})
	}
	add("old", map[string]string{"kernel": "5.10", "net.ipv4.tcp_rmem": "1 2 3"})
	want := []string{
		"126 machines, vm-1, vm-2, vm-3 and 123 more: kernel 6.1, hopbench v1, joined the fleet",
		"odd: kernel 6.1, hopbench v1, joined the fleet",
		"old: kernel 5.10, hopbench v1, joined the fleet",
		"872 machines more, without further details in the result",
		"vm-1 and odd differ in net.ipv4.tcp_rmem (1 2 3, and 1 2 4)",
	}
	if got := Where(r); !slices.Equal(got, want) {
		t.Errorf("it says\n%q, want\n%q", got, want)
	}
	r.Testbed.Endpoints = nil
	for i := range 30 {
		add(fmt.Sprint("vm-", i+1), map[string]string{"kernel": fmt.Sprint("6.", i)})
	}
	if got := Where(r); len(got) != mostKinds+2 || got[mostKinds] != "22 machines of 22 kinds more: result.json has them" {
		t.Errorf("of machines that are all other it says %q", got)
	}
}
