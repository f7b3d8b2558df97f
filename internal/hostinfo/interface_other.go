//go:build !linux

package hostinfo

// ReadInterface is not supported here.
func ReadInterface(string) (InterfaceCounters, error) { return InterfaceCounters{}, ErrUnsupported }

// ReadConntrack is not supported here.
func ReadConntrack() (ConntrackCounters, error) { return ConntrackCounters{}, ErrUnsupported }
