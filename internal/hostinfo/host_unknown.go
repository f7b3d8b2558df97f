//go:build !linux && !windows && !darwin

package hostinfo

// ReadCPU is not supported here.
func ReadCPU() (CPUTimes, error) { return CPUTimes{}, ErrUnsupported }

// HostID is unknown here.
func HostID() string { return "" }
