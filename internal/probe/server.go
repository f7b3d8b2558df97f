package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/clock"
	"github.com/hopbench/hopbench/internal/ftp"
	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/iperf3"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/datagram"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/sockets"
)

// The limits of a server that was given none: generous to a lab and to a
// fleet, and finite. Of the connections, as far as descriptors allow, a quarter is
// for those that have not said yet what they want.
const (
	defaultConnections = 4 * MaxFlows
	defaultTests       = 64
	defaultFlows       = MaxFlows
	defaultDuration    = time.Hour
	// spareDescriptors are for what is no connection: listeners, samplers, payload,
	// the moment in which a socket leaves the poller.
	spareDescriptors = 128
	// maxThreads bounds the threads of all tests. Go gives up at 10 000.
	maxThreads = 2048
)

// descriptorLimit is how many connections this process has descriptors for.
func descriptorLimit(connections int) int {
	limit := hostinfo.MaxDescriptors()
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

	MaxConnections int // of all clients, those not yet authenticated included (40 000); never more than descriptors are
	MaxTests       int // at the same time, those of iperf3 clients included (64)
	// Limits of one test (10 000 flows, an hour, any rate), of any protocol: one that asks
	// for more is refused, one that does more ended.
	Limits
	// MaxMemoryBytes bounds what all tests together may take (half of what this
	// process may have).
	MaxMemoryBytes int64
	// Unshared lets one client address have all there is, which otherwise has a
	// share, and tells it nothing of others: for a server whose clients are one coordinator's.
	Unshared bool
	// Spin lets an rr test have this end poll, which takes whole CPUs from
	// other tests.
	Spin bool

	// FTPPorts are the ports of ftp tests, for sessions and for data; the zero
	// value leaves the choice to the system.
	FTPPorts ftp.Ports

	// IPerf3Open serves iperf3's clients, which cannot prove a token, although
	// there is one.
	IPerf3Open bool
	// IPerf3From are the addresses from which they are served; none are all.
	IPerf3From []netip.Prefix

	// AnswerHTTP answers a GET of HTTP with nothing: what an agent's canary request
	// asks for.
	AnswerHTTP bool

	// Clock is that of the stamps that this end answers with; nil is one of the server's
	// own.
	Clock session.Clock

	// OnProven is told of the address of each client that proved the token on a
	// connection of TCP, before it asks for anything, from several goroutines at a time;
	// it may be nil.
	OnProven func(client netip.Addr)

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
	// budget is what all tests together may take, door where connections wait that
	// are in none.
	budget *admission.Budget
	door   *admission.Door
	iperf3 *iperf3.Server
	counts *session.Counts
	// clockID is that of READY.
	clockID string
	// servers are its ends of each kind of test, transactions the one of them that
	// answers connections of its own.
	servers      map[measurement.Kind]session.Server
	transactions session.TransactionServer
	udp          *datagram.Flows
	// lacksUDP is why there is no UDP here, nil where there is; it is set before any
	// client is served.
	lacksUDP error

	mu       sync.Mutex
	conns    map[*session.Guard]struct{}
	tests    map[testKey]*test
	cookies  map[cookieKey]*test
	closing  bool
	draining bool
	wg       sync.WaitGroup
}

// NewServer checks the options and returns a server that does not listen yet.
func NewServer(o ServerOptions) (*Server, error) {
	if o.MaxConnections < 0 || o.MaxTests < 0 || o.MaxFlows < 0 || o.MaxDuration < 0 || o.MaxMemoryBytes < 0 || !(o.MaxRateBitsPerSecond >= 0) {
		return nil, fmt.Errorf("limits of a server cannot be negative: %d connections, %d tests, %d flows, %v, %d bytes, %v bit/s",
			o.MaxConnections, o.MaxTests, o.MaxFlows, o.MaxDuration, o.MaxMemoryBytes, o.MaxRateBitsPerSecond)
	}
	o.MaxConnections = descriptorLimit(cmp.Or(o.MaxConnections, defaultConnections))
	o.MaxTests = cmp.Or(o.MaxTests, defaultTests)
	o.MaxFlows = cmp.Or(o.MaxFlows, defaultFlows)
	o.MaxDuration = cmp.Or(o.MaxDuration, defaultDuration)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = clock.Start()
	}
	clockID := hostinfo.ClockID()
	if clockID == "" {
		var err error
		if clockID, err = session.NewID(); err != nil {
			return nil, err
		}
	}
	limits, door := limitsOf(o)
	tell := session.TellCount
	switch {
	case o.Unshared:
		tell = session.TellNothing
	case o.Token != "":
		tell = session.TellAddress
	}
	s := &Server{
		opts: o, log: o.Log,
		budget:  admission.NewBudget(admission.Options{Limits: limits, Shared: !o.Unshared, Reserved: o.Token != ""}),
		door:    admission.NewDoor(door),
		counts:  session.NewCounts(tell),
		servers: map[measurement.Kind]session.Server{},
		udp:     datagram.NewFlows(),
		clockID: clockID,
		conns:   map[*session.Guard]struct{}{},
		tests:   map[testKey]*test{},
		cookies: map[cookieKey]*test{},
	}
	s.iperf3 = s.newIPerf3Server()
	env := session.ServerEnv{
		Token: o.Token, MaxDuration: o.MaxDuration, Spin: o.Spin, Clock: o.Clock,
		FTPPorts: o.FTPPorts, Log: o.Log, Find: s.find, Closing: s.isClosing, AcceptUDP: s.udp.Accept,
	}
	for name, k := range kinds {
		if k.NewServer == nil {
			continue
		}
		s.servers[name] = k.NewServer(env)
		if t, ok := s.servers[name].(session.TransactionServer); ok {
			s.transactions = t
		}
	}
	return s, nil
}

// Listener is a Server bound to its TCP and UDP port.
type Listener struct {
	s   *Server
	tcp net.Listener
	udp *sockets.Packets // nil where the system has no UDP
}

// ListenTCP opens a port for Bind. Clients that want Multipath TCP get it, the others plain TCP;
// but on a link nobody does: Linux does not tell of a listener of Multipath TCP on which
// interface its address is, which UDP has to have, too.
func ListenTCP(ctx context.Context, address string) (net.Listener, error) {
	var config net.ListenConfig
	at, err := netip.ParseAddrPort(address)
	config.SetMultipathTCP(err != nil || at.Addr().Zone() == "")
	network := "tcp"
	if at.Addr().Is4() { // 0.0.0.0, too, which to package net is every address of either family
		network = "tcp4"
	}
	return config.Listen(ctx, network, address)
}

// Bind adds the UDP port of the same number to the TCP listener tcp, which it
// closes when it fails. Where the system has no UDP, tests over TCP are served. It
// refuses an address that others can reach without a token, unless that was asked for.
func (s *Server) Bind(tcp net.Listener) (*Listener, error) {
	addr, ok := tcp.Addr().(*net.TCPAddr)
	if !ok {
		return nil, errors.Join(fmt.Errorf("serve: listener is on %s, want TCP", tcp.Addr().Network()), tcp.Close())
	}
	if s.opts.Token == "" && !s.opts.Open && !addr.IP.IsLoopback() {
		return nil, errors.Join(fmt.Errorf("serve: others can reach %s, and without a token anyone could aim traffic with this server: give a token, or ask for an open server", addr), tcp.Close())
	}
	l := &Listener{s: s}
	udp, err := sockets.ListenUDP(context.Background(), addr.AddrPort())
	switch {
	case sockets.LacksUDP(err):
		s.lacksUDP = err
	case err != nil:
		return nil, errors.Join(fmt.Errorf("serve: %w", err), tcp.Close())
	default:
		if l.udp, err = sockets.DetachPackets(udp); err != nil {
			return nil, errors.Join(fmt.Errorf("serve: %w", err), tcp.Close(), session.IgnoreClosed(udp.Close()))
		}
	}
	if l.tcp, err = s.transactions.Wrap(tcp); err != nil {
		return nil, errors.Join(fmt.Errorf("serve: %w", err), l.closeUDP())
	}
	return l, nil
}

func (l *Listener) closeUDP() error {
	if l.udp == nil {
		return nil
	}
	return session.IgnoreClosed(l.udp.Close())
}

// LacksUDP is why only tests over TCP are served, nil where those over UDP are, too.
func (l *Listener) LacksUDP() error { return l.s.lacksUDP }

// Addr is where clients find the server.
func (l *Listener) Addr() net.Addr { return l.tcp.Addr() }

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
	if l.udp != nil {
		s.wg.Go(func() {
			for s.contained("answer UDP", func() error { s.serveUDP(l.udp); return nil }) {
			}
		})
	}
	err := s.accept(l.tcp)
	s.shutdown(l)
	s.wg.Wait()
	err = errors.Join(err, l.closeUDP(), s.closeKinds())
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (s *Server) accept(ln net.Listener) error {
	for order := uint64(0); ; order++ {
		c, err := s.acceptOne(ln)
		if err != nil {
			switch {
			case errors.Is(err, net.ErrClosed):
				return nil
			case sockets.ListenerBroken(err):
				return fmt.Errorf("serve: %w", err)
			}
			// accept(2) passes on what befell the one connection, and what the system
			// lacks for a moment: descriptors and memory of ended tests will come back.
			s.counts.Refuse("accept")
			s.log.Warn("accept", "error", err)
			time.Sleep(acceptPause)
			continue
		}
		g := &session.Guard{}
		g.Hold(func() { _ = c.Close() })
		if !s.admit(g) {
			_ = c.Close() // the server ends
			continue
		}
		client := c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr()
		guest := s.door.Enter(client, g.End)
		s.wg.Go(func() {
			defer s.dismiss(g)
			defer guest.Leave()
			s.serveConn(&connection{TCPConn: c.(*net.TCPConn), guard: g, guest: guest, order: order})
		})
	}
}

// acceptOne contains what may go wrong in answering transactions meanwhile.
func (s *Server) acceptOne(ln net.Listener) (c net.Conn, err error) {
	s.contained("answer a transaction", func() error {
		c, err = ln.Accept()
		return nil
	})
	if c == nil && err == nil {
		err = errors.New("a transaction could not be answered")
	}
	return c, err
}

// contained does f, which serves several clients, and says whether it panicked.
func (s *Server) contained(what string, f func() error) (panicked bool) {
	p, panicked := errors.AsType[*admission.Panic](admission.Contain(f))
	if panicked {
		s.counts.Refuse("panic")
		s.log.Error(what, "error", p, "stack", string(p.Stack))
	}
	return panicked
}

// acceptPause is how long the server waits after an error of accept(2).
const acceptPause = 50 * time.Millisecond

func (s *Server) admit(g *session.Guard) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.conns[g] = struct{}{}
	return true
}

func (s *Server) dismiss(g *session.Guard) {
	g.Rest()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, g)
}

// closeKinds gives back what the kinds of tests keep; no test may be left.
func (s *Server) closeKinds() error {
	var errs []error
	for _, k := range s.servers {
		if c, ok := k.(io.Closer); ok {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}

func (s *Server) isClosing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing
}

func (s *Server) shutdown(l *Listener) {
	_ = l.tcp.Close() // it fails only when it is closed already
	if l.udp != nil {
		l.udp.Interrupt()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
	for g := range s.conns {
		g.End()
	}
}

// Drain has the server begin no more tests. The returned channel is closed when the
// last one in progress has ended. It may be called once, while the server serves.
func (s *Server) Drain() <-chan struct{} {
	s.iperf3.Drain()
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	drained := make(chan struct{})
	s.wg.Go(func() {
		defer close(drained)
		for {
			freed := s.budget.Freed()
			if used, _ := s.budget.Used(); used == (admission.Cost{}) {
				return
			}
			<-freed // at the latest when the server ends its connections
		}
	})
	return drained
}
