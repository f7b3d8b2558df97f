package topology

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/lab/labtest"
)

func TestValidateReportsEveryFault(t *testing.T) {
	topology := Topology{
		Nodes: []Node{{Name: "a", CongestionControl: "no such"}, {Name: "a"}, {Name: "sp ace"}, {Name: "b", Sysctls: map[string]string{"kernel.panic": "1"}}},
		Links: []Link{
			{A: End{Node: "a", Interface: "sixteen-letters-", Address: labtest.Address(0, 0, 1)}, B: End{Node: "nobody", Interface: "lo", Address: labtest.Address(0, 0, 2)}},
			{A: End{Node: "a", Interface: "x", Address: labtest.Address(0, 0, 1)}, B: End{Node: "b", Interface: "x", Address: labtest.Address(0, 1, 2), EgressBitsPerSecond: -1}, MTU: 10},
			{A: End{Node: "b", Interface: "x", Address: netip.MustParsePrefix("fe80::1/64")}, B: End{Node: "b", Interface: "y"}},
		},
	}
	err := topology.Validate()
	if err == nil {
		t.Fatal("it was accepted")
	}
	for _, want := range []string{
		`"no such"`, "a is there twice", `"sp ace"`, "kernel.panic", "sixteen-letters-", "nobody", "not lo",
		"already that of", "subnets differ", "egress", "MTU of 10", "b:x is there twice", "needs an IPv4", "joins a node to itself",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no word of %q in:\n%v", want, err)
		}
	}
}
