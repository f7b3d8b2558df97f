//go:build !linux

package hostinfo

import "net/netip"

// ReadDrops is not supported here.
func ReadDrops() (DropCounts, error) { return DropCounts{}, ErrUnsupported }

// ReadInterface is not supported here.
func ReadInterface(string) (InterfaceCounters, error) { return InterfaceCounters{}, ErrUnsupported }

// ReadConntrack is not supported here.
func ReadConntrack() (ConntrackCounters, error) { return ConntrackCounters{}, ErrUnsupported }

// readRunnable is not supported here.
func readRunnable() (int, error) { return 0, ErrUnsupported }

// Governors are not known here.
func Governors() []string { return nil }

// LinkSpeed is not known here.
func LinkSpeed(netip.Addr) float64 { return 0 }

// MaxThreads is unknown here.
func MaxThreads() int { return 0 }

// MaxMemoryBytes is unknown here.
func MaxMemoryBytes() int64 { return 0 }

// MaxDescriptors is unknown here.
func MaxDescriptors() int { return 0 }

// NetworkID is empty here: there are no network namespaces.
func NetworkID() string { return "" }

// ClockID is empty here: processes have no clock in common that is known.
func ClockID() string { return "" }

// nics tells nothing here.
func nics() map[string]string { return nil }
