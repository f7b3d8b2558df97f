//go:build linux || darwin

package tcpstate

import "golang.org/x/sys/unix"

// MSS is the largest segment this end sends, 0 if unknown.
func MSS(fd int) int { return intOption(fd, unix.IPPROTO_TCP, unix.TCP_MAXSEG) }

// ReceiveBuffer is the kernel's receive buffer in bytes, on Linux with its overhead.
func ReceiveBuffer(fd int) int { return intOption(fd, unix.SOL_SOCKET, unix.SO_RCVBUF) }

// SendBuffer is the kernel's send buffer in bytes, on Linux with its overhead.
func SendBuffer(fd int) int { return intOption(fd, unix.SOL_SOCKET, unix.SO_SNDBUF) }

func intOption(fd, level, option int) int {
	v, err := unix.GetsockoptInt(fd, level, option)
	if err != nil {
		return 0
	}
	return v
}
