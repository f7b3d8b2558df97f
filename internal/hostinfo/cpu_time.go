package hostinfo

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

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

const (
	windowsProcessorBytes  = 48
	maxWindowsProcessors   = 4096
	windowsProcessorsBytes = maxWindowsProcessors * windowsProcessorBytes
)

var errShort = errors.New("the system's answer is too short")

// windowsProcessors reads an array of SYSTEM_PROCESSOR_PERFORMANCE_INFORMATION
// of winternl.h, which has idle, kernel (idle included) and user time of each
// CPU in units of 100 ns:
// https://learn.microsoft.com/windows/win32/api/winternl/nf-winternl-ntquerysysteminformation
func windowsProcessors(b []byte) (CPUTimes, error) {
	var t CPUTimes
	for ; len(b) >= windowsProcessorBytes; b = b[windowsProcessorBytes:] {
		spent := func(offset int) time.Duration {
			return time.Duration(binary.LittleEndian.Uint64(b[offset:])) * 100 * time.Nanosecond
		}
		total := spent(8) + spent(16)
		t.Each = append(t.Each, total-spent(0))
		t.Total += total
		t.Busy += total - spent(0)
	}
	t.CPUs = len(t.Each)
	if t.CPUs == 0 {
		return CPUTimes{}, fmt.Errorf("read processor time: %w", errShort)
	}
	return t, nil
}
