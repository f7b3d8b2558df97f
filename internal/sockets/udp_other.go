//go:build !linux

package sockets

import (
	"net"
	"time"
)

// EnableReceivedTTL is not supported here.
func EnableReceivedTTL(*net.UDPConn) error { return ErrUnsupported }

// ReadTTL reads one packet from c into p; its time to live is unknown here.
func ReadTTL(c *net.UDPConn, p []byte) (n, ttl int, err error) {
	n, err = c.Read(p)
	return n, 0, err
}

// DetachUDP wraps the connected socket c, which the Conn now owns.
func DetachUDP(c *net.UDPConn) (*Conn, error) {
	if err := c.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	return &Conn{sock: c, wait: Tick}, nil
}
