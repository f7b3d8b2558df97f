package rr

import (
	"errors"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/probe/datagram"
	"github.com/hopbench/hopbench/internal/probe/probetest"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/sockets"
	"github.com/hopbench/hopbench/internal/testutil"
)

// echoAt answers every packet to an address with itself, until end is called: from then on
// the kernel answers "port unreachable".
func echoAt(t *testing.T, at *net.UDPAddr) (address *net.UDPAddr, end func()) {
	t.Helper()
	far, err := net.ListenUDP("udp", at)
	testutil.OK(t, err)
	var echoing sync.WaitGroup
	echoing.Go(func() {
		for b := make([]byte, 100); ; {
			n, from, err := far.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			_, _ = far.WriteToUDPAddrPort(b[:n], from) // one that is lost fails the test
		}
	})
	return far.LocalAddr().(*net.UDPAddr), func() { _ = far.Close(); echoing.Wait() }
}

// A host or a firewall that rejects some requests loses them; one that rejects all is named at
// once.
func TestRejectedRequests(t *testing.T) {
	const within = 100 * time.Millisecond
	for name, loop := range map[string]func(*sockets.Conn) func() error{
		"closed": func(conn *sockets.Conn) func() error {
			x := &udpExchange{
				endpoint: endpoint{ControlConn: session.ControlConn{Conn: conn}},
				request:  make([]byte, datagram.HeaderBytes), response: make([]byte, 100), timeout: within, late: new(late),
			}
			return func() error { return x.exchange(false) }
		},
		"open": func(conn *sockets.Conn) func() error {
			c, sequence := &udpCarrier{Conn: conn, request: make([]byte, datagram.HeaderBytes), in: make([]byte, 100)}, uint32(0)
			return func() error {
				if err := c.send(sequence); err != nil {
					return err
				}
				sequence++
				for end := time.Now().Add(within); time.Now().Before(end); {
					if _, _, err := c.receive(within); !errors.Is(err, sockets.ErrTick) {
						return err
					}
				}
				return errLost
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			address, end := echoAt(t, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
			some, all := loop(probetest.UDPSocket(t, address.AddrPort())), loop(probetest.UDPSocket(t, address.AddrPort()))
			testutil.OK(t, some())
			end()
			for range 2 * mostRejections {
				if err := some(); !errors.Is(err, errLost) {
					t.Fatalf("a request that is rejected after one was answered: %v", err)
				}
			}
			for range mostRejections - 1 {
				if err := all(); !errors.Is(err, errLost) {
					t.Fatalf("one of the first requests, which is rejected: %v", err)
				}
			}
			if err := all(); session.ReasonOf(err) != session.Refused {
				t.Errorf("all requests are rejected: %v, want %v", err, syscall.ECONNREFUSED)
			}
			_, end = echoAt(t, address)
			defer end()
			testutil.OK(t, some())
		})
	}
}
