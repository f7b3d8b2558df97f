package crr

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
	"github.com/hopbench/hopbench/internal/thread"
)

// server is a server's end of all crr tests.
type server struct {
	env session.ServerEnv
	// zeros are the payload of every response; nobody writes to them.
	zeros []byte
	// transacting counts the tests in progress.
	transacting atomic.Int32
	// answerCPUs, unless nil, is what the thread that answers transactions keeps to.
	answerCPUs atomic.Pointer[[]int]
}

// transactions are those of one test.
type transactions struct {
	// answered counts them, slow those in progress that the accepting thread could not
	// answer.
	answered, slow atomic.Int64
}

// Begin has each transaction find its test: it may reach another server than the
// control connection did, which must know the cookie.
func (s *server) Begin(t *session.Test) (end func() error) {
	n := &transactions{}
	t.State, t.Cookie = n, protocol.TransactionCookie(s.env.Token, t.ID)
	size := int64(t.Spec.RequestBytes + t.Spec.ResponseBytes)
	counted := t.Meter.Add(true, func() int64 { return n.answered.Load() * size })
	return func() error { counted(); return nil }
}

// Serve is the server's end of a crr test's control connection. The
// transactions come on connections of their own, see wrap.
func (s *server) Serve(w *session.ControlConn, open *session.Flow, ready *protocol.Ready) error {
	s.transacting.Add(1)
	defer s.transacting.Add(-1)
	start, err := w.AwaitStart(ready, session.Planned(open.Test.Spec)+session.Grace)
	if err != nil {
		return err
	}
	if open.CPUs != nil {
		s.answerCPUs.Store(&open.CPUs)
		defer s.answerCPUs.CompareAndSwap(&open.CPUs, nil)
	}
	host := open.SampleHost(start)
	defer host.End()
	if err := protocol.Expect(w, protocol.TypeReceived, protocol.Empty, nil); err != nil {
		return err
	}
	report := protocol.Report{Answered: open.Test.State.(*transactions).answered.Load(), Host: host.Result()}
	if err := protocol.WriteFrame(w, protocol.TypeReport, report); err != nil {
		return err
	}
	return w.CloseWrite()
}

// transaction returns the crr test to which a connection from an address with
// a cookie belongs, nil if none.
func (s *server) transaction(cookie [protocol.CookieBytes]byte, from netip.Addr) (*session.Test, *transactions) {
	if t := s.env.Find(cookie, from); t != nil && t.Spec.Kind == measurement.CRR {
		return t, t.State.(*transactions)
	}
	return nil, nil
}

// ServeTransaction answers a transaction whose first byte was read. Connections
// come here that the accepting thread could not answer at once: a request in
// several packets, a large one or a large response, or another system than Linux.
func (s *server) ServeTransaction(c *net.TCPConn) error {
	cookie, err := protocol.ReadCookie(c)
	if err != nil {
		return err
	}
	from := c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr()
	t, counts := s.transaction(cookie, from)
	if t == nil {
		return fmt.Errorf("%w: a transaction of no crr test in progress", protocol.ErrMalformed)
	}
	// Those of a client in step are as many as its test asked for; a client that has
	// given one up opens the next before this end has noticed.
	defer counts.slow.Add(-1)
	if n := counts.slow.Add(1); n > 2*int64(t.Spec.Flows) {
		return fmt.Errorf("%w: more than %d transactions at a time in a test of %d", protocol.ErrMalformed, n-1, t.Spec.Flows)
	}
	if _, err := io.CopyN(io.Discard, c, int64(t.Spec.RequestBytes)); err != nil {
		return err
	}
	// Where the system cannot, they are not marked.
	if err := mark(c, from, t.Spec.DSCP); err != nil && !errors.Is(err, sockets.ErrUnsupported) {
		return err
	}
	if _, err := c.Write(s.zeros[:t.Spec.ResponseBytes]); err != nil {
		return err
	}
	counts.answered.Add(1)
	return io.EOF // as it should: this end closes first
}

// mark marks what a connection sends to an address from now on.
func mark(c *net.TCPConn, to netip.Addr, dscp int) error {
	if dscp == 0 {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	network := "tcp4" // which mapped addresses are, too
	if to.Unmap().Is6() {
		network = "tcp6"
	}
	return sockets.Options{DSCP: dscp}.Control(network, to.String(), raw)
}

const (
	// inlineRequest and inlineResponse are the largest that the accepting
	// thread takes and sends without any danger of having to wait.
	inlineRequest  = measurement.MaxAnsweredAtOnce
	inlineResponse = measurement.MaxAnsweredAtOnce
)

// Wrap returns a listener in place of ln, which it takes over or closes:
// its Accept answers the transactions of crr tests by itself, one after the
// other, and returns the other connections.
func (s *server) Wrap(ln net.Listener) (net.Listener, error) {
	tcp, ok := ln.(*net.TCPListener)
	if !ok {
		return ln, nil
	}
	a, err := sockets.NewAcceptor(tcp)
	if err != nil {
		return nil, err
	}
	return &answerer{
		Acceptor: a, s: s,
		in:  make([]byte, protocol.TransactionBytes+inlineRequest),
		out: make([]byte, inlineResponse),
	}, nil
}

// answerer is a listener that answers transactions.
type answerer struct {
	*sockets.Acceptor
	s         *server
	in, out   []byte
	accepting sync.Mutex // is held as long as the socket is used
	// waiting, if any does, was accepted and waits for one more descriptor.
	waiting    sockets.Incoming
	anyWaiting bool
}

func (a *answerer) Accept() (net.Conn, error) {
	a.accepting.Lock()
	defer a.accepting.Unlock()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var cpus *[]int // that this thread keeps to
	unpin := func() {}
	defer func() { unpin() }()
	for {
		// After the last test the thread may keep to its CPUs until the next connection:
		// accept(2) of an MPTCP socket, which Go's listeners are, has no timeout.
		expected := a.s.transacting.Load() > 0
		if now := a.s.answerCPUs.Load(); now != cpus {
			unpin()
			unpin, cpus = a.keepTo(now), now
		}
		if a.anyWaiting {
			c, err := a.waiting.Conn()
			if sockets.OutOfDescriptors(err) && !a.s.env.Closing() {
				return nil, err
			}
			a.anyWaiting = false
			if err == nil {
				return c, nil
			}
			a.waiting.Close()
			// It concerns this one client, who may be gone already.
			a.s.env.Log.Info("connection lost on being accepted", "client", a.waiting.From, "error", err)
		}
		a.Expect(expected)
		incoming, err := a.Acceptor.Accept()
		switch {
		case errors.Is(err, sockets.ErrTick):
		case errors.Is(err, net.ErrClosed):
			return nil, errors.Join(err, a.Acceptor.Close())
		case err != nil:
			return nil, err
		case expected && a.answer(incoming):
		default:
			a.waiting, a.anyWaiting = incoming, true
		}
	}
}

// keepTo keeps the calling thread to some CPUs, nil for all.
func (a *answerer) keepTo(cpus *[]int) (unpin func()) {
	if cpus == nil {
		return func() {}
	}
	unpin, err := thread.Pin(*cpus)
	if err != nil { // they have gone since the test began
		a.s.env.Log.Warn("keep the thread that answers transactions on its CPUs", "cpus", *cpus, "error", err)
		return func() {}
	}
	return unpin
}

// Close makes Accept, which closes the socket, return; without one in progress
// it closes it itself.
func (a *answerer) Close() error {
	a.Shutdown()
	if !a.accepting.TryLock() {
		return nil
	}
	defer a.accepting.Unlock()
	return a.Acceptor.Close()
}

// answer says whether it has answered a connection or closed it.
func (a *answerer) answer(in sockets.Incoming) bool {
	n := in.Peek(a.in)
	cookie, ok := protocol.ParseTransaction(a.in[:n])
	if !ok {
		return false
	}
	t, counts := a.s.transaction(cookie, in.From)
	if t == nil || a.s.env.Closing() {
		in.Close()
		return true
	}
	request := protocol.TransactionBytes + t.Spec.RequestBytes
	if n < request || t.Spec.ResponseBytes > len(a.out) {
		return false
	}
	if in.Answer(a.in[:request], a.out[:t.Spec.ResponseBytes], t.Spec.DSCP) {
		counts.answered.Add(1)
	}
	return true
}
