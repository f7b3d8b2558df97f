package hostinfo

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"
)

// ReadCPU reads the time of the CPUs of this process's CPU group,
// which is all of them up to 64. Windows tells no context switches that a
// program may rely on, and charges deferred procedure calls to the kernel.
func ReadCPU() (CPUTimes, error) {
	b := make([]byte, windowsProcessorsBytes)
	var n uint32
	err := windows.NtQuerySystemInformation(windows.SystemProcessorPerformanceInformation, unsafe.Pointer(&b[0]), uint32(len(b)), &n)
	if err != nil {
		return CPUTimes{}, fmt.Errorf("read processor time: %w", err)
	}
	return windowsProcessors(b[:min(int(n), len(b))])
}
