//go:build !linux && !windows

package hostinfo

// ReadCPU is not supported here: macOS, for one, tells CPU time only by Mach
// messages (host_processor_info), which need cgo.
func ReadCPU() (CPUTimes, error) { return CPUTimes{}, ErrUnsupported }
