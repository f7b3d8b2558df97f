package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/net/icmp"
)

// EchoSocket is an ICMP echo socket as systems other than Linux and Windows offer it.
type EchoSocket struct {
	*icmp.PacketConn
	// To is the address to send to, Kind RawSocket or DatagramSocket.
	To   net.Addr
	Kind string

	ctx  context.Context
	stop func() bool
}

// ListenEcho opens a raw socket where that is allowed, otherwise a datagram one, which
// macOS lets every user have.
func ListenEcho(ctx context.Context, source, target netip.Addr) (*EchoSocket, error) {
	raw, datagram := "ip4:icmp", "udp4"
	if target.Is6() {
		raw, datagram = "ip6:ipv6-icmp", "udp6"
	}
	local := ""
	if source.IsValid() {
		local = source.String()
	}
	s := &EchoSocket{ctx: ctx, Kind: RawSocket, To: &net.IPAddr{IP: target.AsSlice(), Zone: target.Zone()}}
	var rawErr, err error
	if s.PacketConn, rawErr = icmp.ListenPacket(raw, local); rawErr != nil {
		if s.PacketConn, err = icmp.ListenPacket(datagram, local); err != nil {
			return nil, fmt.Errorf("open ICMP socket: raw: %w; datagram: %w; "+
				"run with administrator's rights, or measure round trips with an rr test, which needs none", rawErr, err)
		}
		s.Kind, s.To = DatagramSocket, &net.UDPAddr{IP: target.AsSlice(), Zone: target.Zone()}
	}
	s.stop = context.AfterFunc(ctx, func() { _ = s.SetReadDeadline(past) })
	return s, nil
}

// past is a time in the past: a deadline there ends a read.
var past = time.Unix(1, 0)

// Receive calls read, which reads from the socket, and says whether something came before
// a time and the end of the context.
func (s *EchoSocket) Receive(until time.Time, read func() error) (came bool, err error) {
	if err := s.SetReadDeadline(until); err != nil {
		return false, err
	}
	if s.ctx.Err() != nil {
		return false, nil // the deadline above may have undone that of its end
	}
	switch err := read(); {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("receive: %w", err)
	}
	return true, nil
}

// Close closes the socket.
func (s *EchoSocket) Close() error {
	s.stop()
	return s.PacketConn.Close()
}

// HostOf is the address, without zone, that a packet of such a socket came from.
func HostOf(a net.Addr) netip.Addr {
	var ip net.IP
	switch a := a.(type) {
	case *net.IPAddr:
		ip = a.IP
	case *net.UDPAddr:
		ip = a.IP
	}
	addr, _ := netip.AddrFromSlice(ip)
	return addr.Unmap()
}
