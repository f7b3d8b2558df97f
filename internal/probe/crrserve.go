package probe

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"sync"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
)

// serveCRR is the server's end of a crr test's control connection. The
// transactions come on connections of their own, see answering.
func (s *Server) serveCRR(w *wire, open *opened, ready *protocol.Ready) error {
	t := open.session
	s.transacting.Add(1)
	defer s.transacting.Add(-1)
	start, err := awaitStart(w, ready)
	if err != nil {
		return err
	}
	w.until(start.Add(planned(open.Spec) + grace))
	if open.cpus != nil {
		s.answerCPUs.Store(&open.cpus)
		defer s.answerCPUs.CompareAndSwap(&open.cpus, nil)
	}
	host := s.startHost(open, start)
	defer host.end()
	if err := protocol.Expect(w, protocol.TypeReceived, protocol.Empty, nil); err != nil {
		return err
	}
	report := protocol.Report{Answered: t.transactions.Load(), Host: host.result()}
	if err := protocol.WriteFrame(w, protocol.TypeReport, report); err != nil {
		return err
	}
	return w.CloseWrite()
}

// transaction returns the crr test to which a connection from an address with
// a cookie belongs, nil if none.
func (s *Server) transaction(cookie [protocol.CookieBytes]byte, from netip.Addr) *session {
	if t := s.sessionOf(cookie[:], from); t != nil && t.spec.Kind == measurement.CRR {
		return t
	}
	return nil
}

// serveTransaction answers a transaction whose first byte was read. Connections
// come here that the accepting thread could not answer at once: a request in
// several packets, a large one or a large response, or another system than Linux.
func (s *Server) serveTransaction(c *connection) error {
	cookie, err := protocol.ReadCookie(c)
	if err != nil {
		return err
	}
	t := s.transaction(cookie, c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr())
	if t == nil {
		return fmt.Errorf("%w: a transaction of no crr test in progress", protocol.ErrMalformed)
	}
	// Those of a client in step are as many as its test asked for; a client that has
	// given one up opens the next before this end has noticed.
	defer t.slow.Add(-1)
	if n := t.slow.Add(1); n > 2*int64(t.spec.Flows) {
		return fmt.Errorf("%w: more than %d transactions at a time in a test of %d", protocol.ErrMalformed, n-1, t.spec.Flows)
	}
	if _, err := io.CopyN(io.Discard, c, int64(t.spec.RequestBytes)); err != nil {
		return err
	}
	if _, err := c.Write(s.zeros[:t.spec.ResponseBytes]); err != nil {
		return err
	}
	t.transactions.Add(1)
	return io.EOF // as it should: this end closes first
}

const (
	// inlineRequest and inlineResponse are the largest that the accepting
	// thread takes and sends without any danger of having to wait.
	inlineRequest  = measurement.MaxAnsweredAtOnce
	inlineResponse = measurement.MaxAnsweredAtOnce
)

// answering returns a listener in place of ln, which it takes over or closes:
// its Accept answers the transactions of crr tests by itself, one after the
// other, and returns the other connections.
func (s *Server) answering(ln net.Listener) (net.Listener, error) {
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
	s         *Server
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
			if sockets.OutOfDescriptors(err) && !a.s.isClosing() {
				return nil, err
			}
			a.anyWaiting = false
			if err == nil {
				return c, nil
			}
			a.waiting.Close()
			// It concerns this one client, who may be gone already.
			a.s.log.Info("connection lost on being accepted", "client", a.waiting.From, "error", err)
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
	unpin, err := sockets.Pin(*cpus)
	if err != nil { // they have gone since the test began
		a.s.log.Warn("keep the thread that answers transactions on its CPUs", "cpus", *cpus, "error", err)
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
	t := a.s.transaction(cookie, in.From)
	if t == nil || a.s.isClosing() {
		in.Close()
		return true
	}
	request := protocol.TransactionBytes + t.spec.RequestBytes
	if n < request || t.spec.ResponseBytes > len(a.out) {
		return false
	}
	if in.Answer(a.in[:request], a.out[:t.spec.ResponseBytes], t.spec.DSCP) {
		t.transactions.Add(1)
	}
	return true
}

func (s *Server) isClosing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing
}
