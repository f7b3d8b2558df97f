package trace

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/icmp/wire"
)

// raw sends all probes from one connected socket, as one flow.
type raw struct {
	plan     plan
	codec    codec
	fd       int
	reserved int // socket that holds the source port, -1 if none
	name     string
	flow     string
	waiter   *wire.Waiter
	receiver *wire.Receiver
	ipHeader bool // packets are received with an IPv4 header
	mss      int
}

// openEcho opens the socket of ICMP probes, raw or datagram.
func openEcho(p plan, waiter *wire.Waiter) (prober, error) {
	fd, kind, err := wire.OpenEcho(p.source, p.target.Addr())
	if errors.Is(err, wire.ErrNotAllowed) {
		return nil, fmt.Errorf("%w, or trace with tcp or udp probes, which need no right", err)
	}
	if err != nil {
		return nil, err
	}
	base, echoID := randomBase()
	if kind != wire.RawSocket {
		echoID = 0
	}
	return &raw{
		plan: p, fd: fd, reserved: -1, name: kind, waiter: waiter,
		codec:    newCodec(p.protocol, netip.AddrPort{}, p.target, echoID, base),
		receiver: wire.NewReceiver(longestAnswer),
		ipHeader: kind == wire.RawSocket && !p.v6,
		flow:     "one, also by its checksum",
	}, nil
}

// openRaw opens a raw TCP or UDP socket, and reserves a source port.
func openRaw(p plan, waiter *wire.Waiter) (prober, error) {
	family := unix.AF_INET
	if p.v6 {
		family = unix.AF_INET6
	}
	protocol, kind := unix.IPPROTO_TCP, unix.SOCK_STREAM
	if p.protocol == measurement.OverUDP {
		protocol, kind = unix.IPPROTO_UDP, unix.SOCK_DGRAM
	}
	const flags = unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK
	fd, err := unix.Socket(family, unix.SOCK_RAW|flags, protocol)
	if err != nil {
		return nil, fmt.Errorf("open raw socket: %w", err)
	}
	r := &raw{
		plan: p, fd: fd, reserved: -1, name: wire.RawSocket, waiter: waiter,
		receiver: wire.NewReceiver(longestAnswer), ipHeader: !p.v6,
	}
	if err := r.prepare(family, kind|flags); err != nil {
		return nil, errors.Join(fmt.Errorf("raw socket: %w", err), r.closeSockets())
	}
	return r, nil
}

func (r *raw) prepare(family, kind int) error {
	p := &r.plan
	// The port of a connected raw socket would be taken for its protocol.
	if err := wire.Connect(r.fd, p.source, netip.AddrPortFrom(p.target.Addr(), 0)); err != nil {
		return err
	}
	local, err := wire.LocalAddr(r.fd)
	if err != nil {
		return err
	}
	if r.reserved, err = unix.Socket(family, kind, 0); err != nil {
		return fmt.Errorf("open socket to reserve a port: %w", err)
	}
	port := netip.AddrPortFrom(local.Addr().WithZone(p.target.Addr().Zone()), 0)
	if err := unix.Bind(r.reserved, wire.Sockaddr(port)); err != nil {
		return fmt.Errorf("reserve a port of %v: %w", local.Addr(), err)
	}
	if local, err = wire.LocalAddr(r.reserved); err != nil {
		return err
	}
	base, _ := randomBase()
	r.codec = newCodec(p.protocol, local, p.target, 0, base)
	r.flow = fmt.Sprintf("one, from port %d", local.Port())
	if err := wire.Set(r.fd, wire.ErrorQueue(p.v6)); err != nil {
		return err
	}
	return r.filter(local.Port())
}

// filter keeps away the target's other traffic, which may be all of a
// throughput test: only TCP segments to the reserved port pass. UDP datagrams
// say nothing that could be used, none pass. The error queue is not filtered.
func (r *raw) filter(port uint16) error {
	program := []bpf.Instruction{bpf.RetConstant{Val: 0}}
	if r.plan.protocol == measurement.OverTCP {
		load := []bpf.Instruction{bpf.LoadMemShift{Off: 0}, bpf.LoadIndirect{Off: 2, Size: 2}}
		if !r.ipHeader {
			load = []bpf.Instruction{bpf.LoadAbsolute{Off: 2, Size: 2}}
		}
		program = append(load,
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(port), SkipFalse: 1},
			bpf.RetConstant{Val: longestAnswer},
			bpf.RetConstant{Val: 0})
	}
	assembled, err := bpf.Assemble(program)
	if err != nil {
		return fmt.Errorf("assemble socket filter: %w", err)
	}
	filter := make([]unix.SockFilter, len(assembled))
	for i, in := range assembled {
		filter[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	err = unix.SetsockoptSockFprog(r.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
	return os.NewSyscallError("setsockopt SO_ATTACH_FILTER", err)
}

func (r *raw) send(id, ttl int) error {
	if err := wire.Set(r.fd, wire.SendTTL(r.plan.v6, ttl)); err != nil {
		return err
	}
	return wire.Send(r.fd, r.codec.encode(id))
}

func (r *raw) wait(until time.Time, answers []answer) ([]answer, error) {
	if err := r.waiter.Wait(until, false, r.fd); err != nil {
		return answers, err
	}
	for _, fromErrors := range []bool{true, false} {
		for range 256 { // a bound, so that a flood cannot hold the trace
			b, control, err := r.receiver.Receive(r.fd, fromErrors)
			if errors.Is(err, unix.EAGAIN) {
				break
			}
			if err != nil && wire.IsPending(err) {
				continue
			}
			if err != nil {
				return answers, fmt.Errorf("receive: %w", err)
			}
			if a, ok := r.interpret(b, &control); ok {
				a.at = time.Now()
				answers = append(answers, a)
			}
		}
	}
	return answers, nil
}

func (r *raw) interpret(b []byte, control *wire.Control) (answer, bool) {
	if control.Queued {
		id, ok := r.codec.quote(b)
		if !ok || !control.IsICMP() {
			return answer{}, false
		}
		return icmpAnswer(&r.plan, id, control), true
	}
	if r.ipHeader {
		var ok bool
		if _, b, ok = wire.SplitIPv4(b); !ok {
			return answer{}, false
		}
	}
	reply, ok := r.codec.reply(b)
	if !ok {
		return answer{}, false
	}
	r.mss = max(r.mss, reply.mss)
	return answer{id: reply.id, from: r.plan.target.Addr().WithZone(""), verdict: arrived}, true
}

func (r *raw) effective() map[string]string {
	e := map[string]string{"trace_socket": r.name, "trace_flows": r.flow}
	if r.mss > 0 {
		e["trace_synack_mss_bytes"] = strconv.Itoa(r.mss)
	}
	return e
}

func (r *raw) facts() []string { return nil }

func (r *raw) close() error { return errors.Join(r.waiter.Close(), r.closeSockets()) }

func (r *raw) closeSockets() error {
	err := unix.Close(r.fd)
	if r.reserved >= 0 {
		err = errors.Join(err, unix.Close(r.reserved))
	}
	return os.NewSyscallError("close", err)
}
