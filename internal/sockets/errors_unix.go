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

// ListenerBroken says that an error of accept(2) is one of the listener, which will
// accept nothing more. The others are those of one connection, which accept(2) has a
// list of, or of a moment in which the system lacks something.
func ListenerBroken(err error) bool {
	return isAny(err, syscall.EBADF, syscall.EINVAL, syscall.ENOTSOCK, syscall.EFAULT)
}

// LacksUDP says that an error of opening a UDP socket is that the system has none, or
// lets this process have none, of whatever port.
func LacksUDP(err error) bool {
	return isAny(err, syscall.EPROTONOSUPPORT, syscall.ESOCKTNOSUPPORT, syscall.EOPNOTSUPP)
}

// rejected knows the errors that the kernel makes of ICMP messages (icmp_err_convert): EACCES is
// that of ICMPv6's "administratively prohibited".
func rejected(err error) bool {
	return isAny(err, syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EHOSTDOWN, syscall.EACCES, syscall.ENOPROTOOPT)
}

// OutOfDescriptors says that there are none left, in this process or the system.
func OutOfDescriptors(err error) bool { return isAny(err, syscall.EMFILE, syscall.ENFILE) }
