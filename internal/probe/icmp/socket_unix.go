//go:build !linux && !windows

package icmp

import (
	"context"
	"net"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"

	"github.com/hopbench/hopbench/internal/probe/icmp/wire"
)

// socket is an ICMP socket without kernel timestamps and without ICMP errors:
// what other systems than Linux offer portably.
type socket struct {
	plan plan
	echo *wire.EchoSocket
	buf  []byte
	in   []byte
}

func open(ctx context.Context, p plan) (conn, error) {
	echo, err := wire.ListenEcho(ctx, p.source, p.target)
	if err != nil {
		return nil, err
	}
	s := &socket{plan: p, echo: echo, in: make([]byte, 60+wire.EchoHeaderBytes+len(p.cookie)+len(p.filler)+1)}
	s.requestTTL()
	return s, nil
}

// requestTTL asks for the time to live of answers; some systems cannot.
func (s *socket) requestTTL() {
	if s.plan.v6 {
		_ = s.echo.IPv6PacketConn().SetControlMessage(ipv6.FlagHopLimit, true)
	} else {
		_ = s.echo.IPv4PacketConn().SetControlMessage(ipv4.FlagTTL, true)
	}
}

func (s *socket) socket() string { return s.echo.Kind }

func (s *socket) close() error { return s.echo.Close() }

func (s *socket) send(index int) error {
	s.buf = s.plan.request(s.buf, uint16(index))
	_, err := s.echo.WriteTo(s.buf, s.echo.To)
	return err
}

func (s *socket) wait(until time.Time, events []event) ([]event, error) {
	var n, ttl int
	var from net.Addr
	came, err := s.echo.Receive(until, func() (err error) {
		n, ttl, from, err = s.read()
		return err
	})
	if !came {
		return events, err
	}
	ev := event{what: replied, at: time.Now(), ttl: ttl}
	var ok bool
	if ev.sequence, ok = s.plan.answers(s.in[:n]); !ok || wire.HostOf(from) != s.plan.target.WithZone("") {
		return events, nil
	}
	return append(events, ev), nil
}

func (s *socket) read() (n, ttl int, from net.Addr, err error) {
	if s.plan.v6 {
		n, cm, from, err := s.echo.IPv6PacketConn().ReadFrom(s.in)
		if cm != nil {
			ttl = cm.HopLimit
		}
		return n, ttl, from, err
	}
	n, cm, from, err := s.echo.IPv4PacketConn().ReadFrom(s.in)
	if cm != nil {
		ttl = cm.TTL
	}
	return n, ttl, from, err
}
