package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
)

// The layout of a native UDP packet; what follows is padding:
//
//	0                               16      17              20              24
//	+-------------------------------+-------+---------------+---------------+
//	|            cookie             | kind  |     zero      |   sequence    |
//	+-------------------------------+-------+---------------+---------------+
const (
	datagramKind     = protocol.CookieBytes
	datagramSequence = 20
	datagramBytes    = 24

	datagramEcho    = 0 // answered with its first 24 bytes, so that the client sees a TTL
	datagramRequest = 1 // answered with as many bytes as the test's spec says
	datagramHello   = 2 // first of a flow; its sequence is the number of READY
	datagramData    = 3 // of a udp or pps test; see packetdata.go
	datagramProbe   = 4 // of an mtu test, answered with its first 24 bytes
	datagramMirror  = 5 // of an mtu test, answered with as many bytes
	// datagramFollower is of a udp test, behind a datagramData in a large buffer.
	datagramFollower = 6
)

func putDatagram(b, cookie []byte, kind byte) {
	copy(b[:protocol.CookieBytes], cookie)
	b[datagramKind] = kind
}

// serveUDP answers the packets of tests in progress until c is closed. A
// packet without the cookie of a test, or from another address than that
// which opened the test over TCP, gets no answer at all: there is nothing to
// reflect and nothing to aim.
//
// One thread answers all tests: it wakes once per packet either way.
func (s *Server) serveUDP(p *sockets.Packets) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	in, out := make([]byte, maxDatagram+1), make([]byte, maxDatagram)
	for {
		n, from, err := p.Receive(in)
		switch {
		case errors.Is(err, sockets.ErrTick):
			continue
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			// An ICMP error of an earlier answer; the next packet is unaffected.
			s.log.Debug("read UDP", "error", err)
			continue
		}
		switch {
		case n >= datagramBytes && in[datagramKind] == datagramHello:
			s.greetUDP(in[:n], from)
		case n >= datagramBytes:
			if err := s.answerUDP(p, in[:n], out, from); err != nil {
				s.log.Debug("answer UDP", "error", err)
			}
		default:
			s.iperf3Datagram(from, in[:n])
		}
	}
}

func (s *Server) answerUDP(p *sockets.Packets, packet, out []byte, from netip.AddrPort) error {
	size := s.answerSize(packet, from.Addr())
	if size == 0 {
		return nil
	}
	s.tellPeer(packet, from)
	copy(out[:datagramBytes], packet[:datagramBytes])
	return p.Reply(out[:size])
}

// greetUDP tells a flow that waits for its first packet where that came from.
func (s *Server) greetUDP(packet []byte, from netip.AddrPort) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.cookies[cookieKey{[protocol.CookieBytes]byte(packet[:protocol.CookieBytes]), plainAddr(from.Addr())}]
	if t == nil {
		return
	}
	waiting, ok := t.hellos[binary.BigEndian.Uint32(packet[datagramSequence:])]
	if !ok {
		return
	}
	select {
	case waiting <- from:
	default: // a copy; the first one will do
	}
}

// answerSize is how many bytes answer a packet, 0 for none.
func (s *Server) answerSize(packet []byte, from netip.Addr) int {
	if len(packet) < datagramBytes {
		return 0
	}
	t := s.sessionOf(packet[:protocol.CookieBytes], from)
	if t == nil {
		return 0
	}
	switch packet[datagramKind] {
	case datagramEcho:
		return datagramBytes
	case datagramRequest:
		if t.spec.Kind == measurement.RR && t.spec.Protocol == measurement.OverUDP {
			return max(t.spec.ResponseBytes, datagramBytes)
		}
	}
	return 0
}

// ttlProbe learns the time to live that packets from the server arrive with,
// by an echo over UDP beside the test. Where UDP does not get through, the
// time to live stays unknown.
type ttlProbe struct {
	stop context.CancelFunc
	done sync.WaitGroup
	ttl  int
}

const (
	ttlTries = 3
	ttlWait  = 100 * time.Millisecond
	// ttlSearch bounds the search for a port from which a translated server is
	// reached: the time to live is not worth the time that a test over UDP takes
	// for it. One of 16 back ends is missed in 3 of 10⁵ searches.
	ttlSearch = time.Second
)

func startTTLProbe(ctx context.Context, req Request, ready protocol.Ready) *ttlProbe {
	ctx, stop := context.WithCancel(ctx)
	p := &ttlProbe{stop: stop}
	p.done.Go(func() { p.ttl = probeTTL(ctx, req, ready) })
	return p
}

func (p *ttlProbe) end() {
	p.stop()
	p.done.Wait()
}

// result waits for the answer, which takes ttlSearch + ttlTries × ttlWait at most.
func (p *ttlProbe) result() int {
	p.done.Wait()
	return p.ttl
}

func probeTTL(ctx context.Context, req Request, ready protocol.Ready) int {
	searching, stop := context.WithTimeout(ctx, ttlSearch)
	defer stop()
	c, err := dialUDP(searching, req, ready)
	if err != nil {
		return 0
	}
	// Whatever goes wrong below leaves the time to live unknown, which is an
	// answer; none of it concerns the test itself.
	defer func() { _ = c.Close() }()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	if sockets.EnableReceivedTTL(c) != nil {
		return 0
	}
	packet, in := make([]byte, datagramBytes), make([]byte, datagramBytes+1)
	putDatagram(packet, ready.Cookie, datagramEcho)
	for try := range ttlTries {
		binary.BigEndian.PutUint32(packet[datagramSequence:], uint32(try))
		if _, err := c.Write(packet); err != nil {
			return 0
		}
		if c.SetReadDeadline(time.Now().Add(ttlWait)) != nil {
			return 0
		}
		if n, ttl, err := sockets.ReadTTL(c, in); err == nil && n == datagramBytes {
			return ttl
		}
	}
	return 0
}
