//go:build !linux && !windows

package icmp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	xicmp "golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"

	"github.com/hopbench/hopbench/internal/probe/icmp/wire"
)

// socket is an ICMP socket without kernel timestamps and without ICMP errors:
// what other systems than Linux offer portably.
type socket struct {
	plan plan
	name string
	pc   *xicmp.PacketConn
	to   net.Addr
	buf  []byte
	in   []byte
	stop func() bool
	ctx  context.Context
}

// past is a time in the past: a deadline there ends a read.
var past = time.Unix(1, 0)

func open(ctx context.Context, p plan) (conn, error) {
	raw, datagram := "ip4:icmp", "udp4"
	if p.v6 {
		raw, datagram = "ip6:ipv6-icmp", "udp6"
	}
	local := ""
	if p.source.IsValid() {
		local = p.source.String()
	}
	s := &socket{plan: p, name: "raw", ctx: ctx, in: make([]byte, 60+wire.EchoHeaderBytes+len(p.cookie)+len(p.filler)+1)}
	s.to = &net.IPAddr{IP: p.target.AsSlice(), Zone: p.target.Zone()}
	pc, rawErr := xicmp.ListenPacket(raw, local)
	if rawErr != nil {
		var err error
		if pc, err = xicmp.ListenPacket(datagram, local); err != nil {
			return nil, fmt.Errorf("open ICMP socket: raw: %w; datagram: %w; "+
				"run with administrator's rights, or measure round trips with an rr test, which needs none", rawErr, err)
		}
		s.name = "datagram"
		s.to = &net.UDPAddr{IP: p.target.AsSlice(), Zone: p.target.Zone()}
	}
	s.pc = pc
	s.requestTTL()
	s.stop = context.AfterFunc(ctx, func() { _ = pc.SetReadDeadline(past) })
	return s, nil
}

// requestTTL asks for the time to live of answers; some systems cannot.
func (s *socket) requestTTL() {
	if s.plan.v6 {
		_ = s.pc.IPv6PacketConn().SetControlMessage(ipv6.FlagHopLimit, true)
	} else {
		_ = s.pc.IPv4PacketConn().SetControlMessage(ipv4.FlagTTL, true)
	}
}

func (s *socket) socket() string { return s.name }

func (s *socket) close() error {
	s.stop()
	return s.pc.Close()
}

func (s *socket) send(index int) error {
	s.buf = s.plan.request(s.buf, uint16(index))
	_, err := s.pc.WriteTo(s.buf, s.to)
	return err
}

func (s *socket) wait(until time.Time, events []event) ([]event, error) {
	if err := s.pc.SetReadDeadline(until); err != nil {
		return events, err
	}
	if s.ctx.Err() != nil {
		return events, nil // the deadline above may have undone that of its end
	}
	n, ttl, from, err := s.read()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return events, nil
	}
	if err != nil {
		return events, fmt.Errorf("receive: %w", err)
	}
	ev := event{what: replied, at: time.Now(), ttl: ttl}
	var ok bool
	if ev.sequence, ok = s.plan.answers(s.in[:n]); !ok || addrOf(from) != s.plan.target.WithZone("") {
		return events, nil
	}
	return append(events, ev), nil
}

func (s *socket) read() (n, ttl int, from net.Addr, err error) {
	if s.plan.v6 {
		n, cm, from, err := s.pc.IPv6PacketConn().ReadFrom(s.in)
		if cm != nil {
			ttl = cm.HopLimit
		}
		return n, ttl, from, err
	}
	n, cm, from, err := s.pc.IPv4PacketConn().ReadFrom(s.in)
	if cm != nil {
		ttl = cm.TTL
	}
	return n, ttl, from, err
}

func addrOf(a net.Addr) netip.Addr {
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
