package filter

import (
	"fmt"
	"strings"
)

// StampsOnEntry is how many copies of a packet that it stamps a sampler sends
// as the packet comes in. The first of them brings the code for it into the
// processor's caches, the next two say how long a copy takes. One more is sent
// as the packet leaves.
const StampsOnEntry = 3

// PacketStamps is where packets are stamped: a copy of some that come in through
// Interfaces, and of the same as they leave through one of them, goes out of the
// interface with the index Device, at the other end of which is Sink.
type PacketStamps struct {
	Interfaces []string
	// Gap is how many packets there are on average for each that is stamped. The
	// stamps of one cost some 2 µs.
	Gap    int
	Device int
	Sink   string
}

// KernelCPU samples what the kernel spends on the packets of a node, where the kernel
// can.
type KernelCPU struct {
	Interfaces []string `json:"interfaces"` // of the node
	Gap        int      `json:"gap"`        // as of PacketStamps
}

// Validate checks k.
func (k KernelCPU) Validate() error {
	if len(k.Interfaces) == 0 || k.Gap < 1 {
		return fmt.Errorf("one of %d packets cannot be sampled at %d interfaces", k.Gap, len(k.Interfaces))
	}
	return nil
}

// Line is k in a plan.
func (k KernelCPU) Line(node string) string {
	return fmt.Sprintf("time %s:%s if possible", node, strings.Join(k.Interfaces, ","))
}

// SamplerGap suits a lab where so many nodes are sampled: one packet in 64, which
// slows a node by 1 to 3 %; where more than manySamplers nodes may all be in use,
// there are more between, so that they take no larger part of the CPUs.
func SamplerGap(nodes int) int { return samplerGap * max(1, nodes/manySamplers) }

const (
	samplerGap   = 64
	manySamplers = 4
)
