package datagram

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
	"github.com/hopbench/hopbench/internal/testutil"
)

// answerPorts echoes packets that come from ports that right says are, as a
// load balancer gives packets of some ports to the right server.
func answerPorts(t *testing.T, right func(port uint16) bool) netip.AddrPort {
	t.Helper()
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	testutil.OK(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 100)
		for {
			n, from, err := c.ReadFromUDPAddrPort(b)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil && right(from.Port()) {
				_, _ = c.WriteToUDPAddrPort(b[:n], from)
			}
		}
	}()
	t.Cleanup(func() {
		_ = c.Close()
		<-done
	})
	return c.LocalAddr().(*net.UDPAddr).AddrPort()
}

func searchAt(target netip.AddrPort) (*portSearch, *[]*sockets.Conn) {
	var opened []*sockets.Conn
	return &portSearch{cookie: make([]byte, protocol.CookieBytes), open: func() (*sockets.Conn, error) {
		c, err := sockets.DialUDP(context.Background(), netip.AddrPort{}, target, "")
		if err == nil {
			opened = append(opened, c)
		}
		return c, err
	}}, &opened
}

func TestPortSearch(t *testing.T) {
	isRight := func(port uint16) bool { return port/2%8 == 3 } // the kernel gives even ports to some
	s, opened := searchAt(answerPorts(t, isRight))
	c, err := s.run(t.Context())
	if err != nil || c == nil {
		t.Fatalf("none of %d ports was answered: %v", s.tried, err)
	}
	local, err := netip.ParseAddrPort(c.LocalAddr())
	if err != nil || !isRight(local.Port()) {
		t.Errorf("found %v, which is not answered (%v)", local, err)
	}
	if err := c.Close(); err != nil {
		t.Errorf("the socket that was found: %v", err)
	}
	for _, other := range *opened {
		if other != c && other.LocalAddr() != "" {
			t.Errorf("a socket that was tried is still open at %s", other.LocalAddr())
		}
	}
}

func TestPortSearchEnds(t *testing.T) {
	s, _ := searchAt(answerPorts(t, func(uint16) bool { return false }))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if c, err := s.run(ctx); c != nil || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, %v", c, err)
	}
	s, _ = searchAt(netip.MustParseAddrPort("127.0.0.1:1"))
	s.open = func() (*sockets.Conn, error) { return nil, net.ErrClosed }
	if c, err := s.run(t.Context()); c != nil || !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v, %v", c, err)
	}
	s, _ = searchAt(answerPorts(t, func(uint16) bool { return false }))
	if c, err := s.run(t.Context()); c != nil || err != nil || s.tried > maxPorts {
		t.Errorf("got %v, %v after %d ports", c, err, s.tried)
	}
}

func TestTranslated(t *testing.T) {
	target := netip.MustParseAddrPort("[::ffff:192.0.2.1]:5201")
	for server, want := range map[string]bool{
		"192.0.2.1:5201": false, "192.0.2.2:5201": true, "192.0.2.1:5202": true, "": false, "nonsense": false,
	} {
		if got := Translated(target, protocol.Ready{Server: server}); got != want {
			t.Errorf("server %q: %v", server, got)
		}
	}
}

func TestDestinations(t *testing.T) {
	for _, test := range []struct {
		servers, want []string
	}{
		{[]string{"a", "a"}, nil},
		{[]string{"", ""}, nil},
		{[]string{"b", "b"}, []string{"the destination address is translated on the way: the source reached a, the destination has b"}},
		{[]string{"c", "b", "d", "b"}, []string{
			"4 flows towards a went to 3 back ends: 2 to b, 1 to c, 1 to d",
			"the destination's CPUs and lost packets are those of the back end of the first flow, c",
		}},
	} {
		if got := Destinations("a", test.servers); !slices.Equal(got, test.want) {
			t.Errorf("%v: got %q, want %q", test.servers, got, test.want)
		}
	}
}
