package iperf3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/sockets"
)

const (
	// cookieTimeout bounds the first message of a connection.
	cookieTimeout = 5 * time.Second
	// messageTimeout bounds every message that the client owes.
	messageTimeout = 10 * time.Second
	// streamsTimeout bounds the time in which the client opens its streams.
	streamsTimeout = 15 * time.Second
	// turnTimeout is how long a client waits for its turn.
	turnTimeout = time.Minute
	// endTimeout is how long after its planned end a test may still end itself.
	endTimeout = 10 * time.Second
	// terminateWait is how long after it was told that the server ends a client may stay.
	terminateWait = 500 * time.Millisecond
	// idleTimeout ends a test in which less than leastRate moves, in bytes per second,
	// or a part of what its client asked for where that is less.
	idleTimeout = 2 * time.Minute
	leastRate   = 1000
	ratePart    = 16
	// Grace is how long a connection may last beyond MaxDuration: the times above
	// together.
	Grace = 2*turnTimeout + 2*streamsTimeout + 8*messageTimeout
)

// Options configure a Server.
type Options struct {
	// Denied says why a client is not served, nothing for one that is.
	Denied func(client netip.Addr) string

	// Budget is what tests take from while they last. Those that it has nothing left
	// for wait for their turn.
	Budget *admission.Budget

	MaxStreams  int // of one test, in each direction
	MaxDuration time.Duration
	// MaxRate of a test, all streams together, in bit/s; 0 does not bound it.
	MaxRate float64

	// LacksUDP is why there is none here, nil where there is.
	LacksUDP func() error

	// OnTest is told of the beginning and the end of each test, from several
	// goroutines at a time.
	OnTest func(Event)

	// Count is told of each stream, which has moved so many bytes of payload so far,
	// until what it returns is called.
	Count func(client netip.Addr, sends bool, moved func() int64) (done func())

	// Log gets a line per refused or failed test, and at debug level one per
	// finished test.
	Log *slog.Logger
}

// Server is the far end of iperf3 tests: of any number at a time, each known by
// its cookie.
type Server struct {
	opts    Options
	log     *slog.Logger
	payload *sockets.Payload
	ending  atomic.Bool

	mu       sync.Mutex
	sessions map[cookie]*session
	gates    map[netip.Addr]*gate
}

// gate lets one test at a time open UDP streams from an address: a datagram
// names no test, so its address must.
type gate struct {
	waits  int // tests that hold it or want it
	holder *session
	free   chan struct{} // closed, and made anew, when the holder leaves
}

// NewServer returns a server. Its limits must be positive.
func NewServer(o Options) *Server {
	return &Server{
		opts: o, log: o.Log,
		payload:  sockets.NewPayload(),
		sessions: map[cookie]*session{},
		gates:    map[netip.Addr]*gate{},
	}
}

// Conn is a connection of an iperf3 client whose first byte was read.
type Conn struct {
	*net.TCPConn
	First byte
	// Order numbers connections as they were accepted, because streams have no other
	// order.
	Order uint64
	// Hold is told what ends the connection from outside, Settle that it is part of a
	// test that the budget knows.
	Hold   func(stop func())
	Settle func()
}

// Drain has the server begin no more tests.
func (s *Server) Drain() { s.ending.Store(true) }

// ServeConn serves one connection until its test has ended; it closes c. The error is
// why the client was refused or its test failed; it is logged already unless it is an
// *admission.Panic.
func (s *Server) ServeConn(c *Conn) error {
	log := s.log.With("client", c.RemoteAddr().String())
	defer func() {
		if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			log.Info("close", "error", err)
		}
	}()
	id, err := readCookie(c.TCPConn, c.First)
	if err != nil {
		log.Warn("iperf3 client refused", "error", err)
		return err
	}
	client := admission.Address(c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr())
	if why := s.opts.Denied(client); why != "" {
		err := newSession(s, id, c, log).refuseAfterParams(why)
		log.Warn("iperf3 client refused", "error", err)
		return err
	}
	t, known := s.sessionOf(id, c, log)
	if known {
		if err = t.join(c); err != nil {
			log.Warn("iperf3 stream refused", "error", err)
			s.deny(c.TCPConn)
		}
		return err
	}
	defer s.forget(t)
	if err = admission.Contain(t.serve); err != nil {
		log.Warn("iperf3 test failed", "error", err)
	}
	return err
}

func readCookie(c *net.TCPConn, first byte) (cookie, error) {
	if err := c.SetDeadline(time.Now().Add(cookieTimeout)); err != nil {
		return cookie{}, err
	}
	var b [cookieBytes]byte
	b[0] = first
	if _, err := io.ReadFull(c, b[1:]); err != nil {
		return cookie{}, fmt.Errorf("read the cookie: %w", err)
	}
	return parseCookie(b[:])
}

// deny has an iperf3 client say that the server is busy: the protocol has no
// other way to refuse before the parameters.
func (s *Server) deny(c *net.TCPConn) {
	// Who waited for a turn is past the time for the cookie.
	err := c.SetWriteDeadline(time.Now().Add(messageTimeout))
	if err == nil {
		err = writeState(c, accessDenied)
	}
	if err != nil {
		s.log.Info("deny", "error", err)
	}
}

// sessionOf finds the test of a cookie, or begins it with c as its control
// connection.
func (s *Server) sessionOf(id cookie, c *Conn, log *slog.Logger) (t *session, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.sessions[id]; t != nil {
		return t, true
	}
	t = newSession(s, id, c, log)
	s.sessions[id] = t
	return t, false
}

func (s *Server) forget(t *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, t.cookie)
}

// Datagram takes a packet that came to the listening UDP socket. It does not
// block; what is no hello, or belongs to no test that waits for a stream, is
// dropped without an answer.
func (s *Server) Datagram(from netip.AddrPort, packet []byte) {
	if !isHello(packet) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.gates[admission.Address(from.Addr())]; g != nil && g.holder != nil {
		select {
		case g.holder.hellos <- hello{from: netip.AddrPortFrom(from.Addr().Unmap(), from.Port()), word: [4]byte(packet)}:
		default: // more than the test has streams
		}
	}
}

// enter waits for t's turn among the tests of its address, and returns what
// ends it.
func (s *Server) enter(t *session) (leave func(), err error) {
	address := admission.Address(t.client.Addr())
	s.mu.Lock()
	g := s.gates[address]
	if g == nil {
		g = &gate{free: make(chan struct{})}
		s.gates[address] = g
	}
	g.waits++
	s.mu.Unlock()
	leave = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if g.holder == t {
			g.holder = nil
			close(g.free)
			g.free = make(chan struct{})
		}
		if g.waits--; g.waits == 0 {
			delete(s.gates, address)
		}
	}
	err = t.await(func() (again <-chan struct{}, err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if g.holder != nil {
			return g.free, nil
		}
		g.holder = t
		return nil, nil
	})
	if err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// connect makes the socket of a UDP stream, on the port that the control
// connection came to.
func (s *Server) connect(ctx context.Context, local, remote netip.AddrPort, o options) (*net.UDPConn, error) {
	c, err := sockets.ConnectUDP(ctx, local, remote)
	if err != nil {
		return nil, err
	}
	raw, err := c.SyscallConn()
	if err == nil {
		err = o.apply(raw)
	}
	if err == nil {
		err = s.sweep(c, remote)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// sweep empties a socket of what came between its being bound and connected.
// The client sends nothing before it has its answer, so none of it belongs to
// the test; a hello of another client is handed on.
func (s *Server) sweep(c *net.UDPConn, remote netip.AddrPort) error {
	var buf [64]byte
	for range 1000 {
		if err := c.SetReadDeadline(time.Now().Add(200 * time.Microsecond)); err != nil {
			return err
		}
		n, from, err := c.ReadFromUDPAddrPort(buf[:])
		if err != nil {
			break
		}
		if from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port()); from != remote {
			s.Datagram(from, buf[:n])
		}
	}
	return c.SetReadDeadline(time.Time{})
}
