//go:build unix

package sockets

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// sharePort lets sockets of the same user have the same local port
// (SO_REUSEPORT, socket(7)); SO_REUSEADDR would let anybody's.
func sharePort(_, _ string, raw syscall.RawConn) error {
	var inner error
	err := raw.Control(func(fd uintptr) {
		inner = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	})
	return errors.Join(err, inner)
}
