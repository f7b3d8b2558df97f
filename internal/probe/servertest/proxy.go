package servertest

import (
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/testutil"
)

// Forwarder stands between clients and a server on TCP.
type Forwarder struct {
	ln     net.Listener
	target netip.AddrPort
	wg     sync.WaitGroup
	mu     sync.Mutex
	conns  []io.Closer
}

// Listen begins to accept; pair gets the two ends of each connection and its number.
func (f *Forwarder) Listen(t *testing.T, target netip.AddrPort, pair func(n int, client, server net.Conn)) netip.AddrPort {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.OK(t, err)
	return f.ListenOn(ln, target, pair)
}

// ListenOn begins to accept from ln.
func (f *Forwarder) ListenOn(ln net.Listener, target netip.AddrPort, pair func(n int, client, server net.Conn)) netip.AddrPort {
	f.ln, f.target = ln, target
	f.Go(func() { f.accept(pair) })
	return ln.Addr().(*net.TCPAddr).AddrPort()
}

func (f *Forwarder) accept(pair func(n int, client, server net.Conn)) {
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
		f.Keep(client, server)
		pair(n, client, server)
	}
}

// Keep makes Close close these, too.
func (f *Forwarder) Keep(all ...io.Closer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conns = append(f.conns, all...)
}

// Go runs what forwards in a goroutine that Close waits for.
func (f *Forwarder) Go(forward func()) { f.wg.Go(forward) }

// Close ends every connection and all that forwards.
func (f *Forwarder) Close() {
	_ = f.ln.Close()
	f.mu.Lock()
	for _, c := range f.conns {
		_ = c.Close()
	}
	f.mu.Unlock()
	f.wg.Wait()
}

// Proxy cuts its connections after so many bytes in either direction together, or
// stops forwarding and keeps them open.
type Proxy struct {
	Forwarder
	limit  int64
	stall  bool
	passed atomic.Int64
	cut    atomic.Pointer[time.Time]
}

// StartProxy forwards limit bytes, and then cuts or, with stall, forwards no more.
func StartProxy(t *testing.T, target netip.AddrPort, limit int64, stall bool) (*Proxy, netip.AddrPort) {
	t.Helper()
	p := &Proxy{limit: limit, stall: stall}
	return p, p.Listen(t, target, func(_ int, client, server net.Conn) {
		p.Go(func() { p.forward(client, server) })
		p.Go(func() { p.forward(server, client) })
	})
}

// Cut is when it first cut a connection, nil before.
func (p *Proxy) Cut() *time.Time { return p.cut.Load() }

func (p *Proxy) forward(from, to net.Conn) {
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

// BytesOf is how many bytes a test exchanges up to its START, both directions.
func BytesOf(t *testing.T, target netip.AddrPort, spec measurement.Spec) int64 {
	t.Helper()
	p, addr := StartProxy(t, target, 1<<60, false)
	defer p.Close()
	l, err := session.ConnectSingle(Context(t), probe.Request{ID: "cut", Spec: spec.Defaults(), Target: addr, Token: Token})
	testutil.OK(t, err)
	defer l.Conn.Abort()
	return p.passed.Load()
}
