package lab

import (
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/lab/filter"
	"github.com/hopbench/hopbench/internal/lab/labtest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// A node with a sampler tells what the kernel spent on the packets that it
// forwarded, less than the whole time; nothing of it is seen in the node's
// counters, and a node without one tells nothing.
func TestKernelCPUSampler(t *testing.T) {
	needProgram(t, "ping")
	built := chain(2, nil)
	built.Nodes[1].Functions.KernelCPU = &filter.KernelCPU{Interfaces: built.InterfacesOf("router-1"), Gap: filter.SamplerGap(1)}
	l := startLab(t, built)
	began := time.Now()
	must(t, l, "source", "ping", "-n", "-f", "-q", "-c", "5000", labtest.Address(0, 2, 2).Addr().String())
	counters, err := l.Counters(t.Context(), "router-1", "router-2")
	testutil.OK(t, err)
	timed, other := counters.Nodes[0], counters.Nodes[1]
	switch {
	case timed.Functions.KernelCPU == 0:
		t.Fatalf("nothing is known of the node: %q", l.Facts())
	case timed.Functions.KernelCPU.Duration() >= time.Since(began):
		t.Errorf("the kernel spent %v of %v on 10000 packets", timed.Functions.KernelCPU.Duration(), time.Since(began))
	}
	if len(timed.Interfaces) != 2 || timed.Interfaces[0].ReceivedPackets < 5000 {
		t.Errorf("the node's counters are %+v", timed.Interfaces)
	}
	if other.Functions.KernelCPU != 0 {
		t.Errorf("a node without a sampler spent %v", other.Functions.KernelCPU.Duration())
	}
}
