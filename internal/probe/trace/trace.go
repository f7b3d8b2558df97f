// Package trace finds the hops of a path: it sends probes whose time to live
// runs out one hop further each, and learns the routers from the ICMP errors
// that come back. Probes are TCP SYNs, UDP datagrams or ICMP echo requests,
// over IPv4 and IPv6.
//
// # Same flow, same path
//
// Routers that balance load pick a branch by a hash over a packet's addresses,
// protocol and ports. With a raw socket (CAP_NET_RAW) all probes of a trace
// share these, so they all take one branch, as in Paris traceroute (Augustin
// et al., IMC 2006): SYNs differ in their sequence number, datagrams in their
// length, echo requests in their sequence number with a payload that keeps the
// checksum the same. Without that right TCP and UDP probes leave from a socket
// each, hence from a source port each, and the outcome says so; ICMP probes
// still share one datagram socket (net.ipv4.ping_group_range). Either way ICMP
// errors come by the socket's own error queue (ip(7), IP_RECVERR), so nobody
// else's are ever seen.
//
// # Harmless to servers
//
// A SYN that a listener answers is reset at once: in raw mode by the kernel,
// which knows no such connection, otherwise by closing with SO_LINGER 0. The
// port of the probes is reserved by a bound socket while the trace lasts.
package trace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/icmp/wire"
)

// Request is one trace.
type Request struct {
	Spec measurement.Spec
	// Target is the destination; its port is used by TCP probes only. UDP
	// probes go to udpPort, where nobody is expected to listen.
	Target netip.AddrPort
	// Source, when valid, is the local address to send from.
	Source netip.Addr
}

// udpPort is the destination port of UDP probes: the first of those that
// traceroute uses.
const udpPort = 33434

// Run traces the path to the target. progress, which may be nil, is called
// when hops answer, from the same goroutine. A path that ends nowhere is not
// an error: its hops are silent and a fact says so. When ctx ends early Run
// returns what was found and the context's error.
func Run(ctx context.Context, req Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
	p, err := planOf(req)
	if err != nil {
		return measurement.Outcome{}, err
	}
	pr, err := open(ctx, p)
	if err != nil {
		return measurement.Outcome{}, fmt.Errorf("trace to %v: %w", p.target, err)
	}
	m := newMachine(p.maxHops, p.timeout)
	err = errors.Join(drive(ctx, m, pr, progress), pr.close())
	if err != nil {
		err = fmt.Errorf("trace to %v: %w", p.target, err)
	}
	return outcome(p, m, pr), err
}

// plan is a request with everything decided and checked.
type plan struct {
	target   netip.AddrPort
	source   netip.Addr
	v6       bool
	protocol measurement.Protocol
	maxHops  int
	timeout  time.Duration
}

func planOf(req Request) (plan, error) {
	spec := req.Spec
	spec.Kind = measurement.Trace
	spec = spec.Defaults()
	p := plan{
		target:   netip.AddrPortFrom(req.Target.Addr().Unmap(), req.Target.Port()),
		source:   req.Source.Unmap(),
		protocol: spec.Protocol,
		maxHops:  spec.MaxHops,
		timeout:  spec.Timeout.Duration(),
	}
	addr := p.target.Addr()
	p.v6 = addr.Is6()
	if err := cmp.Or(wire.CheckEnds(p.source, addr), kind.Check(spec).Err()); err != nil {
		return p, fmt.Errorf("trace: %w", err)
	}
	switch p.protocol {
	case measurement.OverTCP:
		if p.target.Port() == 0 {
			return p, fmt.Errorf("trace: TCP probes need a port of %v", addr)
		}
	case measurement.OverUDP:
		p.target = netip.AddrPortFrom(addr, udpPort)
	case measurement.OverICMP:
		p.target = netip.AddrPortFrom(addr, 0)
	}
	return p, nil
}

// refusal judges an ICMP error about probe id.
func (p *plan) refusal(id int, from netip.Addr, typ, code uint8) answer {
	a := answer{id: id, from: from, verdict: rejected, icmp: true, typ: typ, code: code}
	switch {
	case wire.IsTimeExceeded(p.v6, typ, code), wire.IsTooBig(p.v6, typ, code):
		a.verdict = passing
	case from == p.target.Addr().WithZone(""):
		a.verdict = arrived
	case p.protocol == measurement.OverUDP && wire.IsPortUnreachable(p.v6, typ, code):
		// A destination with several addresses may answer from another one.
		a.verdict = arrived
	}
	return a
}

// onlyEcho is the fact that the probes are echo requests although others were
// asked for.
func (p *plan) onlyEcho() []string {
	if p.protocol == measurement.OverICMP {
		return nil
	}
	return []string{"on this system hopbench traces with ICMP echo requests only: routers and firewalls may treat them unlike " + string(p.protocol)}
}

// prober sends probes and gathers answers. It is used by one goroutine.
type prober interface {
	// send sends probe id with a time to live.
	send(id, ttl int) error
	// wait blocks until something arrives, the time has come or the context
	// ended, and appends what arrived.
	wait(until time.Time, answers []answer) ([]answer, error)
	// effective says how: kind of socket, flows, MSS, and the protocol where it is
	// not the plan's.
	effective() map[string]string
	// facts are what a reader of the hops must know.
	facts() []string
	close() error
}

// drive runs the machine with a prober until it is done.
func drive(ctx context.Context, m *machine, pr prober, progress func(measurement.Progress)) error {
	var answers []answer
	start := time.Now()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		until, done := time.Time{}, false
		for {
			var s step
			if s = m.next(time.Now()); s.ttl == 0 {
				until, done = s.until, s.done
				break
			}
			// The clock is read before the call: a slow send is part of the path.
			id := m.sending(s.ttl, time.Now())
			if err := pr.send(id, s.ttl); err != nil {
				return fmt.Errorf("send probe %d: %w", s.ttl, err)
			}
		}
		if done {
			return nil
		}
		var err error
		if answers, err = pr.wait(until, answers[:0]); err != nil {
			return err
		}
		for _, a := range answers {
			m.take(a)
		}
		if progress != nil && len(answers) > 0 {
			progress(measurement.Progress{Elapsed: measurement.SecondsOf(time.Since(start))})
		}
	}
}

func outcome(p plan, m *machine, pr prober) measurement.Outcome {
	hops := m.result()
	o := measurement.Outcome{
		Metrics:   measurement.Metrics{},
		Hops:      hops,
		Effective: pr.effective(),
		Facts:     append(pr.facts(), m.facts(p.v6)...),
	}
	o.Effective["trace_protocol"] = cmp.Or(o.Effective["trace_protocol"], string(p.protocol))
	// The length of a path that was not seen to its end is that of its last
	// hop that answered.
	length, silent := 0, 0
	for _, h := range hops {
		if h.Address != "" {
			length = h.TTL
		}
	}
	for _, h := range hops[:length] {
		if h.Address == "" {
			silent++
		}
	}
	o.Metrics["hops_count"] = float64(length)
	o.Metrics["silent_hops_count"] = float64(silent)
	return o
}

// describe names an ICMP error and who sent it.
func describe(v6 bool, ttl int, a answer) string {
	text := fmt.Sprintf("hop %d, %v, answered: %s", ttl, a.from, wire.Describe(v6, a.typ, a.code))
	if a.mtu > 0 {
		text += fmt.Sprintf(" (path MTU %d bytes)", a.mtu)
	}
	return text
}
