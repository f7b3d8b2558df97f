package probe

import (
	"errors"
	"net"
	"net/netip"
	"runtime"

	"github.com/hopbench/hopbench/internal/probe/datagram"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
)

// serveUDP answers the packets of tests in progress until c is closed. A
// packet without the cookie of a test, or from another address than that
// which opened the test over TCP, gets no answer at all: there is nothing to
// reflect and nothing to aim.
//
// One thread answers all tests: it wakes once per packet either way.
func (s *Server) serveUDP(p *sockets.Packets) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	in, out := make([]byte, datagram.MaxBytes+1), make([]byte, datagram.MaxBytes)
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
		case n >= datagram.HeaderBytes && in[datagram.KindOffset] == datagram.Hello:
			s.udp.Arrived(in[:n], from)
		case n >= datagram.HeaderBytes:
			if err := s.answerUDP(p, in[:n], out, from); err != nil {
				s.log.Debug("answer UDP", "error", err)
			}
		default:
			s.iperf3.Datagram(from, in[:n])
		}
	}
}

func (s *Server) answerUDP(p *sockets.Packets, packet, out []byte, from netip.AddrPort) error {
	size := s.answerSize(packet, from)
	if size == 0 {
		return nil
	}
	if packet[datagram.KindOffset] == datagram.Stamp {
		datagram.PutStamp(packet, s.opts.Clock.Now())
		return p.Reply(packet[:size])
	}
	copy(out[:datagram.HeaderBytes], packet[:datagram.HeaderBytes])
	return p.Reply(out[:size])
}

// answerSize is how many bytes answer a packet, 0 for none.
func (s *Server) answerSize(packet []byte, from netip.AddrPort) int {
	if len(packet) < datagram.HeaderBytes {
		return 0
	}
	t := s.find([protocol.CookieBytes]byte(packet), from.Addr())
	if t == nil {
		return 0
	}
	switch packet[datagram.KindOffset] {
	case datagram.Echo:
		return datagram.HeaderBytes
	case datagram.Stamp:
		if len(packet) < datagram.StampBytes {
			return 0
		}
		return datagram.StampBytes
	}
	if d, ok := s.servers[t.Spec.Kind].(session.DatagramServer); ok {
		return d.AnswerBytes(t, packet, from)
	}
	return 0
}
