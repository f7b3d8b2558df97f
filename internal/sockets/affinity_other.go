//go:build !linux

package sockets

// AllowedCPUs are unknown here.
func AllowedCPUs() []int { return nil }

// Pin is not supported here.
func Pin([]int) (unpin func(), err error) { return nil, ErrUnsupported }
