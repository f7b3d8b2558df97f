// Package icmp measures round trips with ICMP echo, as ping does, over IPv4
// and IPv6.
//
// Requests leave on an open-loop schedule: request i at start + i × interval,
// whatever became of the earlier ones, so a slow or silent path cannot slow
// the questions down. Where the kernel offers software timestamps of
// transmission and reception they give the round trip, without the delays of
// this process's own wake-up; otherwise the monotonic clock does, and the
// outcome says which. The kernel stamps a request when it hands it to the
// device, after the host's own queueing discipline, so that a shaped egress
// that is full of other traffic is not part of the round trip by kernel
// timestamps, while it is by the monotonic clock.
//
// An answer counts when its sequence number and its random cookie are those of
// a request of this run, once, and within the timeout. Everything else, that
// is late, duplicate and reordered answers and ICMP errors, is counted and
// told as a fact.
package icmp

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/icmp/wire"
)

// Request is one ping test.
type Request struct {
	Spec   measurement.Spec
	Target netip.Addr
	// Source, when valid, is the local address to send from.
	Source netip.Addr
}

// Rate is the rate of payload that a ping test asks for in each direction, in bit/s; one request
// has none.
func Rate(spec measurement.Spec) float64 {
	if spec.Count < 2 {
		return 0
	}
	return float64(spec.PayloadBytes) * 8 / float64(spec.Interval)
}

const cookieBytes = 8

// Run pings the target. progress, which may be nil, is called about ten times
// a second from the same goroutine. When ctx ends early Run returns what was
// measured so far and the context's error. That no answer came is not an
// error: it is a loss_fraction of 1. That answers came, all after the timeout, or
// that this host sent no request is one.
func Run(ctx context.Context, req Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
	p, err := planOf(req)
	if err != nil {
		return measurement.Outcome{}, err
	}
	c, err := open(ctx, p)
	if err != nil {
		return measurement.Outcome{}, fmt.Errorf("ping %v: %w", p.target, err)
	}
	s := newSession(p, c)
	err = s.run(ctx, progress)
	if err == nil {
		err = s.unanswered()
	}
	err = errors.Join(err, c.close())
	if err != nil {
		err = fmt.Errorf("ping %v: %w", p.target, err)
	}
	return s.outcome(), err
}

// plan is a request with everything decided and checked.
type plan struct {
	target, source    netip.Addr
	v6                bool
	count             int
	interval, timeout time.Duration
	id                uint16
	// cookie starts every payload; filler follows it.
	cookie, filler []byte
}

func planOf(req Request) (plan, error) {
	spec := req.Spec
	spec.Kind = measurement.Ping
	spec = spec.Defaults()
	p := plan{
		target:   req.Target.Unmap(),
		source:   req.Source.Unmap(),
		count:    spec.Count,
		interval: spec.Interval.Duration(),
		timeout:  spec.Timeout.Duration(),
	}
	p.v6 = p.target.Is6()
	if err := cmp.Or(wire.CheckEnds(p.source, p.target), kind.Check(spec).Err()); err != nil {
		return p, fmt.Errorf("ping: %w", err)
	}
	var random [2 + cookieBytes]byte
	// crypto/rand.Read never fails (Go 1.24).
	_, _ = rand.Read(random[:])
	p.id = binary.BigEndian.Uint16(random[:])
	// A payload shorter than the cookie carries as much of it as fits.
	p.cookie = random[2:][:min(cookieBytes, spec.PayloadBytes)]
	p.filler = make([]byte, spec.PayloadBytes-len(p.cookie))
	for i := range p.filler {
		p.filler[i] = byte(i)
	}
	return p, nil
}

// request builds the echo request with a sequence number.
func (p *plan) request(buf []byte, sequence uint16) []byte {
	buf = append(buf[:0], p.cookie...)
	buf = append(buf, p.filler...)
	return wire.AppendEchoRequest(nil, p.v6, p.id, sequence, buf)
}

// answers reads an ICMP message and tells whether it is an answer to a
// request of this run. The identifier is left to the kernel, which rewrites it
// for datagram sockets; the cookie identifies the run.
func (p *plan) answers(message []byte) (sequence uint16, ok bool) {
	echo, ok := wire.ParseEcho(message)
	if !ok {
		return 0, false
	}
	_, reply := wire.EchoTypes(p.v6)
	if echo.Type != reply || echo.Code != 0 || len(echo.Payload) != len(p.cookie)+len(p.filler) {
		return 0, false
	}
	return echo.Sequence, string(echo.Payload[:len(p.cookie)]) == string(p.cookie)
}

// quotes reads what an ICMP error quotes of a request. Routers may quote only
// the first eight bytes (RFC 792), so there is often no cookie: the
// identifier must do where the kernel left it alone, and the cookie must match
// as far as it was quoted.
func (p *plan) quotes(quote []byte, idIsOurs bool) (sequence uint16, ok bool) {
	echo, ok := wire.ParseEcho(quote)
	if !ok {
		return 0, false
	}
	request, _ := wire.EchoTypes(p.v6)
	if echo.Type != request || idIsOurs && echo.ID != p.id {
		return 0, false
	}
	n := min(len(echo.Payload), len(p.cookie))
	return echo.Sequence, string(echo.Payload[:n]) == string(p.cookie[:n])
}
