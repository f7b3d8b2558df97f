//go:build unix

package sockets_test

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/sockets"
	"github.com/hopbench/hopbench/internal/testutil"
)

// A connected socket takes the packets of its peer, and only those, from the
// listening one that has its port.
func TestConnectUDPSharesThePort(t *testing.T) {
	listener, err := sockets.ListenUDP(t.Context(), netip.MustParseAddrPort("127.0.0.1:0"))
	testutil.OK(t, err)
	defer listener.Close()
	local := listener.LocalAddr().(*net.UDPAddr).AddrPort()
	clients := make([]*net.UDPConn, 2)
	for i := range clients {
		if clients[i], err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(local)); err != nil {
			t.Fatal(err)
		}
		defer clients[i].Close()
	}
	connected, err := sockets.ConnectUDP(t.Context(), local, clients[0].LocalAddr().(*net.UDPAddr).AddrPort())
	testutil.OK(t, err)
	defer connected.Close()
	expect := func(from *net.UDPConn, text string, at *net.UDPConn) {
		t.Helper()
		if _, err := from.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 16)
		testutil.OK(t, at.SetReadDeadline(time.Now().Add(5*time.Second)))
		if n, _, err := at.ReadFromUDP(b); err != nil || string(b[:n]) != text {
			t.Errorf("got %q, %v, want %q", b[:n], err, text)
		}
	}
	for range 3 {
		expect(clients[0], "first", connected)
		expect(clients[1], "second", listener)
		expect(connected, "back", clients[0])
	}
}
