//go:build !linux

package sockets

import (
	"net"
	"net/netip"
	"time"
)

// Packets is an unconnected UDP socket that answers packets one by one.
type Packets struct {
	udp  *net.UDPConn
	from netip.AddrPort
}

// DetachPackets wraps c, which the Packets now owns.
func DetachPackets(c *net.UDPConn) (*Packets, error) { return &Packets{udp: c}, nil }

// Receive waits for a packet and returns its length and sender, or ErrTick
// when none came for a Tick, or net.ErrClosed after Interrupt.
func (p *Packets) Receive(b []byte) (int, netip.AddrPort, error) {
	if err := p.udp.SetReadDeadline(time.Now().Add(Tick)); err != nil {
		return 0, netip.AddrPort{}, err
	}
	n, from, err := p.udp.ReadFromUDPAddrPort(b)
	n, err = tick(n, err)
	p.from = from
	return n, netip.AddrPortFrom(from.Addr().Unmap(), from.Port()), err
}

// Reply sends b to the sender of the packet that was received last.
func (p *Packets) Reply(b []byte) error {
	_, err := p.udp.WriteToUDPAddrPort(b, p.from)
	return err
}

// Interrupt wakes a Receive and lets no further one succeed.
func (p *Packets) Interrupt() {
	_ = p.udp.Close() // Receive reports it
}

// Close closes the socket.
func (p *Packets) Close() error { return p.udp.Close() }
