package probe

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/iperf3"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/printable"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
)

// connection is one that was accepted; order is its place among them.
type connection struct {
	*net.TCPConn
	guard *guard
	guest *admission.Guest
	order uint64
	log   *slog.Logger
}

// serveConn does one connection's part of a test. Whatever goes wrong in it, also a
// panic, ends this connection alone.
func (s *Server) serveConn(c *connection) {
	c.guard.until(time.Now().Add(handshakeTimeout))
	c.log = s.log.With("client", c.RemoteAddr().String())
	s.conclude(c, admission.Contain(func() error {
		open, err := s.converse(c)
		if open == nil {
			return err
		}
		return s.serveTest(open)
	}))
}

// conclude closes a connection and says what became of it.
func (s *Server) conclude(c *connection, err error) {
	log := c.log
	said := func() string { return printable.Line(err.Error(), longestError) }
	if err := ignoreClosed(c.Close()); err != nil {
		log.Info("close", "error", err)
	}
	if why := c.guard.halted(); why != nil && isLost(err) {
		err = why
	}
	panicked, ok := errors.AsType[*admission.Panic](err)
	switch {
	case ok:
		s.counts.refuse("panic")
		log.Error("connection failed", "error", said(), "stack", string(panicked.Stack))
	case err == nil || errors.Is(err, io.EOF):
	case isLost(err):
		log.Info("client vanished", "error", said())
	default:
		s.counts.refuse(refusedFor(err))
		log.Warn("connection failed", "error", said())
	}
}

// longestError bounds what a connection leaves in the log, in characters.
const longestError = 500

// converse finds out what a client speaks and wants: its part of a native test, or
// nil where there is none or it is done.
func (s *Server) converse(c *connection) (*opened, error) {
	first, err := firstByte(c.TCPConn)
	if err != nil {
		return nil, err
	}
	if iperf3.BeginsCookie(first) {
		return nil, s.serveIPerf3(c, first)
	}
	open := &opened{conn: c}
	err = aside(func() (err error) {
		open.id, open.Open, err = s.greet(c, first)
		return err
	})
	if err != nil {
		return nil, err
	}
	c.log = c.log.With("test", open.id.Test, "flow", open.id.Flow)
	return open, nil
}

// firstByte reads the byte that tells which protocol a client speaks. It
// begins the time in which the client has to say what it wants.
func firstByte(c *net.TCPConn) (byte, error) {
	if err := c.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return 0, err
	}
	var b [1]byte
	_, err := io.ReadFull(c, b[:])
	return b[0], err
}

// greet takes a connection, whose first byte was read, to its OPEN frame.
func (s *Server) greet(c *connection, first byte) (protocol.Identity, protocol.Open, error) {
	var open protocol.Open
	if err := protocol.ReadPreface(io.MultiReader(bytes.NewReader([]byte{first}), c)); err != nil {
		if errors.Is(err, protocol.ErrTransaction) {
			return protocol.Identity{}, open, s.serveTransaction(c)
		}
		var version *protocol.VersionError
		if errors.As(err, &version) {
			// The preface tells the client this server's version.
			err = errors.Join(err, protocol.WritePreface(c))
		}
		return protocol.Identity{}, open, err
	}
	id, err := protocol.ServerHandshake(c, s.opts.Token)
	if err != nil {
		return id, open, err
	}
	if err := protocol.Expect(c, protocol.TypeOpen, protocol.MaxOpen, &open); err != nil {
		return id, open, err
	}
	if err := s.allow(open.Spec, id.Flow); err != nil {
		return id, open, errors.Join(err, protocol.WriteFrame(c, protocol.TypeError, errorFrame(err)))
	}
	return id, open, nil
}

// allow is the one place that decides from a spec what a client may ask, whatever
// others are doing. Its error is ready to be sent.
func (s *Server) allow(spec measurement.Spec, flow int) error {
	if err := checkSpec(spec); err != nil {
		return refusal(Protocol, "%v", err)
	}
	if spec.Tool != measurement.Native || !served(spec.Kind) {
		return refusal(Unsupported, "a server takes no part in a test of kind %q", spec.Kind)
	}
	if total := s.lengthOf(spec); total > s.opts.MaxDuration {
		return refusal(Limit, "a test of %v is longer than this server allows (%v; --max-duration)", total, s.opts.MaxDuration)
	}
	if spec.Flows > s.opts.MaxFlows || flow < 0 || flow >= connections(spec) {
		return refusal(Limit, "flow %d of %d: this server allows %d flows in one test (--max-flows)", flow+1, spec.Flows, s.opts.MaxFlows)
	}
	if asked, limit := askedRate(spec), s.opts.MaxRateBitsPerSecond; limit > 0 && asked > limit {
		return refusal(Limit, "%s are more than this server allows in one test (%s; --max-rate)", bitRate(asked), bitRate(limit))
	}
	return nil
}

// served says whether a server takes part in tests of a kind.
func served(kind measurement.Kind) bool {
	switch kind {
	case measurement.TCP, measurement.UDP, measurement.PPS, measurement.RR, measurement.CRR, measurement.FTP, measurement.MTU:
		return true
	}
	return false
}

// serveTest joins the test and hands over to its kind. While the connection
// waits for START it has no thread and, as long as what is above that wait
// keeps to small frames, only a small stack.
func (s *Server) serveTest(open *opened) (err error) {
	c := open.conn
	var ready *protocol.Ready
	err = aside(func() (err error) {
		ready, err = s.join(open)
		return err
	})
	if err != nil {
		return err
	}
	t := open.session
	c.guest.Leave()
	t.announce.Do(func() { s.tell(TestEvent{Client: t.key.client, Spec: t.spec}) })
	defer func() {
		s.blame(t, err)
		s.leave(t, open.id.Flow, c.guard)
	}()
	if t.spec.Direction == measurement.Receive && (t.spec.Kind == measurement.UDP || t.spec.Kind == measurement.PPS) {
		if err := c.SetKeepAliveConfig(vanishing); err != nil {
			s.log.Info("watch for a vanishing client", "error", err)
		}
	}
	conn, err := sockets.Attach(c.TCPConn)
	if err != nil { // no descriptor, say: the client is told on the one there is
		return errors.Join(err, protocol.WriteFrame(c, protocol.TypeError, errorFrame(err)))
	}
	c.guard.hold(conn.Interrupt)
	defer func() {
		c.guard.hold(nil)
		if err := conn.Close(); err != nil {
			s.log.Info("close", "error", err)
		}
	}()
	release := func() {}
	defer func() { release() }()

	w := &wire{Conn: conn, guard: c.guard}
	w.until(time.Now().Add(handshakeTimeout))
	w.began = func() (err error) {
		t.meter.watch(s.opts.MaxRateBitsPerSecond, leastOf(t.spec), func(err error) { s.halt(t, err) })
		release, err = takeThread(w, open)
		return err
	}
	var sends bool
	err = aside(func() (err error) {
		ready.ReceivedTTL, w.untilStart = conn.ReceivedTTL(), connectTime(open.Spec)
		sends, err = open.prepare(conn, s.opts.MaxRateBitsPerSecond)
		ready.MSS = conn.MSS()
		return err
	})
	if err == nil {
		err = s.serveKind(w, open, sends, ready)
	}
	if why := c.guard.halted(); why != nil && err != nil {
		err = why
	}
	return refuse(w, err)
}

// join enters the test, or tells the client why not.
func (s *Server) join(open *opened) (*protocol.Ready, error) {
	c := open.conn
	client := c.RemoteAddr().(*net.TCPAddr).AddrPort()
	p, err := placeEnds(open.Open)
	if err != nil {
		return nil, errors.Join(err, protocol.WriteFrame(c, protocol.TypeError, errorFrame(err)))
	}
	open.cpus = p.destination
	t, err := s.enter(c.guard, open.id, client.Addr(), open.Spec)
	if err != nil {
		return nil, errors.Join(err, protocol.WriteFrame(c, protocol.TypeError, errorFrame(err)))
	}
	open.session = t
	return &protocol.Ready{
		Client: netip.AddrPortFrom(client.Addr().Unmap(), client.Port()).String(),
		Server: unmapped(c.LocalAddr()), Cookie: t.cookie[:],
		Placement: p.name, CPUs: p.source,
		MaxRateBitsPerSecond: s.opts.MaxRateBitsPerSecond,
	}, nil
}

// halt ends every connection of a test with an error, which its client is told.
func (s *Server) halt(t *session, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for g := range t.guards {
		g.halt(err)
	}
}

// refuse sends the other end an error that ended its connection, and returns it.
func refuse(w *wire, err error) error {
	if err == nil || isLost(err) {
		return err
	}
	return errors.Join(err, protocol.WriteFrame(w, protocol.TypeError, errorFrame(err)))
}

// opened is one connection of a test at the server.
type opened struct {
	protocol.Open
	id      protocol.Identity
	conn    *connection
	session *session
	cpus    []int // that the threads of this end keep to; nil for all
}

// takeThread gives the calling goroutine, which is about to transfer on a
// connection, a thread of its own until the returned function is called, if its
// kind of test is to have one and this test got them.
func takeThread(w *wire, o *opened) (release func(), err error) {
	release = func() {}
	switch {
	case o.Spec.Kind == measurement.RR && o.Spec.Protocol == measurement.OverTCP:
		return release, w.Detach() // who answers locks its own thread
	case o.Spec.Kind == measurement.RR, o.Spec.Kind == measurement.CRR, o.Spec.Kind == measurement.FTP:
		return release, nil // it waits for the end
	case sharesPoller(o.Spec), !o.session.threaded:
		return release, nil
	}
	return sockets.Lock(), w.Detach()
}

func unmapped(a net.Addr) string {
	if tcp, ok := a.(*net.TCPAddr); ok {
		ap := tcp.AddrPort()
		return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port()).String()
	}
	return a.String()
}

// isLost says that nobody is left to tell about an error.
func isLost(err error) bool { return reasonOf(err) == Vanished }

func errorFrame(err error) *protocol.RemoteError {
	if remote := new(protocol.RemoteError); errors.As(err, &remote) {
		return remote
	}
	return &protocol.RemoteError{Reason: string(reasonOf(err)), Message: err.Error()}
}

// prepare does what the client's dialler does for its end before it connects.
// It says whether this end sends.
func (o *opened) prepare(conn *sockets.Conn, maxRate float64) (sends bool, err error) {
	sends = !clientSends(o.Spec, o.id.Flow)
	err = conn.SetOptions(optionsOf(o.Spec, sends))
	if err == nil && o.Spec.Kind == measurement.TCP {
		err = prepare(conn, paced(o.Spec, maxRate), sends)
	}
	if err != nil {
		return sends, &protocol.RemoteError{Reason: string(Unsupported), Message: err.Error()}
	}
	return sends, nil
}

func (s *Server) serveKind(w *wire, open *opened, sends bool, ready *protocol.Ready) error {
	if open.Spec.Kind == measurement.TCP {
		return s.serveStream(w, open, sends, ready)
	}
	return s.serveSingle(w, open, ready)
}

// serveSingle does a test of the other kinds.
func (s *Server) serveSingle(w *wire, open *opened, ready *protocol.Ready) error {
	switch open.Spec.Kind {
	case measurement.UDP, measurement.PPS:
		return s.servePackets(w, open, ready)
	case measurement.RR:
		return s.serveRR(w, open, ready)
	case measurement.CRR:
		return s.serveCRR(w, open, ready)
	case measurement.FTP:
		return s.serveFTP(w, open, ready)
	}
	return s.serveMTU(w, open, ready)
}

// startTimeout is how long a prepared connection waits for START, and
// startTimePerFlow how much longer for each connection of the test: the client
// opens them all before it starts any.
const (
	startTimeout     = 15 * time.Second
	startTimePerFlow = 5 * time.Millisecond
)

// awaitStart sends READY and waits for START, for as long as the client may
// need to connect its other flows. It returns when the test began.
func awaitStart(w *wire, ready *protocol.Ready) (time.Time, error) {
	w.until(time.Now().Add(max(w.untilStart, startTimeout)))
	if err := aside(func() error { return protocol.WriteFrame(w, protocol.TypeReady, ready) }); err != nil {
		return time.Time{}, err
	}
	if err := protocol.Expect(w, protocol.TypeStart, protocol.Empty, nil); err != nil {
		return time.Time{}, err
	}
	start := time.Now()
	if w.began != nil {
		return start, w.began()
	}
	return start, nil
}
