package hostinfo

import "golang.org/x/sys/unix"

// ReadCPU is not supported here: macOS tells CPU time only by Mach
// messages (host_processor_info), which need cgo.
func ReadCPU() (CPUTimes, error) { return CPUTimes{}, ErrUnsupported }

// HostID tells this machine from others until it restarts; empty if unknown.
func HostID() string {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return identity(id)
}
