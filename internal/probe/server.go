package probe

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hopbench/hopbench/internal/ftp"
	"github.com/hopbench/hopbench/internal/iperf3"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sockets"
)

// DefaultPort is where a server listens unless told otherwise.
const DefaultPort = 5201

// The limits of a server that was given none: generous to a lab and to a
// fleet, and finite. The connections are those of a largest test in both
// directions and as many again as 1024, as far as descriptors allow.
const (
	defaultConnections = 2*MaxFlows + 1024
	defaultTests       = 64
	defaultFlows       = MaxFlows
	defaultDuration    = time.Hour
	// spareDescriptors are for what is no connection: listeners, samplers,
	// the moment in which a socket leaves the poller.
	spareDescriptors = 128
	// maxThreads bounds the threads of all tests; connections beyond it share
	// the runtime's poller. Go gives up at 10 000.
	maxThreads = 2048
)

// descriptorLimit is how many connections this process has descriptors for.
func descriptorLimit(connections int) int {
	limit := sockets.MaxDescriptors()
	if limit == 0 {
		return connections
	}
	return max(min(connections, limit-spareDescriptors), 1)
}

// ServerOptions configure a Server. The zero value serves loopback only. Each
// limit that is zero takes its default; clients cannot exceed them, whatever
// they ask.
type ServerOptions struct {
	// Token that clients must prove; may be empty.
	Token string
	// Open allows an empty Token on an address that others can reach.
	Open bool

	MaxConnections int           // of all clients, those not yet authenticated included (21024, or fewer if descriptors are fewer)
	MaxTests       int           // at the same time (64)
	MaxFlows       int           // of one test, each way (10 000)
	MaxDuration    time.Duration // of one test, warm-up included (an hour)
	// MaxRateBitsPerSecond bounds what one UDP test may ask to be sent, and one
	// iperf3 test of either protocol, all its streams together; 0 does not.
	MaxRateBitsPerSecond float64

	// FTPPorts are the ports of ftp tests, for sessions and for data; the zero
	// value leaves the choice to the system.
	FTPPorts ftp.Ports

	// IPerf3Open serves iperf3's clients, which cannot prove a token, although
	// there is one.
	IPerf3Open bool

	// OnTest is told of the beginning and the end of each test, from several
	// goroutines at a time; it may be nil.
	OnTest func(TestEvent)

	// Log gets one line per refused or failed connection; nil discards them.
	Log *slog.Logger
}

// Server is the far end of the tests: it serves any number of clients, each
// connection on its own.
type Server struct {
	opts ServerOptions
	log  *slog.Logger
	// bulk is what the flows of tcp tests share.
	bulk *bulk
	// threads counts the connections that have a thread of their own.
	threads atomic.Int32
	iperf3  *iperf3.Server
	// content is what the files of ftp tests are made of.
	content func() *ftp.Content

	// transacting counts the crr tests in progress.
	transacting atomic.Int32

	mu       sync.Mutex
	conns    map[*guard]struct{}
	sessions map[string]*session
	cookies  map[[protocol.CookieBytes]byte]*session
	closing  bool
	wg       sync.WaitGroup
}

// session is what the connections of one test share within this process.
type session struct {
	key    string
	refs   int
	cookie [protocol.CookieBytes]byte
	client netip.Addr
	spec   measurement.Spec

	began    time.Time
	announce sync.Once
	err      error // of the first connection that failed

	// hellos are the flows that wait for their first UDP packet, by the number
	// of READY; lastHello is the last number given.
	hellos    map[uint32]chan netip.AddrPort
	lastHello uint32

	// pages are what its flows of packets send by reference.
	pages packetPages

	// peer gets the address from which the first request over UDP came.
	peer chan netip.AddrPort
	// transactions counts those that were answered.
	transactions atomic.Int64
}

// NewServer checks the options and returns a server that does not listen yet.
func NewServer(o ServerOptions) (*Server, error) {
	if o.MaxConnections < 0 || o.MaxTests < 0 || o.MaxFlows < 0 || o.MaxDuration < 0 || !(o.MaxRateBitsPerSecond >= 0) {
		return nil, fmt.Errorf("limits of a server cannot be negative: %d connections, %d tests, %d flows, %v, %v bit/s",
			o.MaxConnections, o.MaxTests, o.MaxFlows, o.MaxDuration, o.MaxRateBitsPerSecond)
	}
	o.MaxConnections = cmp.Or(o.MaxConnections, descriptorLimit(defaultConnections))
	o.MaxTests = cmp.Or(o.MaxTests, defaultTests)
	o.MaxFlows = cmp.Or(o.MaxFlows, defaultFlows)
	o.MaxDuration = cmp.Or(o.MaxDuration, defaultDuration)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Server{
		opts: o, log: o.Log,
		bulk:     newBulk(),
		iperf3:   newIPerf3Server(o),
		content:  sync.OnceValue(ftp.NewContent),
		conns:    map[*guard]struct{}{},
		sessions: map[string]*session{},
		cookies:  map[[protocol.CookieBytes]byte]*session{},
	}, nil
}

// Listener is a Server bound to its TCP and UDP port.
type Listener struct {
	s   *Server
	tcp net.Listener
	udp *sockets.Packets
}

// Bind adds the UDP port of the same number to the TCP listener tcp, which it
// closes when it fails. It refuses an address that others can reach without a
// token, unless that was asked for.
func (s *Server) Bind(tcp net.Listener) (*Listener, error) {
	addr, ok := tcp.Addr().(*net.TCPAddr)
	if !ok {
		return nil, errors.Join(fmt.Errorf("serve: listener is on %s, want TCP", tcp.Addr().Network()), tcp.Close())
	}
	if s.opts.Token == "" && !s.opts.Open && !addr.IP.IsLoopback() {
		return nil, errors.Join(fmt.Errorf("serve: others can reach %s, and without a token anyone could aim traffic with this server: give a token, or ask for an open server", addr), tcp.Close())
	}
	udp, err := sockets.ListenUDP(context.Background(), addr.AddrPort())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("serve: %w", err), tcp.Close())
	}
	packets, err := sockets.DetachPackets(udp)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("serve: %w", err), tcp.Close(), ignoreClosed(udp.Close()))
	}
	detached, err := s.answering(tcp)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("serve: %w", err), packets.Close())
	}
	return &Listener{s: s, tcp: detached, udp: packets}, nil
}

// Serve binds ln and serves it until ctx ends. It closes ln in any case.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	l, err := s.Bind(ln)
	if err != nil {
		return err
	}
	return l.Serve(ctx)
}

// Serve accepts connections and UDP packets until ctx ends; then it ends
// every test in progress, waits for all of its goroutines and returns nil.
func (l *Listener) Serve(ctx context.Context) error {
	s := l.s
	stop := context.AfterFunc(ctx, func() { s.shutdown(l) })
	defer stop()
	s.wg.Go(func() { s.serveUDP(l.udp) })
	err := s.accept(l.tcp)
	s.shutdown(l)
	s.wg.Wait()
	err = errors.Join(err, ignoreClosed(l.udp.Close()), s.bulk.close())
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (s *Server) accept(ln net.Listener) error {
	for order := uint64(0); ; order++ {
		c, err := ln.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			if temporary(err) {
				// Out of descriptors: those of running tests will come back.
				s.log.Warn("accept", "error", err)
				time.Sleep(50 * time.Millisecond)
				continue
			}
			return fmt.Errorf("serve: %w", err)
		}
		g := &guard{}
		g.hold(func() { _ = c.Close() })
		if !s.admit(g) {
			s.log.Warn("refused: too many connections", "client", c.RemoteAddr().String())
			if err := c.Close(); err != nil {
				s.log.Info("close refused connection", "error", err)
			}
			continue
		}
		s.wg.Go(func() {
			defer s.dismiss(g)
			s.serveConn(c.(*net.TCPConn), g, order)
		})
	}
}

func temporary(err error) bool {
	// Deprecated for errors in general, but exactly what accept(2) needs:
	// EMFILE, ENFILE, ECONNABORTED pass.
	t, ok := errors.AsType[interface {
		error
		Temporary() bool
	}](err)
	return ok && t.Temporary()
}

func (s *Server) admit(g *guard) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing || len(s.conns) >= s.opts.MaxConnections {
		return false
	}
	s.conns[g] = struct{}{}
	return true
}

func (s *Server) dismiss(g *guard) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, g)
}

func (s *Server) shutdown(l *Listener) {
	_ = l.tcp.Close() // it fails only when it is closed already
	l.udp.Interrupt()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
	for g := range s.conns {
		g.end()
	}
}

// serveConn does one connection's part of a test; order is its place among
// those accepted.
func (s *Server) serveConn(c *net.TCPConn, g *guard, order uint64) {
	log := s.log.With("client", c.RemoteAddr().String())
	defer func() {
		if err := ignoreClosed(c.Close()); err != nil {
			log.Info("close", "error", err)
		}
	}()
	first, err := firstByte(c)
	if err == nil && iperf3.BeginsCookie(first) {
		s.iperf3.ServeConn(c, first, order, g.hold)
		return
	}
	var id protocol.Identity
	open := new(opened)
	if err == nil {
		err = aside(func() (err error) {
			id, open.Open, err = s.greet(c, first)
			open.flow = id.Flow
			return err
		})
	}
	if err == nil {
		log = log.With("test", id.Test, "flow", id.Flow)
		err = s.serveTest(c, g, id, open)
	}
	switch {
	case err == nil || errors.Is(err, io.EOF):
	case isLost(err):
		log.Info("client vanished", "error", err)
	default:
		log.Warn("connection failed", "error", err)
	}
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
func (s *Server) greet(c *net.TCPConn, first byte) (protocol.Identity, protocol.Open, error) {
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
	if err := protocol.Expect(c, protocol.TypeOpen, protocol.MaxControl, &open); err != nil {
		return id, open, err
	}
	if err := s.allow(open.Spec, id.Flow); err != nil {
		return id, open, errors.Join(err, protocol.WriteFrame(c, protocol.TypeError, err))
	}
	return id, open, nil
}

// allow checks a spec against the limits. Its error is ready to be sent.
func (s *Server) allow(spec measurement.Spec, flow int) error {
	refuse := func(reason Reason, format string, args ...any) error {
		return &protocol.RemoteError{Reason: string(reason), Message: fmt.Sprintf(format, args...)}
	}
	if err := checkSpec(spec); err != nil {
		return refuse(Protocol, "%v", err)
	}
	if total := (spec.Duration + spec.MaxWarmup).Duration(); total > s.opts.MaxDuration {
		return refuse(Limit, "a test of %v is longer than this server allows (%v)", total, s.opts.MaxDuration)
	}
	if spec.Flows > s.opts.MaxFlows || flow >= connections(spec) {
		return refuse(Limit, "flow %d of %d: this server allows %d flows in one test", flow+1, spec.Flows, s.opts.MaxFlows)
	}
	if n := connections(spec); spec.Kind == measurement.TCP && n > s.opts.MaxConnections {
		return refuse(Limit, "a test of %d connections: this server takes %d (its limits are its own and that of open files, ulimit -n)", n, s.opts.MaxConnections)
	}
	return nil
}

// join registers one more connection of a test.
func (s *Server) join(id protocol.Identity, client netip.Addr, spec measurement.Spec) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.sessions[id.Session]
	if t == nil {
		if len(s.sessions) >= s.opts.MaxTests {
			return nil, &protocol.RemoteError{Reason: string(Limit), Message: fmt.Sprintf("this server runs %d tests at the same time and no more", s.opts.MaxTests)}
		}
		t = &session{key: id.Session, client: client, spec: spec, began: time.Now(), peer: make(chan netip.AddrPort, 1)}
		if spec.Kind == measurement.CRR {
			// Each transaction may reach another server, which must know it.
			t.cookie = protocol.TransactionCookie(s.opts.Token, id.Session)
		} else if _, err := rand.Read(t.cookie[:]); err != nil {
			return nil, fmt.Errorf("draw a cookie: %w", err)
		}
		s.sessions[t.key], s.cookies[t.cookie] = t, t
	}
	if t.refs >= 2*s.opts.MaxFlows {
		return nil, &protocol.RemoteError{Reason: string(Limit), Message: fmt.Sprintf("this server allows %d flows in one test", s.opts.MaxFlows)}
	}
	t.refs++
	return t, nil
}

func (s *Server) leave(t *session) {
	s.mu.Lock()
	t.refs--
	last := t.refs == 0
	if last {
		delete(s.sessions, t.key)
		delete(s.cookies, t.cookie)
	}
	s.mu.Unlock()
	if last {
		if err := t.pages.close(); err != nil {
			s.log.Info("give back packets", "error", err)
		}
		s.tell(TestEvent{Client: t.client, Spec: t.spec, Ended: true, Elapsed: time.Since(t.began), Err: t.err, Vanished: isLost(t.err)})
	}
}

// serveTest joins the test and hands over to its kind. While the connection
// waits for START it has no thread and, as long as what is above that wait
// keeps to small frames, only a small stack.
func (s *Server) serveTest(c *net.TCPConn, g *guard, id protocol.Identity, open *opened) (err error) {
	var t *session
	var ready *protocol.Ready
	err = aside(func() (err error) {
		t, ready, err = s.enter(c, id, open)
		return err
	})
	if err != nil {
		return err
	}
	t.announce.Do(func() { s.tell(TestEvent{Client: t.client, Spec: t.spec}) })
	defer s.leave(t)
	defer func() { s.blame(t, err) }()
	conn, err := sockets.Attach(c)
	if err != nil { // no descriptor, say: the client is told on the one there is
		return errors.Join(err, protocol.WriteFrame(c, protocol.TypeError, errorFrame(err)))
	}
	g.hold(conn.Interrupt)
	defer func() {
		g.hold(nil)
		if err := conn.Close(); err != nil {
			s.log.Info("close", "error", err)
		}
	}()
	release := func() {}
	defer func() { release() }()

	w := wire{Conn: conn, deadline: time.Now().Add(handshakeTimeout)}
	w.began = func() (err error) {
		release, err = s.takeThread(w, open.Spec)
		return err
	}
	var sends bool
	err = aside(func() (err error) {
		ready.ReceivedTTL, w.untilStart = conn.ReceivedTTL(), connectTime(open.Spec)
		sends, err = open.prepare(conn)
		w.onHosts(open.Spec, sends, open.HostID, ready.HostID)
		ready.MSS = conn.MSS()
		return err
	})
	if err == nil {
		err = s.serveKind(w, open, sends, ready)
	}
	return refuse(&w, err)
}

// enter joins the test, or tells the client why not.
func (s *Server) enter(c *net.TCPConn, id protocol.Identity, open *opened) (*session, *protocol.Ready, error) {
	client := c.RemoteAddr().(*net.TCPAddr).AddrPort()
	t, err := s.join(id, client.Addr().Unmap().WithZone(""), open.Spec)
	if err != nil {
		return nil, nil, errors.Join(err, protocol.WriteFrame(c, protocol.TypeError, errorFrame(err)))
	}
	return t, &protocol.Ready{
		Client: netip.AddrPortFrom(client.Addr().Unmap(), client.Port()).String(),
		Server: unmapped(c.LocalAddr()), HostID: hostID(open.Spec), Cookie: t.cookie[:],
	}, nil
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
	flow int
}

// takeThread gives the calling goroutine, which is about to transfer on a
// connection, a thread of its own until the returned function is called, unless
// there are too many of them.
func (s *Server) takeThread(w wire, spec measurement.Spec) (release func(), err error) {
	if sharesPoller(spec) {
		return func() {}, nil
	}
	if s.threads.Add(1) > maxThreads {
		s.threads.Add(-1)
		return func() {}, nil
	}
	unlock := w.lock()
	drop := func() {}
	if err = w.Detach(); err == nil && holdsProcessor(spec) {
		drop = w.HoldProcessor(w.beside)
	}
	return func() { drop(); unlock(); s.threads.Add(-1) }, err
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
func (o *opened) prepare(conn *sockets.Conn) (sends bool, err error) {
	sends = !clientSends(o.Spec, o.flow)
	err = conn.SetOptions(optionsOf(o.Spec, sends))
	if err == nil && o.Spec.Kind == measurement.TCP {
		err = prepare(conn, o.Spec, sends)
	}
	if err != nil {
		return sends, &protocol.RemoteError{Reason: string(Unsupported), Message: err.Error()}
	}
	return sends, nil
}

func (s *Server) serveKind(w wire, open *opened, sends bool, ready *protocol.Ready) error {
	if open.Spec.Kind == measurement.TCP {
		return s.serveStream(w, open, sends, ready)
	}
	return s.serveSingle(w, open, ready)
}

// serveSingle does a test of the other kinds.
func (s *Server) serveSingle(w wire, o *opened, ready *protocol.Ready) error {
	open := o.Open
	switch open.Spec.Kind {
	case measurement.UDP, measurement.PPS:
		return s.servePackets(w, open, ready)
	case measurement.RR:
		return s.serveRR(w, open, ready)
	case measurement.CRR:
		return s.serveCRR(w, open, ready)
	case measurement.FTP:
		return s.serveFTP(w, open, ready)
	case measurement.MTU:
		return s.serveMTU(w, open, ready)
	}
	return &protocol.RemoteError{Reason: string(Unsupported), Message: fmt.Sprintf("a server takes no part in a test of kind %q", open.Spec.Kind)}
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
	w.deadline = time.Now().Add(max(w.untilStart, startTimeout))
	if err := aside(func() error { return protocol.WriteFrame(w, protocol.TypeReady, ready) }); err != nil {
		return time.Time{}, err
	}
	if err := protocol.Expect(w, protocol.TypeStart, protocol.MaxControl, nil); err != nil {
		return time.Time{}, err
	}
	start := time.Now()
	if w.began != nil {
		return start, w.began()
	}
	return start, nil
}
