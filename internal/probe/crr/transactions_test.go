package crr_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/servertest"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestRunCRR(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{Token: servertest.Token})
	for name, spec := range map[string]measurement.Spec{
		"one at a time":  {},
		"four at a time": {Flows: 4},
		"large request":  {RequestBytes: 100_000},
		"large response": {ResponseBytes: 100_000},
	} {
		t.Run(name, func(t *testing.T) {
			var out measurement.Outcome
			testutil.Longer(t, func(factor float64) string {
				spec.Kind, spec.Duration, spec.MaxWarmup = measurement.CRR, measurement.Seconds(0.3*factor), 0.05
				var err error
				out, err = probe.Run(servertest.Context(t), probe.Request{ID: "crr", Spec: spec, Target: target, Token: servertest.Token}, nil)
				testutil.OK(t, err)
				if out.Latency.Samples < 100 {
					return fmt.Sprintf("%d connections", out.Latency.Samples)
				}
				return ""
			})
			for _, m := range measurement.MetricsOf(measurement.CRR) {
				v, ok := out.Metrics[m.Name]
				if !ok && out.Latency.Samples < 1000 && (m.Name == "transaction_p99_seconds" || m.Name == "connect_p99_seconds") {
					continue
				}
				if failures := strings.HasPrefix(m.Name, "failed_connections_"); !ok || v < 0 || v == 0 && !failures || v != 0 && failures {
					t.Errorf("metric %s is %v (present: %v)", m.Name, v, ok)
				}
			}
		})
	}
}

// transactionOf opens a crr test and returns the cookie of its connections.
func transactionOf(t *testing.T, target netip.AddrPort, spec measurement.Spec) *session.Link {
	t.Helper()
	l, err := session.ConnectSingle(servertest.Context(t), probe.Request{ID: "crr", Spec: spec.Defaults(), Target: target, Token: servertest.Token})
	testutil.OK(t, err)
	t.Cleanup(func() { _ = l.Conn.Abort() })
	return l
}

// said is what the server answers to bytes that come in pieces, up to its end
// of the connection, which it closes by itself.
func said(t *testing.T, target netip.AddrPort, pieces ...[]byte) []byte {
	t.Helper()
	c, err := net.Dial("tcp", target.String())
	testutil.OK(t, err)
	defer c.Close()
	for _, p := range pieces {
		if _, err := c.Write(p); err != nil {
			break // the server has seen enough
		}
	}
	testutil.OK(t, c.SetReadDeadline(time.Now().Add(20*time.Second)))
	answer, err := io.ReadAll(c)
	if err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the server did not close: %v", err)
	}
	return answer
}

// The server answers a transaction with the response that its test asked for,
// however the request arrives, and anything else with nothing at all.
func TestTransactionsAreAuthorised(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{Token: servertest.Token})
	crr := transactionOf(t, target, measurement.Spec{Kind: measurement.CRR, RequestBytes: 10, ResponseBytes: 300})
	rr := transactionOf(t, target, measurement.Spec{Kind: measurement.RR})
	request := func(cookie []byte) []byte {
		b := make([]byte, protocol.TransactionBytes+10)
		protocol.PutTransaction(b, cookie)
		return b
	}
	good := request(crr.Ready.Cookie)
	garbled := append([]byte{}, good...)
	garbled[1]++
	for _, c := range []struct {
		name   string
		pieces [][]byte
		want   int
	}{
		{"at once", [][]byte{good}, 300},
		{"byte by byte", split(good, 1), 300},
		{"head and request", [][]byte{good[:protocol.TransactionBytes], good[protocol.TransactionBytes:]}, 300},
		{"another cookie", [][]byte{garbled}, 0},
		{"another cookie, byte by byte", split(garbled, 1), 0},
		{"the cookie of another kind of test", [][]byte{request(rr.Ready.Cookie)}, 0},
	} {
		for range 3 { // by way of the accepting thread and of the other
			if got := len(said(t, target, c.pieces...)); got != c.want {
				t.Errorf("%s: answered with %d bytes, want %d", c.name, got, c.want)
			}
		}
	}
}

func split(b []byte, size int) [][]byte { return slices.Collect(slices.Chunk(b, size)) }

// While connections that say nothing, or half, wait at the server, a crr test
// and other tests are served.
func TestGarbageDoesNotHoldUpTransactions(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{Token: servertest.Token})
	l := transactionOf(t, target, measurement.Spec{Kind: measurement.CRR})
	head := make([]byte, protocol.TransactionBytes)
	protocol.PutTransaction(head, l.Ready.Cookie)
	for _, bytes := range [][]byte{nil, {protocol.TransactionMagic}, head, []byte("\x00garbage"), {protocol.PrefaceMagic}} {
		c, err := net.Dial("tcp", target.String())
		testutil.OK(t, err)
		defer c.Close()
		if _, err := c.Write(bytes); err != nil {
			t.Fatal(err)
		}
	}
	for _, spec := range []measurement.Spec{{Kind: measurement.CRR, Duration: 0.1}, {Kind: measurement.RR, Duration: 0.1}} {
		out, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: target, Token: servertest.Token}, nil)
		testutil.OK(t, err)
		if out.Metrics["failed_connections_count"] != 0 {
			t.Error(out.Facts)
		}
	}
}

// A server that goes away ends the test soon, not after its whole time.
func TestCRRServerVanishes(t *testing.T) {
	t.Parallel() // it waits for most of its time
	target := servertest.Serve(t, probe.ServerOptions{Token: servertest.Token})
	for _, stall := range []bool{false, true} {
		// The second response already is more than passes.
		spec := measurement.Spec{Kind: measurement.CRR, Duration: 0.5, MaxWarmup: 0.01, ResponseBytes: 4000}
		p, addr := servertest.StartProxy(t, target, servertest.BytesOf(t, target, spec)+5000, stall)
		_, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: addr, Token: servertest.Token}, nil)
		p.Close()
		if e, ok := errors.AsType[*probe.Error](err); !ok || e.Reason != probe.Vanished && e.Reason != probe.TimedOut {
			t.Errorf("stalled %v: %v", stall, err)
		}
	}
}

// FuzzTransaction compares the accepting thread's reading with the other way.
func FuzzTransaction(f *testing.F) {
	cookie := bytes.Repeat([]byte{7}, protocol.CookieBytes)
	whole := make([]byte, protocol.TransactionBytes+3)
	protocol.PutTransaction(whole, cookie)
	f.Add(whole)
	f.Add([]byte{protocol.TransactionMagic})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		got, ok := protocol.ParseTransaction(b)
		r := bytes.NewReader(b)
		err := protocol.ReadPreface(r)
		is := errors.Is(err, protocol.ErrTransaction)
		var slow [protocol.CookieBytes]byte
		if is {
			slow, err = protocol.ReadCookie(r)
			is = err == nil
		}
		if ok != is || ok && got != slow {
			t.Fatalf("% x: %v and %v", b, ok, is)
		}
	})
}
