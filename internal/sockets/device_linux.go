package sockets

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// bindToDevice is a control function for net.Dialer (SO_BINDTODEVICE, socket(7)).
func bindToDevice(device string) func(_, _ string, raw syscall.RawConn) error {
	return func(_, _ string, raw syscall.RawConn) error {
		var inner error
		if err := raw.Control(func(fd uintptr) { inner = unix.BindToDevice(int(fd), device) }); err != nil {
			return err
		}
		if inner != nil {
			return fmt.Errorf("bind to interface %s: %w", device, inner)
		}
		return nil
	}
}
