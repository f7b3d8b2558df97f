package sockets

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// EnableReceivedTTL asks for the time to live of every packet that c receives.
func EnableReceivedTTL(c *net.UDPConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return fmt.Errorf("ask for received TTL: %w", err)
	}
	var four, six error
	err = raw.Control(func(fd uintptr) {
		four = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_RECVTTL, 1)
		six = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVHOPLIMIT, 1)
	})
	if err == nil && four != nil && six != nil {
		err = errors.Join(four, six)
	}
	if err != nil {
		return fmt.Errorf("ask for received TTL: %w", err)
	}
	return nil
}

// ReadTTL reads one packet from c into p, and the time to live it arrived
// with, 0 if unknown.
func ReadTTL(c *net.UDPConn, p []byte) (n, ttl int, err error) {
	var oob [128]byte
	n, oobn, _, _, err := c.ReadMsgUDPAddrPort(p, oob[:])
	if err != nil {
		return 0, 0, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		return n, 0, fmt.Errorf("read received TTL: %w", err)
	}
	for _, m := range messages {
		is4 := m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_TTL
		is6 := m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_HOPLIMIT
		if (is4 || is6) && len(m.Data) >= 4 {
			ttl = int(binary.NativeEndian.Uint32(m.Data))
		}
	}
	return n, ttl, nil
}

// DetachUDP takes the connected socket of c out of the network poller and
// closes c.
func DetachUDP(c *net.UDPConn) (*Conn, error) { return detach(c) }
