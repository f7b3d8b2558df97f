//go:build !linux && !windows

package icmp

import (
	"context"
	"errors"
	"fmt"
	"net"
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
	pc, to, kind, err := wire.ListenEcho(p.source, p.target)
	if err != nil {
		return nil, err
	}
	s := &socket{plan: p, name: kind, pc: pc, to: to, ctx: ctx, in: make([]byte, 60+wire.EchoHeaderBytes+len(p.cookie)+len(p.filler)+1)}
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
	if ev.sequence, ok = s.plan.answers(s.in[:n]); !ok || wire.HostOf(from) != s.plan.target.WithZone("") {
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
