package crr

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/latency"
	"github.com/hopbench/hopbench/internal/probe/probetest"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
	"github.com/hopbench/hopbench/internal/testutil"
)

// A transaction allocates nothing at either end, which here share a process.
func TestTransactionDoesNotAllocate(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skipf("only Linux connects without the network poller; this is %s", runtime.GOOS)
	}
	spec := measurement.Spec{Kind: measurement.CRR}.Defaults()
	served := &session.Test{Spec: spec, Meter: session.NewCounts(session.TellNothing).NewMeter(session.Client{})}
	server := Kind().NewServer(session.ServerEnv{
		Find:    func([protocol.CookieBytes]byte, netip.Addr) *session.Test { return served },
		Closing: func() bool { return false }, Log: slog.New(slog.DiscardHandler),
	}).(*server)
	end := server.Begin(served)
	server.transacting.Add(1)
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.OK(t, err)
	ln, err := server.Wrap(plain)
	testutil.OK(t, err)
	closed := make(chan error, 1)
	go func() {
		for {
			// Accept answers by itself, and returns those whose request comes late.
			c, err := ln.Accept()
			if err != nil {
				closed <- err
				return
			}
			if _, err := io.ReadFull(c, make([]byte, 1)); err == nil {
				_ = server.ServeTransaction(c.(*net.TCPConn)) // the client sees what became of it
			}
			_ = c.Close()
		}
	}()
	ready := protocol.Ready{Cookie: served.Cookie[:]}
	test := &test{
		req:     session.Request{Spec: spec, Target: plain.Addr().(*net.TCPAddr).AddrPort()},
		threads: true, controls: []*control{{Link: &session.Link{Ready: ready}}},
	}
	test.tally.connect, test.tally.transaction, test.tally.closing = latency.New(), latency.New(), latency.New()
	c, err := test.newCaller(t.Context())
	testutil.OK(t, err)
	c.start = time.Now()
	transact := func() {
		began := time.Since(c.start)
		c.deadline = began + transactionTimeout
		testutil.OK(t, errors.Join(c.dialogue(), c.Close()))
		c.count(began, time.Since(c.start), nil)
	}
	for range 20 {
		transact()
	}
	if n := probetest.Allocations(1000, transact); n != 0 {
		t.Errorf("a transaction allocates %d times", n)
	}
	if err := errors.Join(ln.Close(), end()); err != nil {
		t.Error(err)
	}
	if err := <-closed; !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener ended with %v", err)
	}
	if served.State.(*transactions).answered.Load() < 1020 {
		t.Error("the accepting thread did not answer")
	}
}

// hanging is a connector whose connections are never answered.
type hanging struct{ connector }

func (hanging) Connect() error { return sockets.ErrTick }
func (hanging) Close() error   { return nil }

// A connection that hangs at the end is given up while the server still waits for the end
// of the test.
func TestHangingConnectionsLeaveTimeForTheReport(t *testing.T) {
	const end = 100 * time.Millisecond
	var y tally
	y.connect, y.transaction, y.closing = latency.New(), latency.New(), latency.New()
	c := &caller{connector: hanging{}, tally: &y, end: end, stop: new(atomic.Bool)}
	c.start = time.Now().Add(-(end + session.Grace - session.Reporting)) // so that it need not be waited for
	testutil.OK(t, c.run())
	if c.deadline >= end+session.Grace || y.failed != 1 {
		t.Errorf("%d connections failed, the last was waited for until %v after the end", y.failed, c.deadline-end)
	}
}

// One that has no thread of its own is dialled no longer than its transaction may take.
func TestPolledConnectorEndsWithItsTransaction(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.OK(t, err)
	defer ln.Close()
	req := session.Request{Spec: measurement.Spec{Kind: measurement.CRR}.Defaults(), Target: ln.Addr().(*net.TCPAddr).AddrPort()}
	p := newPolledConnector(t.Context(), req, func() time.Duration { return 0 })
	if err := p.Connect(); session.ReasonOf(err) != session.TimedOut {
		t.Errorf("got %v", errors.Join(err, p.Close()))
	}
}

// held is a connector each of whose connections takes 10 ms, but for one, whose SYN is lost.
type held struct {
	start    time.Time
	lost     time.Duration // when that one begins, since the start
	answered bool
}

func (h *held) Connect() error {
	h.answered = false
	if time.Since(h.start) == h.lost {
		time.Sleep(time.Second) // as the kernel waits (RFC 6298, section 2)
	}
	time.Sleep(10 * time.Millisecond)
	return nil
}

func (h *held) Write(p []byte) (int, error) { return len(p), nil }

func (h *held) Read([]byte) (int, error) {
	if h.answered {
		return 0, io.EOF
	}
	h.answered = true
	return 1, nil
}

func (h *held) Close() error { return nil }

// A connection of the measured time that is served after its end is as slow as it was: it is
// neither left out nor has it failed.
func TestConnectionsThatOutlastTheTestCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var y tally
		y.connect, y.transaction, y.closing = latency.New(), latency.New(), latency.New()
		start := time.Now()
		c := &caller{
			connector: &held{start: start, lost: 900 * time.Millisecond}, tally: &y, stop: new(atomic.Bool),
			start: start, warmup: 100 * time.Millisecond, end: time.Second,
			request: make([]byte, 1), in: make([]byte, 2), response: 1,
		}
		testutil.OK(t, c.run())
		d := y.transaction.Distribution()
		if d.Samples != 81 || d.Unanswered != 0 || y.failed != 0 || d.Max != 1.01 {
			t.Errorf("%d connections, the slowest took %v s; %d failed", d.Samples, d.Max, y.failed)
		}
		// None of the warm-up counts, however long it takes.
		y.transaction, y.connect, y.closing = latency.New(), latency.New(), latency.New()
		start = time.Now()
		c.connector, c.start = &held{start: start, lost: 90 * time.Millisecond}, start
		testutil.OK(t, c.run())
		if d := y.transaction.Distribution(); d.Samples != 1 || d.Max != 0.01 {
			t.Errorf("%d connections after one that took all the time, the slowest took %v s", d.Samples, d.Max)
		}
	})
}

// A path takes no more connections if those since some moment came to nothing: in the last tenth of
// the measured time where nobody answered them, in the last half where somebody refused them.
func TestNoMoreConnections(t *testing.T) {
	spec := measurement.Spec{Kind: measurement.CRR, MaxWarmup: 1, Duration: 10}
	for _, c := range []struct {
		served time.Duration
		why    error
		want   session.Reason
	}{
		{9 * time.Second, os.ErrDeadlineExceeded, session.TimedOut},
		{10500 * time.Millisecond, os.ErrDeadlineExceeded, ""},
		{5 * time.Second, syscall.ECONNREFUSED, session.Refused},
		{9 * time.Second, syscall.ECONNREFUSED, ""},
		{5 * time.Second, nil, ""},
		{5 * time.Second, errors.New("not the path's"), ""},
	} {
		x := &test{req: session.Request{Spec: spec}, tally: tally{served: c.served, why: c.why, failedSince: 1}}
		err := x.refused(100)
		if got := session.ReasonOf(err); (err != nil) != (c.want != "") || err != nil && got != c.want {
			t.Errorf("served until %v, then %v: %v", c.served, c.why, err)
		}
	}
}
