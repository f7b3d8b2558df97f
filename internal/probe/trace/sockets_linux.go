package trace

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/icmp/wire"
)

// sockets sends every probe from an ordinary socket of its own: connection
// attempts or datagrams, which need no privilege.
type sockets struct {
	plan     plan
	open     []opened
	waiter   *wire.Waiter
	receiver *wire.Receiver
	fds      []int
	// refused lists probes that were refused before connect returned.
	refused []answer
}

// opened is the socket of one probe that has not been answered.
type opened struct{ id, fd int }

func openSockets(p plan, waiter *wire.Waiter) *sockets {
	return &sockets{plan: p, waiter: waiter, receiver: wire.NewReceiver(longestAnswer)}
}

func (s *sockets) send(id, ttl int) error {
	family, kind := unix.AF_INET, unix.SOCK_STREAM
	if s.plan.v6 {
		family = unix.AF_INET6
	}
	if s.plan.protocol == measurement.OverUDP {
		kind = unix.SOCK_DGRAM
	}
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("open socket: %w", err)
	}
	if err := s.probe(fd, id, ttl); err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	s.open = append(s.open, opened{id, fd})
	return nil
}

func (s *sockets) probe(fd, id, ttl int) error {
	if err := wire.Set(fd, wire.ErrorQueue(s.plan.v6), wire.SendTTL(s.plan.v6, ttl)); err != nil {
		return err
	}
	tcp := s.plan.protocol == measurement.OverTCP
	if tcp {
		// Closing resets a connection that came about.
		linger := unix.Linger{Onoff: 1, Linger: 0}
		if err := unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &linger); err != nil {
			return fmt.Errorf("set SO_LINGER: %w", err)
		}
	}
	err := wire.Connect(fd, s.plan.source, s.plan.target)
	if tcp && errors.Is(err, unix.ECONNREFUSED) {
		s.refused = append(s.refused, s.reached(id)) // by this very host
		return nil
	}
	if tcp && errors.Is(err, unix.EINPROGRESS) {
		return nil
	}
	if err != nil || tcp {
		return err
	}
	return wire.Send(fd, make([]byte, shortestDatagram-8+id))
}

func (s *sockets) wait(until time.Time, answers []answer) ([]answer, error) {
	if len(s.refused) > 0 {
		answers, s.refused = append(answers, s.refused...), s.refused[:0]
		return answers, nil
	}
	s.fds = s.fds[:0]
	for _, o := range s.open {
		s.fds = append(s.fds, o.fd)
	}
	if err := s.waiter.Wait(until, s.plan.protocol == measurement.OverTCP, s.fds...); err != nil {
		return answers, err
	}
	var failed error
	s.open = slices.DeleteFunc(s.open, func(o opened) bool {
		a, over, err := s.look(o)
		if err == nil && !over {
			return false
		}
		if a != nil {
			a.at = time.Now()
			answers = append(answers, *a)
		}
		failed = errors.Join(failed, err, os.NewSyscallError("close", unix.Close(o.fd)))
		return true
	})
	return answers, failed
}

// look sees what became of a probe: its answer, if there is one, and whether
// its socket is of no more use.
func (s *sockets) look(o opened) (a *answer, over bool, err error) {
	if a, err = s.queued(o); a != nil || err != nil {
		return a, true, err
	}
	if s.plan.protocol == measurement.OverUDP {
		return s.lookUDP(o)
	}
	a, over, err = s.lookTCP(o)
	if a == nil && over && err == nil {
		// The attempt failed; by an ICMP error that came after the first look?
		a, err = s.queued(o)
	}
	return a, over, err
}

// queued looks for an ICMP error in the error queue.
func (s *sockets) queued(o opened) (*answer, error) {
	for range 16 {
		_, control, err := s.receiver.Receive(o.fd, true)
		if errors.Is(err, unix.EAGAIN) {
			return nil, nil
		}
		if err != nil && !wire.IsPending(err) {
			return nil, fmt.Errorf("read error queue: %w", err)
		}
		if err == nil && control.IsICMP() {
			a := icmpAnswer(&s.plan, o.id, &control)
			return &a, nil
		}
	}
	return nil, nil
}

// reached is the answer of the destination itself.
func (s *sockets) reached(id int) answer {
	return answer{id: id, from: s.plan.target.Addr().WithZone(""), at: time.Now(), verdict: arrived}
}

// lookTCP sees whether a connection attempt ended other than by an ICMP error:
// accepted and refused are both the destination's word.
func (s *sockets) lookTCP(o opened) (*answer, bool, error) {
	reached := s.reached(o.id)
	errno, err := unix.GetsockoptInt(o.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil {
		return nil, true, fmt.Errorf("get SO_ERROR: %w", err)
	}
	switch unix.Errno(errno) {
	case 0:
		if _, err := unix.Getpeername(o.fd); err == nil {
			return &reached, true, nil
		}
		info, err := unix.GetsockoptTCPInfo(o.fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			return nil, true, fmt.Errorf("get TCP_INFO: %w", err)
		}
		const synSent = 2 // net/tcp_states.h
		return nil, info.State != synSent, nil
	case unix.ECONNREFUSED, unix.ECONNRESET:
		return &reached, true, nil
	}
	return nil, true, nil // timed out, or a local error: silent
}

// lookUDP takes an answering listener for the destination's word.
func (s *sockets) lookUDP(o opened) (*answer, bool, error) {
	_, _, err := s.receiver.Receive(o.fd, false)
	switch {
	case err == nil:
		a := s.reached(o.id)
		return &a, true, nil
	case errors.Is(err, unix.EAGAIN), wire.IsPending(err):
		return nil, false, nil
	}
	return nil, true, fmt.Errorf("receive: %w", err)
}

func (s *sockets) effective() map[string]string {
	return map[string]string{"trace_socket": "error queue", "trace_flows": "one for each probe"}
}

func (s *sockets) facts() []string {
	return []string{"without CAP_NET_RAW every probe has a source port of its own: where routers balance load by ports, the hops may be of several branches"}
}

func (s *sockets) close() error {
	err := s.waiter.Close()
	for _, o := range s.open {
		err = errors.Join(err, os.NewSyscallError("close", unix.Close(o.fd)))
	}
	return err
}
