package servertest

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/testutil"
)

// Path forwards TCP and UDP from one port of loopback to a server.
type Path struct {
	// Delay is that of everything, each way.
	Delay time.Duration
	// Hold is how much longer than that what a client sends over TCP is held back, nil for
	// no time. It gets what one read brought.
	Hold func(sent []byte) time.Duration
	// Lose says that a packet of a client is lost, nil for none.
	Lose func(packet []byte) bool
	// Twice has each packet of a server arrive twice.
	Twice bool

	forwarder Forwarder
}

// Listen begins to forward, until the end of the test.
func (p *Path) Listen(t *testing.T, target netip.AddrPort) netip.AddrPort {
	t.Helper()
	packets, ln := listenBoth(t)
	p.forwarder.ListenOn(ln, target, func(_ int, client, server net.Conn) {
		p.forwarder.Go(func() { p.forward(client, server, p.Hold) })
		p.forwarder.Go(func() { p.forward(server, client, nil) })
	})
	p.forwarder.Keep(packets)
	p.forwarder.Go(func() { p.forwardPackets(packets, target) })
	t.Cleanup(p.forwarder.Close)
	return packets.LocalAddr().(*net.UDPAddr).AddrPort()
}

// listenBoth takes one port of both protocols.
func listenBoth(t *testing.T) (*net.UDPConn, net.Listener) {
	t.Helper()
	for try := 0; ; try++ {
		packets, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		testutil.OK(t, err)
		ln, err := net.Listen("tcp", packets.LocalAddr().String())
		if err == nil {
			return packets, ln
		}
		testutil.OK(t, packets.Close())
		if try == 100 {
			t.Fatal(err)
		}
	}
}

func (p *Path) forward(from, to net.Conn, hold func([]byte) time.Duration) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			_ = to.(*net.TCPConn).CloseWrite()
			return
		}
		delay := p.Delay
		if hold != nil {
			delay += hold(buf[:n])
		}
		time.Sleep(delay)
		_, _ = to.Write(buf[:n]) // a closed end shows at the next Read
	}
}

func (p *Path) forwardPackets(in *net.UDPConn, target netip.AddrPort) {
	outs := map[netip.AddrPort]*net.UDPConn{} // by who sends
	buf := make([]byte, 64<<10)
	for {
		n, client, err := in.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		if p.Lose != nil && p.Lose(buf[:n]) {
			continue
		}
		out := outs[client]
		if out == nil {
			if out, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(target)); err != nil {
				continue // a lost packet
			}
			outs[client] = out
			p.forwarder.Keep(out)
			p.forwarder.Go(func() { p.answerPackets(out, in, client) })
		}
		p.later(buf[:n], func(packet []byte) { _, _ = out.Write(packet) })
	}
}

func (p *Path) answerPackets(from, to *net.UDPConn, client netip.AddrPort) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		p.later(buf[:n], func(packet []byte) {
			_, _ = to.WriteToUDPAddrPort(packet, client)
			if p.Twice {
				_, _ = to.WriteToUDPAddrPort(packet, client)
			}
		})
	}
}

// later sends a copy of a packet after the delay.
func (p *Path) later(packet []byte, send func([]byte)) {
	if p.Delay == 0 {
		send(packet)
		return
	}
	kept := append([]byte(nil), packet...)
	time.AfterFunc(p.Delay, func() { send(kept) })
}
