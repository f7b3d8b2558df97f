// Package filter is what a node of a lab does beyond routing packets, one function a
// file: a packet filter (firewall, address translation, a limit of flows, silence), the
// distribution of flows, the account of the kernel's work. A function is plain data;
// on Linux it is applied to a network namespace, with nftables for the most part.
package filter

import (
	"iter"

	"github.com/hopbench/hopbench/internal/measurement"
)

// Function is something that a node does beyond routing packets. On Linux each is an
// Applier, too.
type Function interface {
	// Validate checks that it can be applied and reports every fault it finds.
	Validate() error
	// Line says it in a plan.
	Line(node string) string
}

// Functions are those of one node, nil for what it does not do. A function is a file
// with its type, its field here and its row in All.
type Functions struct {
	Spread    *Spread    `json:"spread,omitempty"`
	Balance   *Balance   `json:"balance,omitempty"`
	Filter    *Table     `json:"filter,omitempty"`
	KernelCPU *KernelCPU `json:"kernel_cpu,omitempty"`
}

// Routing is how many functions, the first ones of All, decide where flows go: they
// need a node that forwards.
const Routing = 2

// All are the functions that there are, with their rows, in the order in which they
// are applied.
func (f Functions) All() iter.Seq2[int, Function] {
	rows := []Function{some(f.Spread), some(f.Balance), some(f.Filter), some(f.KernelCPU)}
	return func(yield func(int, Function) bool) {
		for row, function := range rows {
			if function != nil && !yield(row, function) {
				return
			}
		}
	}
}

// some is what p points to, a nil Function for nothing.
func some[T Function](p *T) Function {
	if p == nil {
		return nil
	}
	return *p
}

// Counting adds what a function in force has counted so far to what is known of its
// node, which has received so many packets. One goroutine at a time may call it.
type Counting func(receivedPackets uint64, s *measurement.HopSample) error
