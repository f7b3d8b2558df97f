package probe_test

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/datagram"
	"github.com/hopbench/hopbench/internal/probe/servertest"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
	"github.com/hopbench/hopbench/internal/testutil"
)

// answered says whether the server answers packet, and with how many bytes. A
// packet that is known to be answered follows it, so that silence needs no
// waiting: the server answers in order.
func answered(t *testing.T, target netip.AddrPort, cookie, packet []byte) int {
	t.Helper()
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(target))
	testutil.OK(t, err)
	defer c.Close()
	marker := make([]byte, datagram.HeaderBytes)
	datagram.PutHeader(marker, cookie, datagram.Echo)
	copy(marker[datagram.SequenceOffset:], "mark")
	for _, p := range [][]byte{packet, marker} {
		if _, err := c.Write(p); err != nil {
			t.Fatal(err)
		}
	}
	testutil.OK(t, c.SetReadDeadline(time.Now().Add(20*time.Second)))
	in, size := make([]byte, datagram.MaxBytes), 0
	for {
		n, err := c.Read(in)
		testutil.OK(t, err)
		if n == datagram.HeaderBytes && string(in[datagram.SequenceOffset:n]) == "mark" {
			return size
		}
		size += n
	}
}

// UDP reflects nothing to whoever does not hold a cookie of a test in progress.
func TestUDPAnswersOnlyTests(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{Token: servertest.Token})
	open := func(spec measurement.Spec) *session.Link {
		l, err := session.ConnectSingle(servertest.Context(t), probe.Request{ID: "udp", Spec: spec.Defaults(), Target: target, Token: servertest.Token})
		testutil.OK(t, err)
		t.Cleanup(func() { _ = l.Conn.Abort() })
		return l
	}
	rr := open(measurement.Spec{Kind: measurement.RR, Protocol: measurement.OverUDP, ResponseBytes: 500})
	tcp := open(measurement.Spec{Kind: measurement.TCP})
	packet := func(cookie []byte, kind byte, size int) []byte {
		p := make([]byte, size)
		datagram.PutHeader(p, cookie, kind)
		return p
	}
	foreign := make([]byte, protocol.CookieBytes)
	for _, c := range []struct {
		name   string
		packet []byte
		want   int
	}{
		{"request", packet(rr.Ready.Cookie, datagram.Request, datagram.HeaderBytes), 500},
		{"echo", packet(rr.Ready.Cookie, datagram.Echo, 1000), datagram.HeaderBytes},
		{"unknown cookie", packet(foreign, datagram.Request, 1000), 0},
		{"echo of an unknown cookie", packet(foreign, datagram.Echo, 1000), 0},
		{"too short", packet(rr.Ready.Cookie, datagram.Request, datagram.HeaderBytes)[:datagram.HeaderBytes-1], 0},
		{"empty", nil, 0},
		{"unknown kind", packet(rr.Ready.Cookie, 8, 100), 0},
		{"stamp", packet(rr.Ready.Cookie, datagram.Stamp, 1000), datagram.StampBytes},
		{"stamp of an unknown cookie", packet(foreign, datagram.Stamp, 1000), 0},
		{"stamp longer than its request", packet(rr.Ready.Cookie, datagram.Stamp, datagram.StampBytes-1), 0},
		{"request in a tcp test", packet(tcp.Ready.Cookie, datagram.Request, 100), 0},
		{"echo in a tcp test", packet(tcp.Ready.Cookie, datagram.Echo, 100), datagram.HeaderBytes},
	} {
		if got := answered(t, target, rr.Ready.Cookie, c.packet); got != c.want {
			t.Errorf("%s: answered with %d bytes, want %d", c.name, got, c.want)
		}
	}
	s, err := probe.NewServer(probe.ServerOptions{})
	testutil.OK(t, err)
	id := protocol.Identity{Session: "x"}
	test, err := probe.Enter(s, nil, id, netip.MustParseAddr("192.0.2.1"), protocol.Open{Spec: measurement.Spec{Kind: measurement.MTU}})
	testutil.OK(t, err)
	p := packet(test.Cookie[:], datagram.Echo, datagram.HeaderBytes)
	if probe.AnswerSize(s, p, netip.MustParseAddrPort("192.0.2.2:1")) != 0 {
		t.Error("the right cookie from another address is answered")
	}
	if probe.AnswerSize(s, p, netip.MustParseAddrPort("192.0.2.1:1")) == 0 {
		t.Error("the right cookie from the right address is not answered")
	}
	probe.Leave(s, test, 0, nil)
	if probe.AnswerSize(s, p, netip.MustParseAddrPort("192.0.2.1:1")) != 0 {
		t.Error("the cookie of a test that has ended is answered")
	}
}

// A cookie of a crr test is worth nothing from another address, nor after the test.
func TestTransactionsAreOfOneAddress(t *testing.T) {
	s, err := probe.NewServer(probe.ServerOptions{})
	testutil.OK(t, err)
	test, err := probe.Enter(s, nil, protocol.Identity{Session: "x"}, netip.MustParseAddr("192.0.2.1"), protocol.Open{Spec: measurement.Spec{Kind: measurement.CRR}})
	testutil.OK(t, err)
	if probe.Find(s, test.Cookie, netip.MustParseAddr("192.0.2.2")) != nil {
		t.Error("the right cookie from another address is served")
	}
	if probe.Find(s, test.Cookie, netip.MustParseAddr("::ffff:192.0.2.1")) == nil {
		t.Error("the right cookie from the right address is not served")
	}
	probe.Leave(s, test, 0, nil)
	if probe.Find(s, test.Cookie, netip.MustParseAddr("192.0.2.1")) != nil {
		t.Error("the cookie of a test that has ended is served")
	}
}

func FuzzAnswerSize(f *testing.F) {
	s, err := probe.NewServer(probe.ServerOptions{})
	testutil.OK(f, err)
	client := netip.MustParseAddr("192.0.2.1")
	test, err := probe.Enter(s, nil, protocol.Identity{Session: "x"}, client, protocol.Open{Spec: measurement.Spec{Kind: measurement.RR, Protocol: measurement.OverUDP, ResponseBytes: 100}})
	testutil.OK(f, err)
	f.Add(append(test.Cookie[:], 1, 0, 0, 0, 0, 0, 0, 1))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, packet []byte) {
		if n := probe.AnswerSize(s, packet, netip.AddrPortFrom(client, 1)); n < 0 || n > 100 || n > 0 && [protocol.CookieBytes]byte(packet) != test.Cookie {
			t.Fatalf("%d bytes answer % x", n, packet)
		}
	})
}

// 0.0.0.0 is every address of IPv4, and none of IPv6.
func TestAddressesOfOneFamily(t *testing.T) {
	for address, want := range map[string]string{"0.0.0.0": "0.0.0.0", "127.0.0.1": "127.0.0.1"} {
		ln, err := probe.ListenTCP(t.Context(), net.JoinHostPort(address, "0"))
		testutil.OK(t, err)
		defer ln.Close()
		tcp := ln.Addr().(*net.TCPAddr).AddrPort()
		udp, err := sockets.ListenUDP(t.Context(), tcp)
		testutil.OK(t, err)
		defer udp.Close()
		if got := udp.LocalAddr().(*net.UDPAddr).AddrPort(); tcp.Addr().String() != want || got != tcp {
			t.Errorf("%q: TCP is served on %v and UDP on %v, want %s", address, tcp, got, want)
		}
	}
}
