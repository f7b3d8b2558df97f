package icmp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/probe/icmp/wire"
)

// socket is a connected ICMP echo socket with kernel timestamps. Answers come
// by the socket, ICMP errors and transmit timestamps by its error queue.
type socket struct {
	plan     plan
	fd       int
	name     string
	waiter   *wire.Waiter
	receiver *wire.Receiver
	buf      []byte
	// indexes lists what was sent, in the order in which the kernel numbers
	// transmit timestamps.
	indexes []int
	// numbered says that this order can be relied on.
	numbered bool
}

func open(ctx context.Context, p plan) (conn, error) {
	fd, kind, err := wire.OpenEcho(p.source, p.target)
	if errors.Is(err, wire.ErrNotAllowed) {
		return nil, fmt.Errorf("%w, or measure round trips with an rr test, which needs no right", err)
	}
	if err != nil {
		return nil, err
	}
	waiter, err := wire.NewWaiter(ctx)
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	s := &socket{
		plan: p, fd: fd, name: kind, waiter: waiter,
		receiver: wire.NewReceiver(60 + wire.EchoHeaderBytes + len(p.cookie) + len(p.filler) + 1),
	}
	// Timestamps are an improvement, not a condition: what can be had is seen
	// by what arrives.
	s.numbered = setTimestamping(fd, unix.SOF_TIMESTAMPING_TX_SOFTWARE|unix.SOF_TIMESTAMPING_OPT_ID|unix.SOF_TIMESTAMPING_OPT_TSONLY) == nil
	if s.numbered || setTimestamping(fd, 0) == nil {
		err = waiter.Wait(time.Now().Add(stampGrace), false)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// stampGrace passes before the first request: the first socket of a host that
// asks for timestamps makes a kernel worker switch them on, and until then
// packets are stamped only when they are read (net/core/dev.c,
// net_enable_timestamp).
const stampGrace = 10 * time.Millisecond

// setTimestamping asks for software timestamps of reception, and for more.
func setTimestamping(fd, more int) error {
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPING,
		unix.SOF_TIMESTAMPING_SOFTWARE|unix.SOF_TIMESTAMPING_RX_SOFTWARE|more)
}

func (s *socket) socket() string { return s.name }

func (s *socket) close() error {
	return errors.Join(s.waiter.Close(), unix.Close(s.fd))
}

func (s *socket) send(index int) error {
	s.buf = s.plan.request(s.buf, uint16(index))
	err := wire.Send(s.fd, s.buf)
	if err == nil {
		if s.numbered {
			s.indexes = append(s.indexes, index)
		}
		return nil
	}
	// Depending on where the kernel gave up, the packet took a number or not:
	// later transmit timestamps could be taken for another packet's.
	s.numbered = false
	var errno unix.Errno
	if errors.As(err, &errno) {
		return fmt.Errorf("send: %w", errno)
	}
	return err
}

func (s *socket) wait(until time.Time, events []event) ([]event, error) {
	if err := s.waiter.Wait(until, false, s.fd); err != nil {
		return events, err
	}
	// An answer can come between the two reads, its transmit timestamp is
	// older: so the error queue is read last and put first.
	replies, err := s.drain(false, nil)
	if err != nil {
		return events, err
	}
	events, err = s.drain(true, events)
	return append(events, replies...), err
}

// drain reads what is there, with a bound so that the schedule is kept.
func (s *socket) drain(fromErrors bool, events []event) ([]event, error) {
	for range 256 {
		b, control, err := s.receiver.Receive(s.fd, fromErrors)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return events, nil
		case err != nil && wire.IsPending(err):
			continue // what it announces waits in the error queue
		case err != nil && errors.Is(err, net.ErrClosed):
			return events, err
		case err != nil:
			return events, fmt.Errorf("receive: %w", err)
		}
		if ev, ok := s.interpret(b, &control); ok {
			events = append(events, ev)
		}
	}
	return events, nil
}

// interpret turns one packet into an event, if it belongs to this run.
func (s *socket) interpret(b []byte, control *wire.Control) (event, bool) {
	ev := event{at: time.Now(), kernel: control.Stamp, ttl: control.TTL}
	if key, ok := control.TransmitKey(); ok {
		if !s.numbered || int(key) >= len(s.indexes) || control.Stamp.IsZero() {
			return event{}, false
		}
		ev.what, ev.index = transmitted, s.indexes[key]
		return ev, true
	}
	var ok bool
	if control.Queued {
		if !control.IsICMP() {
			return event{}, false // the caller of send was told of local errors
		}
		ev.what = refused
		ev.failure = failure{from: control.Offender, typ: control.Error.Type, code: control.Error.Code}
		if wire.IsTooBig(s.plan.v6, control.Error.Type, control.Error.Code) {
			ev.failure.mtu = control.Error.Info
		}
		ev.sequence, ok = s.plan.quotes(b, s.name == wire.RawSocket)
		return ev, ok
	}
	if s.name == wire.RawSocket && !s.plan.v6 {
		if ev.ttl, b, ok = wire.SplitIPv4(b); !ok {
			return event{}, false
		}
	}
	ev.what = replied
	ev.sequence, ok = s.plan.answers(b)
	return ev, ok
}
