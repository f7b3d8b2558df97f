package apply

import (
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
)

// NodeCounters are those of one node: of its interfaces and its functions.
type NodeCounters struct {
	Node       string              `json:"node"`
	Read       time.Time           `json:"read"` // when they were read
	Interfaces []InterfaceCounters `json:"interfaces"`
	// Functions is what the node's functions counted, in totals.
	Functions measurement.HopSample `json:"functions"`
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
	// SentDropped is what the device or its queue refused, EgressDropped what the
	// queue of the egress meter had no room for.
	SentDropped   uint64 `json:"sent_dropped_packets"`
	EgressDropped uint64 `json:"egress_dropped_packets"`
	// EgressBusy is how long the egress meter takes, at its rate, for what it let pass.
	EgressBusy time.Duration `json:"egress_busy_nanoseconds,omitempty"`
}
