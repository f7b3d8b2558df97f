// Package hostinfo reads what this machine says of itself: which one it is, the
// time that its CPUs have spent, the packets that it lost, and what this process may
// have of it. What a system does not tell is an error or a zero that says so.
package hostinfo

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"
)

// ErrUnsupported says that this operating system does not tell it.
var ErrUnsupported = errors.New("not told by this operating system")

// CPUTimes is what the CPUs of the host have spent. Only differences
// between two readings mean anything.
type CPUTimes struct {
	// CPUs is how many CPUs are online.
	CPUs int
	// Total is the time that passed, times CPUs; Busy the part of it that was
	// not idle, time stolen by a hypervisor included; SoftIRQ the part that the
	// system says went to soft interrupts.
	Total, Busy, SoftIRQ time.Duration
	// Steal is the part of Busy in which a hypervisor ran something else.
	Steal time.Duration
	// Each is the busy time of each CPU by itself, nil if unknown.
	Each []time.Duration
	// Switches counts context switches, 0 if unknown.
	Switches uint64
}

// DropCounts is how many packets a host has lost, as the counters of its
// kernel have it. Only differences between two readings mean anything.
type DropCounts struct {
	// Places are counters that no two places share, so that they may be added.
	Places []DropCount
	// Squeezes is how often the host stopped receiving with packets left to
	// receive, its budget used up; nothing is lost by that. It is the whole
	// host's.
	Squeezes uint64
}

// DropCount is the counter of one place.
type DropCount struct {
	Place   string
	Packets uint64
	// HostWide counters belong to the whole host, the others to the network
	// namespace of the calling thread.
	HostWide bool
}

// identity turns something that names a machine into something that only tells
// it from others: 16 hexadecimal digits, empty for empty.
func identity(of string) string {
	if of == "" {
		return ""
	}
	sum := sha256.Sum256([]byte("hopbench identity\x00" + of))
	return hex.EncodeToString(sum[:8])
}

// OthersLoad is how many other tasks run here or wait for a CPU, and the part of the CPU time
// that a hypervisor takes, 0 where that is not known.
func OthersLoad() (runnable int, stolen float64, err error) {
	before, cpuErr := ReadCPU()
	if runnable, err = ReadRunnable(); err != nil {
		return 0, 0, err
	}
	if now, err := ReadCPU(); err == nil && cpuErr == nil && now.Total > before.Total {
		stolen = float64(now.Steal-before.Steal) / float64(now.Total-before.Total)
	}
	return runnable, stolen, nil
}
