//go:build !linux && !windows && !darwin

package hostinfo

// HostID is unknown here.
func HostID() string { return "" }
