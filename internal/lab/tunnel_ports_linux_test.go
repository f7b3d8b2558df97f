package lab

import (
	"slices"
	"testing"

	"github.com/hopbench/hopbench/internal/lab/labtest"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestOuterPorts(t *testing.T) {
	needProgram(t, "ping", "sh")
	l, paths := startExperiment(t, labtest.Attached())
	inside, other := paths[1], paths[2]
	if ports, err := l.OuterPorts(t.Context(), "vm1", *inside.Outer); err != nil || len(ports) != 0 {
		t.Errorf("nothing is sent, but there are ports %v (%v)", ports, err)
	}
	// It ends with the lab. One flow inside is one outside; what passes
	// outside the tunnel is none.
	must(t, l, "vm1", "sh", "-c", "ping -q -n -i 0.002 -I "+inside.Source.String()+" "+inside.Destination.String()+" >/dev/null 2>&1 & "+
		"ping -q -n -i 0.002 -I "+other.Outer.Source.String()+" "+other.Outer.Destination.String()+" >/dev/null 2>&1 &")
	var ports []uint16
	poll(t, func() bool {
		var err error
		ports, err = l.OuterPorts(t.Context(), "vm1", *inside.Outer)
		testutil.OK(t, err)
		return len(ports) > 0
	}, func() string { return "the packets of the tunnel are not seen" })
	// ARP inside is a flow too, as far as anything outside can tell.
	if len(ports) > 2 || ports[0] == 0 || slices.Contains(ports, 4789) {
		t.Errorf("one flow, and ARP, have the outer ports %v", ports)
	}
	poll(t, func() bool { return counted(t, l, "vm1", "narrow").SentPackets > 10 }, func() string { return "nothing passes beside the tunnel" })
	if ports, err := l.OuterPorts(t.Context(), "vm1", *other.Outer); err != nil || len(ports) != 0 {
		t.Errorf("pings beside a tunnel are taken for its packets, from ports %v (%v)", ports, err)
	}
	if _, err := l.OuterPorts(t.Context(), "vm2.switch", *inside.Outer); err == nil {
		t.Error("a node that is not there was looked at")
	}
}
