package hostinfo

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

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
