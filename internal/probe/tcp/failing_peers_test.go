package tcp_test

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
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/servertest"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/probe/tcp"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/testutil"
)

// endsWith runs a test that cannot succeed and checks the reason it ends with.
func endsWith(t *testing.T, what string, req probe.Request, reasons ...probe.Reason) {
	_, err := probe.Run(servertest.Context(t), req, nil)
	e, ok := errors.AsType[*probe.Error](err)
	for _, r := range reasons {
		if ok && e.Reason == r {
			return
		}
	}
	t.Errorf("%s, %d flows %s: got %v, want one of %v", what, req.Spec.Flows, req.Spec.Direction, err, reasons)
}

// Peers that stop in any way end a test by its own deadline, with a reason,
// whether its flows have threads or share the poller.
func TestBulkPeerFails(t *testing.T) {
	t.Parallel() // it waits for most of its time
	over := servertest.Context(t).Done()
	reset := servertest.Handshaken(t, func(c net.Conn, _ protocol.Open) {
		_, _ = io.CopyN(io.Discard, c, 1000) // a receiving client sends nothing: it times out
		_ = c.(*net.TCPConn).SetLinger(0)
	})
	resetting := servertest.Handshaken(t, func(c net.Conn, _ protocol.Open) { _ = c.(*net.TCPConn).SetLinger(0) })
	full := servertest.Handshaken(t, func(_ net.Conn, open protocol.Open) { // reads nothing at all: buffers fill up
		select {
		case <-over:
		case <-time.After(session.Planned(open.Spec) + 2*tcp.Kind().Grace(open.Spec)):
		}
	})
	silent := servertest.Garbage(t, nil) // accepts, reads, never answers
	var group errgroup.Group             // all at once: some take as long as their deadline
	for _, flows := range servertest.FewAndMany {
		group.Go(func() error {
			endsWith(t, "reset", probe.Request{Target: reset, Spec: servertest.ShortTCP(flows, measurement.Send)}, probe.Vanished)
			return nil
		})
		for _, direction := range []measurement.Direction{measurement.Send, measurement.Receive, measurement.Both} {
			group.Go(func() error {
				endsWith(t, "reset at once", probe.Request{Target: resetting, Spec: servertest.ShortTCP(flows, direction)}, probe.Vanished, probe.TimedOut) // the latter on a very busy host
				return nil
			})
			group.Go(func() error {
				endsWith(t, "never reads", probe.Request{Target: full, Spec: servertest.ShortTCP(flows, direction)}, probe.TimedOut)
				return nil
			})
		}
	}
	group.Go(func() error {
		endsWith(t, "half-open", probe.Request{Target: silent, Spec: servertest.ShortTCP(1, measurement.Send)}, probe.TimedOut)
		return nil
	})
	_ = group.Wait() // failures were reported
}

// A path that swallows the data of one flow while the others live, and a
// server that is left with the dead end: both give up, and the next client is
// served.
func TestBulkPathSwallowsOneFlow(t *testing.T) {
	t.Parallel() // it waits for most of its time
	target := servertest.Serve(t, probe.ServerOptions{})
	t.Run("holes", func(t *testing.T) { // all at once: each waits for its deadline
		for _, flows := range servertest.FewAndMany {
			for _, direction := range []measurement.Direction{measurement.Send, measurement.Receive} {
				t.Run(fmt.Sprintf("%d flows %s", flows, direction), func(t *testing.T) {
					t.Parallel()
					testutil.Longer(t, func(factor float64) (lacking string) {
						hole, swallowed, addr := startHole(t, target)
						defer hole.Close()
						spec := servertest.ShortTCP(flows, direction)
						spec.Duration *= measurement.Seconds(factor)
						spec.PacingBitsPerSecond = 50e6 // into the hole until the deadline
						out, err := probe.Run(servertest.Context(t), probe.Request{Target: addr, Spec: spec}, nil)
						if err == nil && swallowed.Load() < 64<<10 { // else it may be what is said in the end
							return "the flow sent next to nothing that could be swallowed"
						}
						// A receiver whose last bytes came late has a whole count, and says what it lacks.
						lacks := err == nil && slices.ContainsFunc(out.Facts, func(f string) bool { return strings.Contains(f, "did not arrive in time") })
						if e, ok := errors.AsType[*probe.Error](err); !lacks && (!ok || e.Reason != probe.TimedOut) {
							t.Errorf("got %v, facts %q, want a timeout", err, out.Facts)
						}
						return ""
					})
				})
			}
		}
	})
	if _, err := probe.Run(servertest.Context(t), probe.Request{Target: target, Spec: servertest.ShortTCP(2, measurement.Both)}, nil); err != nil {
		t.Errorf("the next client: %v", err)
	}
}

// startHole forwards everything but what its second connection carries after its
// first bytes, which it swallows in both directions, and counts these bytes.
func startHole(t *testing.T, target netip.AddrPort) (*servertest.Forwarder, *atomic.Int64, netip.AddrPort) {
	t.Helper()
	const handshake = 4000 // bytes, which in both directions together stay below up to START
	h, swallowed := &servertest.Forwarder{}, &atomic.Int64{}
	return h, swallowed, h.Listen(t, target, func(n int, client, server net.Conn) {
		var passed atomic.Int64
		pass := func(from, to net.Conn) {
			buf := make([]byte, 64<<10)
			for {
				few := buf[:1<<10] // near the end of the handshake
				if passed.Load() > handshake {
					few = buf
				}
				got, err := from.Read(few)
				if err != nil {
					_ = to.(*net.TCPConn).CloseWrite()
					return
				}
				if total := passed.Add(int64(got)); n == 1 && total > handshake {
					swallowed.Add(int64(got))
					continue // and both ends stay connected
				}
				_, _ = to.Write(buf[:got]) // a closed end shows at the next Read
			}
		}
		h.Go(func() { pass(client, server) })
		h.Go(func() { pass(server, client) })
	})
}
