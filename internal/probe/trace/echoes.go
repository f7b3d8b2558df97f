//go:build !windows

package trace

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/net/icmp"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/icmp/wire"
)

// echoes traces with echo requests from one socket that also receives the ICMP
// errors, whatever protocol was asked for. macOS hands them to datagram sockets
// as well; Linux does so to raw sockets only, and is traced by the error queue.
type echoes struct {
	plan  plan
	codec codec
	ctx   context.Context
	stop  func() bool
	pc    *icmp.PacketConn
	to    net.Addr
	name  string
	in    [longestAnswer]byte
}

// past is a time in the past: a deadline there ends a read.
var past = time.Unix(1, 0)

func openEchoes(ctx context.Context, p plan) (*echoes, error) {
	pc, to, kind, err := wire.ListenEcho(p.source, p.target.Addr())
	if err != nil {
		return nil, err
	}
	base, echoID := randomBase()
	return &echoes{
		plan: p, ctx: ctx, pc: pc, to: to, name: kind,
		codec: echoCodec{v6: p.v6, id: echoID, base: uint16(base)},
		stop:  context.AfterFunc(ctx, func() { _ = pc.SetReadDeadline(past) }),
	}, nil
}

func (e *echoes) send(id, ttl int) error {
	var err error
	if e.plan.v6 {
		err = e.pc.IPv6PacketConn().SetHopLimit(ttl)
	} else {
		err = e.pc.IPv4PacketConn().SetTTL(ttl)
	}
	if err != nil {
		return fmt.Errorf("set TTL: %w", err)
	}
	_, err = e.pc.WriteTo(e.codec.encode(id), e.to)
	return err
}

func (e *echoes) wait(until time.Time, answers []answer) ([]answer, error) {
	if err := e.pc.SetReadDeadline(until); err != nil {
		return answers, err
	}
	if e.ctx.Err() != nil {
		return answers, nil // the deadline above may have undone that of its end
	}
	n, from, err := e.pc.ReadFrom(e.in[:])
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return answers, nil
	}
	if err != nil {
		return answers, fmt.Errorf("receive: %w", err)
	}
	if a, ok := e.interpret(e.in[:n], from); ok {
		a.at = time.Now()
		answers = append(answers, a)
	}
	return answers, nil
}

// interpret reads an ICMP message, which may be an answer to any program of this
// machine's.
func (e *echoes) interpret(b []byte, from net.Addr) (answer, bool) {
	target := e.plan.target.Addr().WithZone("")
	sender := wire.HostOf(from)
	if r, ok := e.codec.reply(b); ok && sender == target {
		return answer{id: r.id, from: sender, verdict: arrived}, true
	}
	refused, ok := wire.ParseError(b, e.plan.v6)
	if !ok || refused.To != target {
		return answer{}, false
	}
	id, ok := e.codec.quote(refused.Quote)
	a := e.plan.refusal(id, sender, refused.Type, refused.Code)
	a.mtu = refused.MTU
	return a, ok
}

func (e *echoes) effective() map[string]string {
	return map[string]string{"trace_socket": e.name, "trace_flows": "one, also by its checksum", "trace_protocol": string(measurement.OverICMP)}
}

func (e *echoes) facts() []string { return e.plan.onlyEcho() }

func (e *echoes) close() error {
	e.stop()
	return e.pc.Close()
}
