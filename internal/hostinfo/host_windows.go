package hostinfo

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
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

// HostID tells this installation of Windows from others; empty if unknown.
func HostID() string {
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, `SOFTWARE\Microsoft\Cryptography`, registry.QUERY_VALUE|registry.WOW64_64KEY)
	if err != nil {
		return ""
	}
	defer func() { _ = key.Close() }() // opened for reading
	id, _, err := key.GetStringValue("MachineGuid")
	if err != nil {
		return ""
	}
	return identity(id)
}
