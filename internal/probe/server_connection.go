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
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/printable"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
)

// connection is one that was accepted; order is its place among them.
type connection struct {
	*net.TCPConn
	guard *session.Guard
	guest *admission.Guest
	order uint64
	log   *slog.Logger
}

// serveConn does one connection's part of a test. Whatever goes wrong in it, also a
// panic, ends this connection alone.
func (s *Server) serveConn(c *connection) {
	c.guard.Until(time.Now().Add(session.HandshakeTimeout))
	c.log = s.log.With("client", c.RemoteAddr().String())
	s.conclude(c, admission.Contain(func() error {
		open, err := s.converse(c)
		if open == nil {
			return err
		}
		return s.serveTest(c, open)
	}))
}

// conclude closes a connection and says what became of it.
func (s *Server) conclude(c *connection, err error) {
	log := c.log
	said := func() string { return printable.Line(err.Error(), longestError) }
	if err := session.IgnoreClosed(c.Close()); err != nil {
		log.Info("close", "error", err)
	}
	if why := c.guard.Halted(); why != nil && session.IsLost(err) {
		err = why
	}
	panicked, ok := errors.AsType[*admission.Panic](err)
	switch {
	case ok:
		s.counts.Refuse("panic")
		log.Error("connection failed", "error", said(), "stack", string(panicked.Stack))
	case err == nil || errors.Is(err, io.EOF):
	case session.IsLost(err):
		log.Info("client vanished", "error", said())
	default:
		s.counts.Refuse(session.RefusedFor(err))
		log.Warn("connection failed", "error", said())
	}
}

// longestError bounds what a connection leaves in the log, in characters.
const longestError = 500

// converse finds out what a client speaks and wants: its part of a native test, or
// nil where there is none or it is done.
func (s *Server) converse(c *connection) (*request, error) {
	first, err := firstByte(c.TCPConn)
	if err != nil {
		return nil, err
	}
	if first == httpFirst && s.opts.AnswerHTTP {
		return nil, s.answerHTTP(c, first)
	}
	if iperf3.BeginsCookie(first) {
		return nil, s.serveIPerf3(c, first)
	}
	open := &request{}
	err = session.OnFreshStack(func() (err error) {
		open.id, open.Open, err = s.handshake(c, first)
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
	if err := c.SetDeadline(time.Now().Add(session.HandshakeTimeout)); err != nil {
		return 0, err
	}
	var b [1]byte
	_, err := io.ReadFull(c, b[:])
	return b[0], err
}

// handshake takes a connection, whose first byte was read, to its OPEN frame.
func (s *Server) handshake(c *connection, first byte) (protocol.Identity, protocol.Open, error) {
	var open protocol.Open
	if err := protocol.ReadPreface(io.MultiReader(bytes.NewReader([]byte{first}), c)); err != nil {
		if errors.Is(err, protocol.ErrTransaction) {
			return protocol.Identity{}, open, s.transactions.ServeTransaction(c.TCPConn)
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
	if s.opts.Token != "" && s.opts.OnProven != nil {
		s.opts.OnProven(c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr())
	}
	if err := protocol.Expect(c, protocol.TypeOpen, protocol.MaxOpen, &open); err != nil {
		return id, open, err
	}
	if err := s.allow(open.Spec, id.Flow); err != nil {
		return id, open, refuse(c, err)
	}
	return id, open, nil
}

// allow is the one place that decides from a spec what a client may ask, whatever
// others are doing. Its error is ready to be sent.
func (s *Server) allow(spec measurement.Spec, flow int) error {
	if err := kind.Check(spec).Err(); err != nil {
		return session.Refusal(Protocol, "%v", err)
	}
	k := kinds[spec.Kind]
	if spec.Tool != measurement.Native || k.NewServer == nil {
		return session.Refusal(Unsupported, "a server takes no part in a test of kind %q", spec.Kind)
	}
	if s.lacksUDP != nil && kind.OverUDP(spec) {
		return session.Refusal(Unsupported, "the system of the server has no UDP for it (%v): test over TCP, or serve on another host", s.lacksUDP)
	}
	if flow < 0 || flow >= kind.Connections(spec) {
		return session.Refusal(Limit, "flow %d of %d of this test", flow+1, kind.Connections(spec))
	}
	return s.opts.Limits.Refuse(spec)
}

// request is what a connection asked for.
type request struct {
	protocol.Open
	id   protocol.Identity
	cpus []int // that the threads of this end keep to; nil for all
}

// vanishing has the kernel ask on the control connection whether a client is still
// there to which packets are sent. One that is gone without a word is noticed after
// 20 s; so many tries are not lost by chance on a path that carries half of what is
// sent.
var vanishing = net.KeepAliveConfig{Enable: true, Idle: 2 * time.Second, Interval: time.Second, Count: 18}

// serveTest joins the test and hands over to its kind. While the connection
// waits for START it has no thread and, as long as what is above that wait
// keeps to small frames, only a small stack.
func (s *Server) serveTest(c *connection, asked *request) (err error) {
	var t *test
	var ready *protocol.Ready
	err = session.OnFreshStack(func() (err error) {
		if t, ready, err = s.join(c, asked); err != nil {
			return err
		}
		if keep := t.kind.KeepAlive; keep != nil && keep(t.Spec) {
			if err := c.SetKeepAliveConfig(vanishing); err != nil {
				s.log.Info("watch for a vanishing client", "error", err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	open := &session.Flow{HostSeries: asked.HostSeries, SenderPaces: asked.SenderPaces, Number: asked.id.Flow, Test: &t.Test, CPUs: asked.cpus}
	c.guest.Leave()
	t.announce.Do(func() { s.notify(TestEvent{Client: t.Client, Spec: t.Spec}) })
	defer func() {
		s.recordErr(t, err)
		s.leave(t, open.Number, c.guard)
	}()
	conn, err := sockets.Attach(c.TCPConn)
	if err != nil { // no descriptor, say: the client is told on the one there is
		return refuse(c, err)
	}
	c.guard.Hold(conn.Interrupt)
	defer func() {
		c.guard.Hold(nil)
		if err := conn.Close(); err != nil {
			s.log.Info("close", "error", err)
		}
	}()
	release := func() {}
	defer func() { release() }()

	w := &session.ControlConn{Conn: conn, Guard: c.guard, Deflate: asked.Deflate}
	w.Until(time.Now().Add(session.HandshakeTimeout))
	w.Began = func() (err error) {
		t.Meter.Watch(ready.MaxRateBitsPerSecond, t.leastBytes, func(err error) { s.halt(t, err) })
		if take := t.kind.TakeThread; take != nil {
			release, err = take(w, open)
		}
		return err
	}
	err = session.OnFreshStack(func() error {
		ready.ReceivedTTL, w.UntilStart = conn.ReceivedTTL(), session.ConnectTime(t.Spec)
		if err := conn.SetOptions(session.FlowOptions(t.Spec, open.Sends())); err != nil {
			return &protocol.RemoteError{Reason: string(Unsupported), Message: err.Error()}
		}
		ready.MSS = conn.MSS()
		return nil
	})
	if err == nil {
		err = s.servers[t.Spec.Kind].Serve(w, open, ready)
	}
	if why := c.guard.Halted(); why != nil && err != nil {
		err = why
	}
	if err = refuse(w, err); err != nil && t.kind.Refused != nil && !session.IsLost(err) {
		t.kind.Refused(w)
	}
	return err
}

// join enters the test, or tells the client why not.
func (s *Server) join(c *connection, asked *request) (*test, *protocol.Ready, error) {
	client := unmapped(c.RemoteAddr())
	p, err := session.PlaceEnds(asked.Open)
	if err != nil {
		return nil, nil, refuse(c, err)
	}
	asked.cpus = p.Destination
	t, err := s.enter(c.guard, asked.id, client.Addr(), asked.Open)
	if err != nil {
		return nil, nil, refuse(c, err)
	}
	return t, &protocol.Ready{
		Client: client.String(), Server: unmapped(c.LocalAddr()).String(), Cookie: t.Cookie[:],
		Placement: p.Name, CPUs: p.Source, ClockID: s.clockID,
		MaxRateBitsPerSecond: session.LeastRate(s.opts.MaxRateBitsPerSecond, asked.MaxRateBitsPerSecond),
	}, nil
}

// refuse sends the other end an error that ended its connection, and returns it.
func refuse(w io.Writer, err error) error {
	if err == nil || session.IsLost(err) {
		return err
	}
	return errors.Join(err, protocol.WriteFrame(w, protocol.TypeError, session.ErrorFrame(err)))
}

// unmapped is an end of a TCP connection, whose IPv4 address may be in IPv6 form.
func unmapped(a net.Addr) netip.AddrPort {
	end := a.(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(end.Addr().Unmap(), end.Port())
}
