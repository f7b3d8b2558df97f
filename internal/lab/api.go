package lab

import (
	"os"
	"time"

	"github.com/hopbench/hopbench/internal/cable"
	"github.com/hopbench/hopbench/internal/idps"
)

// Options of Start. The zero value suits a topology without agents.
type Options struct {
	// NodeCommand are the arguments, after the program name, with which
	// Executable runs in nodes that have an Agent. Its control socket is file
	// descriptor 3. Required when the topology has agents.
	NodeCommand []string
	// Executable is the program that becomes supervisor, agents and cables; its
	// main function calls Main first. Empty is the running program itself.
	Executable string
}

// Command is a program to run in a node.
type Command struct {
	// Argv is the program and its arguments; a name without a slash is looked
	// up in the PATH of Env.
	Argv []string
	// Env is the environment, nil for that of the calling process.
	Env []string
	// Dir is the working directory, empty for that of the calling process.
	Dir string
	// Stdin, Stdout and Stderr of the program; nil is the null device.
	Stdin, Stdout, Stderr *os.File
	// Signals are passed on to the program; may be nil.
	Signals <-chan os.Signal
}

// Counters are those of a whole lab at one moment.
type Counters struct {
	Nodes  []NodeCounters  `json:"nodes"`
	Cables []CableCounters `json:"cables,omitempty"`
}

// CableCounters are those of the process that carries a cable's frames. Forward
// is from A to B.
type CableCounters struct {
	A End `json:"a"`
	B End `json:"b"`
	cable.Counters
	// IDPS are those of the inspection, nil where there is none.
	IDPS *idps.Counters `json:"idps,omitempty"`
	Read time.Time      `json:"read"` // when they were read
	// CPU is the processor time of the process, user and system, so far.
	CPU time.Duration `json:"cpu_nanoseconds"`
}

// NodeCounters are those of one node: of its interfaces and its packet filter.
type NodeCounters struct {
	Node       string              `json:"node"`
	Read       time.Time           `json:"read"` // when they were read
	Interfaces []InterfaceCounters `json:"interfaces"`
	// Connections is the size of the connection table, absent where the node
	// does not track connections.
	Connections *uint64 `json:"connections,omitempty"`
	// FilterDropped is what the packet filter refused to forward.
	FilterDropped uint64 `json:"filter_dropped_packets,omitempty"`
	// KernelWork is the processor time that the kernel spent on packets in the
	// node, nil where it is not timed.
	KernelWork *time.Duration `json:"kernel_work_nanoseconds,omitempty"`
}

// InterfaceCounters are the kernel's counters of one interface since it was
// made (struct rtnl_link_stats64), and those of its queueing discipline.
type InterfaceCounters struct {
	Name            string `json:"name"`
	ReceivedBytes   uint64 `json:"received_bytes"`
	ReceivedPackets uint64 `json:"received_packets"`
	ReceivedDropped uint64 `json:"received_dropped_packets"`
	SentBytes       uint64 `json:"sent_bytes"`
	SentPackets     uint64 `json:"sent_packets"`
	// SentDropped is what the device refused, EgressDropped what the queue of
	// the egress meter had no room for.
	SentDropped   uint64 `json:"sent_dropped_packets"`
	EgressDropped uint64 `json:"egress_dropped_packets"`
}

// Finding is one line of Check: something that a lab needs or can use.
type Finding struct {
	Name string
	OK   bool
	// Required marks what no lab works without.
	Required bool
	Detail   string // what was found
	Mend     string // how to get it, when it is not OK
}
