package agent

import (
	"fmt"
	"time"

	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/measurement"
)

// Counters are what the kernel of an agent's host has counted since some moment: only
// differences mean anything.
type Counters struct {
	// Taken is when they were read, on the coordinator's time.
	Taken time.Time `json:"-"`
	// Interface is that which was asked for; absent where the system does not tell.
	Interface *hostinfo.InterfaceCounters `json:"interface,omitempty"`
	// CPUTotal is the time that passed, times CPUs; CPUBusy the part of it in which they
	// were not idle, SoftIRQ the part in soft interrupts, where packets are forwarded.
	CPUs     int                 `json:"cpus,omitempty"`
	CPUTotal measurement.Seconds `json:"cpu_total_seconds,omitempty"`
	CPUBusy  measurement.Seconds `json:"cpu_busy_seconds,omitempty"`
	SoftIRQ  measurement.Seconds `json:"cpu_softirq_seconds,omitempty"`
	// DroppedPackets are those that the host lost, in all places that count them;
	// SoftnetSqueezes how often it stopped receiving with packets left to receive.
	DroppedPackets  float64 `json:"dropped_packets"`
	SoftnetSqueezes float64 `json:"softnet_squeezes_count"`
	// Conntrack is the table of connections, absent without one.
	Conntrack *hostinfo.ConntrackCounters `json:"conntrack,omitempty"`
}

// maxInterfaceName is IFNAMSIZ of Linux, and more than other systems' names have.
const maxInterfaceName = 64

// readCounters reads what this system tells.
func readCounters(name string) (*Counters, error) {
	if name == "" || len(name) > maxInterfaceName {
		return nil, fmt.Errorf("counters need the name of an interface, of at most %d bytes", maxInterfaceName)
	}
	of, err := hostinfo.ReadInterface(name)
	if err != nil {
		return nil, err
	}
	c := &Counters{Interface: &of}
	// What a system does not tell is absent.
	if cpu, err := hostinfo.ReadCPU(); err == nil {
		c.CPUs = cpu.CPUs
		c.CPUTotal, c.CPUBusy, c.SoftIRQ = measurement.SecondsOf(cpu.Total), measurement.SecondsOf(cpu.Busy), measurement.SecondsOf(cpu.SoftIRQ)
	}
	if drops, err := hostinfo.ReadDrops(); err == nil {
		for _, p := range drops.Places {
			c.DroppedPackets += float64(p.Packets)
		}
		c.SoftnetSqueezes = float64(drops.Squeezes)
	}
	if table, err := hostinfo.ReadConntrack(); err == nil {
		c.Conntrack = &table
	}
	return c, nil
}
