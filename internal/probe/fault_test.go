package probe

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/testutil"
)

// forwarder stands between clients and a server on TCP.
type forwarder struct {
	ln     net.Listener
	target netip.AddrPort
	wg     sync.WaitGroup
	mu     sync.Mutex
	conns  []io.Closer
}

// listen begins to accept; pair gets the two ends of each connection and its number.
func (f *forwarder) listen(t *testing.T, target netip.AddrPort, pair func(n int, client, server net.Conn)) netip.AddrPort {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.OK(t, err)
	f.ln, f.target = ln, target
	f.wg.Go(func() { f.accept(pair) })
	return f.address()
}

func (f *forwarder) address() netip.AddrPort { return f.ln.Addr().(*net.TCPAddr).AddrPort() }

func (f *forwarder) accept(pair func(n int, client, server net.Conn)) {
	for n := 0; ; n++ {
		client, err := f.ln.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", f.target.String())
		if err != nil {
			_ = client.Close()
			continue
		}
		f.keep(client, server)
		pair(n, client, server)
	}
}

func (f *forwarder) keep(all ...io.Closer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conns = append(f.conns, all...)
}

func (f *forwarder) close() {
	_ = f.ln.Close()
	f.mu.Lock()
	for _, c := range f.conns {
		_ = c.Close()
	}
	f.mu.Unlock()
	f.wg.Wait()
}

// proxy cuts its connections after limit bytes in either direction together, or,
// with stall, stops forwarding and keeps them open.
type proxy struct {
	forwarder
	limit  int64
	stall  bool
	passed atomic.Int64
	cut    atomic.Pointer[time.Time] // when it first did, nil before
}

func startProxy(t *testing.T, target netip.AddrPort, limit int64, stall bool) (*proxy, netip.AddrPort) {
	t.Helper()
	p := &proxy{limit: limit, stall: stall}
	return p, p.listen(t, target, func(_ int, client, server net.Conn) {
		p.wg.Go(func() { p.forward(client, server) })
		p.wg.Go(func() { p.forward(server, client) })
	})
}

func (p *proxy) forward(from, to net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			_ = to.(*net.TCPConn).CloseWrite()
			return
		}
		now := p.passed.Add(int64(n))
		if over := now - p.limit; over > 0 {
			n = int(max(int64(n)-over, 0))
		}
		_, _ = to.Write(buf[:n]) // a closed end shows at the next Read
		if now < p.limit {
			continue
		}
		if !p.stall {
			now := time.Now()
			p.cut.CompareAndSwap(nil, &now)
			_, _ = from.Close(), to.Close()
		}
		return
	}
}

var shortSpecs = []measurement.Spec{
	{Kind: measurement.TCP, Duration: 0.05, MaxWarmup: 0.01},
	{Kind: measurement.TCP, Duration: 0.05, MaxWarmup: 0.01, Direction: measurement.Receive},
	{Kind: measurement.RR, Duration: 0.02, MaxWarmup: 0.01},
}

// bytesOf is how many bytes a test exchanges up to its START, both directions.
func bytesOf(t *testing.T, target netip.AddrPort, spec measurement.Spec) int64 {
	t.Helper()
	p, addr := startProxy(t, target, 1<<60, false)
	defer p.close()
	testID, err := session.NewID()
	testutil.OK(t, err)
	l, err := session.Connect(testContext(t), Request{ID: "cut", Spec: spec.Defaults(), Target: addr, Token: testToken}, testID, 0)
	testutil.OK(t, err)
	defer l.Conn.Abort()
	return p.passed.Load()
}

// A connection that breaks after any number of bytes (one of five, unless at
// length) ends the client's test
// with a reason, and leaves the server as it was.
func TestPeerVanishesAtEveryByte(t *testing.T) {
	target := serve(t, ServerOptions{Token: testToken})
	for _, spec := range shortSpecs {
		opening := bytesOf(t, target, spec)
		var cuts []int64
		for n := int64(0); n <= opening+protocol.HeaderBytes+1; n += int64(testutil.Repeat(5, 1)) {
			cuts = append(cuts, n)
		}
		// An rr test may be done by then.
		for n := opening + 100; n < opening+20_000 && spec.Kind == measurement.TCP; n = n*5/4 + 1 {
			cuts = append(cuts, n)
		}
		var group errgroup.Group
		group.SetLimit(8)
		for _, n := range cuts {
			group.Go(func() error {
				p, addr := startProxy(t, target, n, false)
				defer p.close()
				began := time.Now()
				_, err := Run(testContext(t), Request{ID: "cut", Spec: spec, Target: addr, Token: testToken}, nil)
				if cut := p.cut.Load(); err == nil && (cut == nil || cut.Sub(began) > spec.Duration.Duration()) {
					return nil // on a busy machine so few bytes are a whole test
				}
				if e, ok := errors.AsType[*Error](err); !ok || e.Reason != Vanished && e.Reason != TimedOut {
					t.Errorf("%s %s cut after %d bytes: %v", spec.Kind, spec.Direction, n, err)
				}
				return nil
			})
		}
		_ = group.Wait() // failures were reported
		if _, err := Run(testContext(t), Request{Spec: spec, Target: target, Token: testToken}, nil); err != nil {
			t.Errorf("after %d broken connections: %v", len(cuts), err)
		}
	}
}

// An end that stops in the middle, and stays connected, ends the test by its
// own deadline.
func TestPeerStalls(t *testing.T) {
	t.Parallel() // it waits for most of its time
	target := serve(t, ServerOptions{Token: testToken})
	var group errgroup.Group // all at once: each takes as long as its deadline
	for _, spec := range shortSpecs {
		opening := bytesOf(t, target, spec)
		for _, n := range []int64{1, opening / 2, opening + protocol.HeaderBytes, opening + protocol.HeaderBytes + 11} {
			group.Go(func() error {
				p, addr := startProxy(t, target, n, true)
				defer p.close()
				_, err := Run(testContext(t), Request{ID: "stall", Spec: spec, Target: addr, Token: testToken}, nil)
				// An end that gives up first says so, or just leaves.
				if e, ok := errors.AsType[*Error](err); !ok || e.Reason != TimedOut && e.Reason != Vanished {
					t.Errorf("%s %s stalled after %d bytes: %v", spec.Kind, spec.Direction, n, err)
				}
				return nil
			})
		}
	}
	_ = group.Wait() // failures were reported
}

// awaitDescriptors waits until no more files are open than before. A server closes
// its ends a little after the client does.
func awaitDescriptors(t *testing.T, before int) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); descriptors(t) > before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d descriptors before, %d after", before, descriptors(t))
		}
	}
}

// descriptors counts this process's open files.
func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	testutil.OK(t, err)
	return len(entries)
}

func TestNoDescriptorLeaks(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skipf("needs /proc/self/fd to count descriptors; this is %s", runtime.GOOS)
	}
	target := serve(t, ServerOptions{Token: testToken})
	round := func() {
		var wg sync.WaitGroup // all at once: what is cut may take as long as its deadline
		for _, spec := range append(shortSpecs, measurement.Spec{Kind: measurement.RR, Protocol: measurement.OverUDP, Duration: 0.02}) {
			wg.Go(func() {
				if _, err := Run(testContext(t), Request{Spec: spec, Target: target, Token: testToken}, nil); err != nil {
					t.Error(err)
				}
				after := int64(700)
				if spec.Protocol == measurement.OverUDP {
					after = 300 // later, it would look for a port that gets through to the proxy
				}
				p, addr := startProxy(t, target, after, false)
				defer p.close()
				if _, err := Run(testContext(t), Request{Spec: spec, Target: addr, Token: testToken}, nil); err == nil {
					t.Error("a test over a cut connection succeeded")
				}
				_, _ = Run(testContext(t), Request{Spec: spec, Target: target, Token: "wrong"}, nil) // an error, tested elsewhere
			})
		}
		wg.Wait()
	}
	round()
	before := descriptors(t)
	round()
	awaitDescriptors(t, before)
}

// garbage answers every connection with the same bytes.
func garbage(t *testing.T, answer []byte) netip.AddrPort {
	return testutil.Listen(t, func(c net.Conn) {
		_, _ = c.Write(answer) // the client may have gone
		_, _ = io.Copy(io.Discard, io.LimitReader(c, 1<<10))
	})
}

func TestServerTalksGarbage(t *testing.T) {
	for _, c := range []struct{ name, bytes string }{
		{"SSH", "SSH-2.0-OpenSSH_9.2p1\r\n"},
		{"HTTP", "HTTP/1.1 400 Bad Request\r\n\r\n"},
		{"another version", "\xf0hopbnc\x09"},
		{"noise after the preface", "\xf0hopbnc\x01\xff\xff\xff\xff\xff\xff\xff\xff"},
		{"the wrong frame", "\xf0hopbnc\x01\x11\x00\x00\x00\x00\x00\x00\x02{}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Run(testContext(t), Request{Spec: shortSpecs[0], Target: garbage(t, []byte(c.bytes))}, nil)
			if e, ok := errors.AsType[*Error](err); !ok || e.Reason != Protocol {
				t.Errorf("got %v, want reason protocol", err)
			}
		})
	}
}

// lyingServer is a receiver that counts only part of what reaches it.
func lyingServer(t *testing.T, report func(bins int, width time.Duration) measurement.Bins) netip.AddrPort {
	return handshaken(t, func(c net.Conn, open protocol.Open) {
		// It reads a little, whatever is sent, and says so when time is up.
		if _, err := io.CopyN(io.Discard, c, 100_000); err != nil {
			t.Errorf("lying server: %v", err)
		}
		bins, width := session.BinsOf(open.Spec)
		time.Sleep(session.Planned(open.Spec))
		if err := protocol.WriteFrame(c, protocol.TypeReceived, protocol.Received{Bins: report(bins, width)}); err != nil {
			t.Errorf("lying server: %v", err)
		}
		_, _ = io.Copy(io.Discard, c) // until the client resets
	})
}

// Goodput is what the receiver counted, however much was sent.
func TestGoodputFollowsTheReceiver(t *testing.T) {
	const perBin = 1000
	target := lyingServer(t, func(bins int, width time.Duration) measurement.Bins {
		b := measurement.Bins{Width: measurement.SecondsOf(width)}
		for range bins {
			b.Bytes = append(b.Bytes, perBin)
		}
		return b
	})
	spec := measurement.Spec{Kind: measurement.TCP, Duration: 0.2, MaxWarmup: 0.05, Flows: 3}
	out, err := Run(testContext(t), Request{Spec: spec, Target: target}, nil)
	testutil.OK(t, err)
	if got, want := out.Metrics["goodput_bits_per_second"], 3.0*perBin*8/0.01; got != want {
		t.Errorf("goodput %g bit/s, the receivers counted %g", got, want)
	}
	for _, f := range out.Flows {
		if f.SentBytes <= f.ReceivedBytes {
			t.Errorf("sent %d, received %d: the test did not send more than was counted", f.SentBytes, f.ReceivedBytes)
		}
	}
}

// A count that cannot be one is refused.
func TestImpossibleCounts(t *testing.T) {
	for name, report := range map[string]func(int, time.Duration) measurement.Bins{
		"none":     func(int, time.Duration) measurement.Bins { return measurement.Bins{} },
		"too few":  func(n int, w time.Duration) measurement.Bins { return binsLike(n-1, w, 1) },
		"too many": func(n int, w time.Duration) measurement.Bins { return binsLike(n+1, w, 1) },
		"negative": func(n int, w time.Duration) measurement.Bins { return binsLike(n, w, -1) },
		"huge":     func(n int, w time.Duration) measurement.Bins { return binsLike(n, w, 1e300) },
		"narrow":   func(n int, w time.Duration) measurement.Bins { return binsLike(n, w/10, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Run(testContext(t), Request{Spec: shortSpecs[0], Target: lyingServer(t, report)}, nil)
			if e, ok := errors.AsType[*Error](err); !ok || e.Reason != Protocol {
				t.Errorf("got %v, want reason protocol", err)
			}
		})
	}
}

func binsLike(n int, width time.Duration, value float64) measurement.Bins {
	b := measurement.Bins{Width: measurement.SecondsOf(width), Bytes: make([]float64, n)}
	for i := range b.Bytes {
		b.Bytes[i] = value
	}
	return b
}
