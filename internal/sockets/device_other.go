//go:build !linux

package sockets

import (
	"fmt"
	"syscall"
)

// bindToDevice is not supported here.
func bindToDevice(device string) func(_, _ string, raw syscall.RawConn) error {
	return func(_, _ string, _ syscall.RawConn) error {
		return fmt.Errorf("bind to interface %s: %w", device, ErrUnsupported)
	}
}
