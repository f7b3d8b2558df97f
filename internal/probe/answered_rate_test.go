package probe_test

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
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

// A server that bounds the rate counts what it answers over UDP: from whichever of its sockets,
// before the test has started, and what it only mirrors.
func TestRateOfAnswersIsBounded(t *testing.T) {
	t.Parallel() // it waits for most of its time
	target := servertest.Serve(t, probe.ServerOptions{Limits: probe.Limits{MaxRateBitsPerSecond: 1e6}})
	rr := measurement.Spec{Kind: measurement.RR, Protocol: measurement.OverUDP, ResponseBytes: 10_000, Duration: 600}
	for name, c := range map[string]struct {
		spec    measurement.Spec
		started bool
		open    func(*testing.T, probe.Request, *session.Link) io.WriteCloser
		kind    byte
		size    int
	}{
		"from a second port":      {rr, true, secondPort, datagram.Request, datagram.HeaderBytes},
		"before the start":        {rr, false, anotherPort, datagram.Request, datagram.HeaderBytes},
		"mirrored by an mtu test": {measurement.Spec{Kind: measurement.MTU, Timeout: 2}, true, firstPort, datagram.Mirror, 10_000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// On a busy machine a connection is ended by force and told nothing.
			testutil.Longer(t, func(float64) string {
				request := probe.Request{Spec: c.spec.Defaults(), Target: target}
				l, err := session.ConnectSingle(servertest.Context(t), request)
				testutil.OK(t, err)
				defer func() { _ = l.Conn.Abort() }()
				control := &session.ControlConn{Conn: l.Conn, Deadline: time.Now().Add(40 * time.Second)}
				conn := c.open(t, request, l)
				if c.started {
					testutil.OK(t, protocol.WriteFrame(control, protocol.TypeStart, nil))
				}
				err = flood(t, conn, newPacket(l, c.kind, c.size), control)
				if err == nil || session.ReasonOf(err) != probe.Limit || !strings.Contains(err.Error(), "--max-rate") {
					return fmt.Sprintf("a client that is too fast is told %v", err)
				}
				return ""
			})
		})
	}
}

// flood writes a packet every millisecond until the test has ended, and returns what its client is
// told. It closes conn.
func flood(t *testing.T, conn io.WriteCloser, packet []byte, control *session.ControlConn) error {
	t.Helper()
	var over atomic.Bool
	var all sync.WaitGroup
	all.Go(func() {
		for !over.Load() {
			_, _ = conn.Write(packet)    // what does not fit is lost
			time.Sleep(time.Millisecond) // 80 times as fast as is allowed
		}
	})
	defer func() {
		over.Store(true)
		all.Wait()
		testutil.OK(t, conn.Close())
	}()
	return protocol.Expect(control, protocol.TypeReport, protocol.MaxControl, nil)
}

func newPacket(l *session.Link, kind byte, size int) []byte {
	p := make([]byte, size)
	datagram.PutHeader(p, l.Ready.Cookie, kind)
	return p
}

// firstPort is the one that the server connects a socket to, anotherPort one of which it knows
// nothing.
func firstPort(t *testing.T, r probe.Request, l *session.Link) io.WriteCloser {
	t.Helper()
	conn, _, err := datagram.Open(servertest.Context(t), r, l, 0, sockets.ProbeMTU, 0)
	testutil.OK(t, err)
	return conn
}

func anotherPort(t *testing.T, r probe.Request, _ *session.Link) io.WriteCloser {
	t.Helper()
	return dialUDP(t, r.Target)
}

// secondPort is another one after the server has answered the first.
func secondPort(t *testing.T, r probe.Request, l *session.Link) io.WriteCloser {
	t.Helper()
	first := dialUDP(t, r.Target)
	t.Cleanup(func() { _ = first.Close() })
	// What other tests send to the server at the same time may crowd out a request.
	for end := time.Now().Add(20 * time.Second); ; {
		_, err := first.Write(newPacket(l, datagram.Request, datagram.HeaderBytes))
		testutil.OK(t, err)
		testutil.OK(t, first.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
		if _, err = first.Read(make([]byte, datagram.MaxBytes)); err == nil {
			break
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	return dialUDP(t, r.Target)
}

func dialUDP(t *testing.T, target netip.AddrPort) *net.UDPConn {
	t.Helper()
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(target))
	testutil.OK(t, err)
	return c
}
