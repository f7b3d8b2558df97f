//go:build !windows

package trace

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/icmp/wire"
)

// echoes traces with echo requests from one socket that also receives the ICMP
// errors, whatever protocol was asked for. macOS hands them to datagram sockets
// as well; Linux does so to raw sockets only, and is traced by the error queue.
type echoes struct {
	plan   plan
	codec  codec
	socket *wire.EchoSocket
	in     [longestAnswer]byte
}

func openEchoes(ctx context.Context, p plan) (*echoes, error) {
	socket, err := wire.ListenEcho(ctx, p.source, p.target.Addr())
	if err != nil {
		return nil, err
	}
	base, echoID := randomBase()
	return &echoes{plan: p, socket: socket, codec: echoCodec{v6: p.v6, id: echoID, base: uint16(base)}}, nil
}

func (e *echoes) send(id, ttl int) error {
	var err error
	if e.plan.v6 {
		err = e.socket.IPv6PacketConn().SetHopLimit(ttl)
	} else {
		err = e.socket.IPv4PacketConn().SetTTL(ttl)
	}
	if err != nil {
		return fmt.Errorf("set TTL: %w", err)
	}
	_, err = e.socket.WriteTo(e.codec.encode(id), e.socket.To)
	return err
}

func (e *echoes) wait(until time.Time, answers []answer) ([]answer, error) {
	var n int
	var from net.Addr
	came, err := e.socket.Receive(until, func() (err error) {
		n, from, err = e.socket.ReadFrom(e.in[:])
		return err
	})
	if !came {
		return answers, err
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
	return map[string]string{"trace_socket": e.socket.Kind, "trace_flows": "one, also by its checksum", "trace_protocol": string(measurement.OverICMP)}
}

func (e *echoes) facts() []string { return e.plan.onlyEcho() }

func (e *echoes) close() error { return e.socket.Close() }
