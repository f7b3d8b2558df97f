package probe

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/testutil"
)

// fewAndMany are a test on threads and one on the shared poller.
var fewAndMany = []int{2, session.ThreadConnections + 6}

func shortTCP(flows int, direction measurement.Direction) measurement.Spec {
	return measurement.Spec{Kind: measurement.TCP, Flows: flows, Direction: direction, Duration: 0.1, MaxWarmup: 0.02}
}

// endsWith runs a test that cannot succeed and checks the reason it ends with.
func endsWith(t *testing.T, what string, req Request, reasons ...Reason) {
	_, err := Run(testContext(t), req, nil)
	e, ok := errors.AsType[*Error](err)
	for _, r := range reasons {
		if ok && e.Reason == r {
			return
		}
	}
	t.Errorf("%s, %d flows %s: got %v, want one of %v", what, req.Spec.Flows, req.Spec.Direction, err, reasons)
}

// handshaken is a peer that opens every connection properly and then does
// with it as it likes, until it closes it.
func handshaken(t *testing.T, then func(net.Conn, protocol.Open)) netip.AddrPort {
	open := func(c net.Conn) (open protocol.Open, err error) {
		if err := protocol.ReadPreface(c); err != nil {
			return open, err
		}
		if _, err := protocol.ServerHandshake(c, ""); err != nil {
			return open, err
		}
		if err := protocol.Expect(c, protocol.TypeOpen, protocol.MaxControl, &open); err != nil {
			return open, err
		}
		if err := protocol.WriteFrame(c, protocol.TypeReady, readyOn(c)); err != nil {
			return open, err
		}
		return open, protocol.Expect(c, protocol.TypeStart, protocol.MaxControl, nil)
	}
	return testutil.Listen(t, func(c net.Conn) {
		asked, err := open(c)
		if err != nil { // a client may give up while another of its flows fails
			t.Logf("peer: %v", err)
			return
		}
		then(c, asked)
	})
}

// Peers that stop in any way end a test by its own deadline, with a reason,
// whether its flows have threads or share the poller.
func TestBulkPeerFails(t *testing.T) {
	t.Parallel() // it waits for most of its time
	over := testContext(t).Done()
	reset := handshaken(t, func(c net.Conn, _ protocol.Open) {
		_, _ = io.CopyN(io.Discard, c, 1000) // a receiving client sends nothing: it times out
		_ = c.(*net.TCPConn).SetLinger(0)
	})
	resetting := handshaken(t, func(c net.Conn, _ protocol.Open) { _ = c.(*net.TCPConn).SetLinger(0) })
	full := handshaken(t, func(_ net.Conn, open protocol.Open) { // reads nothing at all: buffers fill up
		select {
		case <-over:
		case <-time.After(session.Planned(open.Spec) + 2*kinds[measurement.TCP].Grace(open.Spec)):
		}
	})
	silent := garbage(t, nil) // accepts, reads, never answers
	var group errgroup.Group  // all at once: some take as long as their deadline
	for _, flows := range fewAndMany {
		group.Go(func() error {
			endsWith(t, "reset", Request{Target: reset, Spec: shortTCP(flows, measurement.Send)}, Vanished)
			return nil
		})
		for _, direction := range []measurement.Direction{measurement.Send, measurement.Receive, measurement.Both} {
			group.Go(func() error {
				endsWith(t, "reset at once", Request{Target: resetting, Spec: shortTCP(flows, direction)}, Vanished, TimedOut) // the latter on a very busy host
				return nil
			})
			group.Go(func() error {
				endsWith(t, "never reads", Request{Target: full, Spec: shortTCP(flows, direction)}, TimedOut)
				return nil
			})
		}
	}
	group.Go(func() error {
		endsWith(t, "half-open", Request{Target: silent, Spec: shortTCP(1, measurement.Send)}, TimedOut)
		return nil
	})
	_ = group.Wait() // failures were reported
}

// A path that swallows the data of one flow while the others live, and a
// server that is left with the dead end: both give up, and the next client is
// served.
func TestBulkPathSwallowsOneFlow(t *testing.T) {
	t.Parallel() // it waits for most of its time
	target := serve(t, ServerOptions{})
	t.Run("holes", func(t *testing.T) { // all at once: each waits for its deadline
		for _, flows := range fewAndMany {
			for _, direction := range []measurement.Direction{measurement.Send, measurement.Receive} {
				t.Run(fmt.Sprintf("%d flows %s", flows, direction), func(t *testing.T) {
					t.Parallel()
					testutil.Longer(t, func(factor float64) (lacking string) {
						hole, swallowed, addr := startHole(t, target)
						defer hole.close()
						spec := shortTCP(flows, direction)
						spec.Duration *= measurement.Seconds(factor)
						out, err := Run(testContext(t), Request{Target: addr, Spec: spec}, nil)
						if err == nil && !swallowed.Load() {
							return "the flow sent nothing that could be swallowed"
						}
						// A receiver whose last bytes came late has a whole count, and says what it lacks.
						lacks := err == nil && slices.ContainsFunc(out.Facts, func(f string) bool { return strings.Contains(f, "did not arrive in time") })
						if e, ok := errors.AsType[*Error](err); !lacks && (!ok || e.Reason != TimedOut) {
							t.Errorf("got %v, facts %q, want a timeout", err, out.Facts)
						}
						return ""
					})
				})
			}
		}
	})
	if _, err := Run(testContext(t), Request{Target: target, Spec: shortTCP(2, measurement.Both)}, nil); err != nil {
		t.Errorf("the next client: %v", err)
	}
}

// startHole forwards everything but what its second connection carries after its
// first bytes, which it swallows in both directions, and tells whether it did.
func startHole(t *testing.T, target netip.AddrPort) (*forwarder, *atomic.Bool, netip.AddrPort) {
	t.Helper()
	const handshake = 4000 // bytes, which in both directions together stay below up to START
	h, swallowed := &forwarder{}, &atomic.Bool{}
	return h, swallowed, h.listen(t, target, func(n int, client, server net.Conn) {
		var passed atomic.Int64
		pass := func(from, to net.Conn) {
			buf := make([]byte, 1<<10)
			for {
				got, err := from.Read(buf)
				if err != nil {
					_ = to.(*net.TCPConn).CloseWrite()
					return
				}
				if total := passed.Add(int64(got)); n == 1 && total > handshake {
					swallowed.Store(true)
					continue // and both ends stay connected
				}
				_, _ = to.Write(buf[:got]) // a closed end shows at the next Read
			}
		}
		h.wg.Go(func() { pass(client, server) })
		h.wg.Go(func() { pass(server, client) })
	})
}
