//go:build unix

package ttl

import (
	"fmt"

	"golang.org/x/sys/unix"
)

func wantTTL(fd uintptr) (four, six error) {
	four = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_RECVTTL, 1)
	six = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVHOPLIMIT, 1)
	return four, six
}

func receivedTTL(control []byte) (ttl int, err error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return 0, fmt.Errorf("read received TTL: %w", err)
	}
	for _, m := range messages {
		// Linux names the message by the one, BSD by the other.
		is4 := m.Header.Level == unix.IPPROTO_IP && (m.Header.Type == unix.IP_TTL || m.Header.Type == unix.IP_RECVTTL)
		is6 := m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_HOPLIMIT
		if is4 || is6 {
			ttl = ttlOf(m.Data)
		}
	}
	return ttl, nil
}
