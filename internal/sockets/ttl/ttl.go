// Package ttl tells the time to live with which packets over UDP arrived, where the
// system does.
package ttl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
)

// Enable asks for the time to live of every packet that c receives.
func Enable(c *net.UDPConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return fmt.Errorf("ask for received TTL: %w", err)
	}
	var four, six error
	err = raw.Control(func(fd uintptr) { four, six = wantTTL(fd) })
	if err == nil && four != nil && six != nil {
		err = errors.Join(four, six)
	}
	if err != nil {
		return fmt.Errorf("ask for received TTL: %w", err)
	}
	return nil
}

// Read reads one packet from c into p, and the time to live it arrived
// with, 0 if unknown.
func Read(c *net.UDPConn, p []byte) (n, ttl int, err error) {
	var control [128]byte
	n, controlBytes, _, _, err := c.ReadMsgUDPAddrPort(p, control[:])
	if err != nil {
		return 0, 0, err
	}
	ttl, err = receivedTTL(control[:controlBytes])
	return n, ttl, err
}

// ttlOf reads the value of a control message with a time to live or hop limit:
// an int or, on BSD and macOS, a byte for IPv4 (ip(4)). It returns 0 for what is
// neither.
func ttlOf(data []byte) int {
	switch {
	case len(data) >= 4:
		if v := binary.NativeEndian.Uint32(data); v <= 255 {
			return int(v)
		}
	case len(data) >= 1:
		return int(data[0])
	}
	return 0
}

// Of ws2def.h and ws2ipdef.h: IP_RECVTTL and IP_HOPLIMIT are one number, IPv6's
// IPV6_HOPLIMIT is the same.
const (
	windowsHopLimit = 21
	windowsIP       = 0
	windowsIPv6     = 41
)

// windowsReceivedTTL finds the time to live among the control messages that
// WSARecvMsg returned, 0 if there is none. Each is a WSACMSGHDR (length with the
// header, as wide as a pointer, level, type), the value, and padding to the width
// of a pointer.
func windowsReceivedTTL(control []byte, pointerBytes int) int {
	le := binary.LittleEndian
	header := pointerBytes + 8
	for len(control) >= header {
		length := uint64(le.Uint32(control))
		if pointerBytes == 8 {
			length = le.Uint64(control)
		}
		if length < uint64(header) || length > uint64(len(control)) {
			return 0
		}
		level, typ := le.Uint32(control[pointerBytes:]), le.Uint32(control[pointerBytes+4:])
		if (level == windowsIP || level == windowsIPv6) && typ == windowsHopLimit {
			return ttlOf(control[header:length])
		}
		padded := (int(length) + pointerBytes - 1) / pointerBytes * pointerBytes
		control = control[min(padded, len(control)):]
	}
	return 0
}
