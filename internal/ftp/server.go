package ftp

import (
	"cmp"
	"context"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	library "github.com/fclairamb/ftpserverlib"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/sockets"
)

// Ports is a range of ports, both included. The zero value leaves the choice to
// the system.
type Ports struct{ First, Last int }

// Listen takes the first free port of a range at an address, or at all.
func Listen(ctx context.Context, at netip.Addr, ports Ports) (net.Listener, error) {
	host := ""
	if at.IsValid() {
		host = at.String()
	}
	var config net.ListenConfig
	var err error
	for port := ports.First; port <= ports.Last; port++ {
		var ln net.Listener
		if ln, err = config.Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port))); err == nil {
			return ln, nil
		}
	}
	if ports.Last > ports.First {
		err = fmt.Errorf("no port from %d to %d is free; the last: %w", ports.First, ports.Last, err)
	}
	return nil, err
}

// ServerOptions say whom a Server serves with what. All but those that say
// otherwise are required.
type ServerOptions struct {
	// User and Password of its clients; without a user, anyone is anonymous.
	User, Password string
	// Client is the one address that is served; invalid serves all.
	Client netip.Addr
	// File gives the size of the file of a name.
	File func(name string) (bytes int64, ok bool)
	// Store has files stored, which must be those of Content, and not fetched.
	Store   bool
	Content *Content
	// Ports of the data connections.
	Ports Ports
	// Prepare makes a data connection as it is wanted; what it returns is read and written in
	// its place. It may be nil.
	Prepare func(*net.TCPConn) (net.Conn, error)
	// MaxSessions at the same time, MaxSessionsPerClient of one address (of IPv6,
	// of a /64, which is what one host has); 0 is no bound of its own. MaxDuration
	// of each session, whatever it does.
	MaxSessions          int
	MaxSessionsPerClient int
	MaxDuration          time.Duration
	// Admit lets a session of a client begin, until what it returns is called, or says
	// why not; it may be nil.
	Admit func(client netip.Addr) (giveBack func(), err error)
	// Watch is told of each data connection and its socket, and what it returns is called
	// before that is closed; it may be nil.
	Watch func(net.Conn, *sockets.Conn) func()
	// OnTransfer is told of the beginning and the end of each transfer, from
	// several goroutines at a time; it may be nil.
	OnTransfer func(Transfer)
	// Log gets a line for what a client did wrong; nil discards them.
	Log *slog.Logger
}

// Transfer is one transfer of a file, or of a part of it.
type Transfer struct {
	Client netip.Addr
	Store  bool  // the client stores
	Size   int64 // of the file
	Offset int64 // at which the transfer began
	// Ended tells the end, and the fields below belong to it.
	Ended bool
	// Bytes that were sent or received.
	Bytes int64
	// CRC32 and Bins are of what was received, Took the time from STOR to the
	// last byte.
	CRC32 uint32
	Bins  measurement.Bins
	Took  time.Duration
	// Local and Remote are the ends of the data connection.
	Local, Remote string
	Elapsed       time.Duration
	Err           error
	// Cut says that Err is the end of the data connection or of the session before
	// that of the file, as clients make it that fetch a part of it.
	Cut bool
}

// Server is an FTP server whose files are made as they are read.
type Server struct {
	o      ServerOptions
	log    *slog.Logger
	bounds bounds
	pool   pool // of the listener and the sessions
	door   net.Listener
	done   chan struct{} // closed by Close
	// busy are the sessions and transfers in progress.
	busy  sync.WaitGroup
	moved atomic.Int64

	// draining has sessions end that transfer nothing.
	draining atomic.Bool

	mu       sync.Mutex
	sessions int
	open     map[*session]struct{}
	clients  map[netip.Prefix]int // sessions of each
	closed   bool
}

// NewServer takes the listener over.
func NewServer(ln net.Listener, o ServerOptions) *Server {
	s := &Server{
		o: o, log: cmp.Or(o.Log, slog.New(slog.DiscardHandler)), door: ln, done: make(chan struct{}), clients: map[netip.Prefix]int{}, open: map[*session]struct{}{},
		bounds: bounds{login: loginTimeout, command: commandTimeout, quiet: quietTimeout, window: stallTimeout, ending: endingTimeout},
	}
	s.pool.keep(ln)
	return s
}

// acceptPause is how long a server waits that could not accept a connection, as
// without descriptors or memory.
const acceptPause = 100 * time.Millisecond

// Serve serves until Close.
func (s *Server) Serve() error {
	for {
		c, err := s.door.Accept()
		if err == nil {
			s.receive(c)
			continue
		}
		select {
		case <-s.done:
			return nil
		case <-time.After(acceptPause):
		}
		if errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("accept FTP sessions: %w", err)
		}
		s.log.Warn("accept an FTP session", "error", err)
	}
}

// Moved is how many bytes of files were sent and received so far.
func (s *Server) Moved() int64 { return s.moved.Load() }

// Close ends every session and transfer and waits for them. It may be called
// again.
func (s *Server) Close() {
	s.mu.Lock()
	if !s.closed {
		close(s.done)
	}
	s.closed = true
	s.mu.Unlock()
	s.pool.close()
	s.busy.Wait()
}

// Drain ends the sessions without a transfer in progress, and the others when theirs has ended;
// the owner admits no more.
func (s *Server) Drain() {
	s.draining.Store(true)
	s.mu.Lock()
	open := slices.Collect(maps.Keys(s.open))
	s.mu.Unlock()
	for _, x := range open {
		x.change(func() {})
	}
}

// enter counts one more session or transfer, unless the server is closed.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.busy.Add(1)
	return true
}

// addressOf is a client's address.
func addressOf(c net.Conn) netip.Addr {
	if from, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return admission.Address(from.AddrPort().Addr())
	}
	return netip.Addr{}
}

// receive begins the session of a connection, or tells it why not.
func (s *Server) receive(c net.Conn) {
	x, err := s.admit(c)
	if err != nil {
		s.log.Warn("FTP session refused", "client", c.RemoteAddr().String(), "error", err)
		sayGoodbye(c, err.Error())
		_ = c.Close() // it was told
		return
	}
	// A server of the library's for each session: so all that it asks, of which
	// half does not name the session, is about this one.
	l := library.NewFtpServer(&driver{x: x, settings: &library.Settings{
		Listener: &once{Conn: x}, Banner: "hopbench",
		// The session itself watches over its time: the library's bounds do
		// not hold while a transfer is in progress.
		IdleTimeout: int(s.o.MaxDuration/time.Second) + 1, ConnectionTimeout: int(dataWait / time.Second),
		DisableActiveMode: true, DisableSite: true, DisableMFMT: true, EnableHASH: true,
		PasvConnectionsCheck: library.IPMatchDisabled, // dataListener does that
		DefaultTransferType:  library.TransferTypeBinary, DisableASCIIConversion: true,
	}})
	l.Logger = slog.New(faults{slog.DiscardHandler, x})
	err = s.pool.add(x)
	if err == nil {
		err = l.Listen()
	}
	if err == nil {
		err = l.Serve() // which has begun the session and accepted no other
	}
	if err != nil {
		s.log.Warn("FTP session refused", "client", c.RemoteAddr().String(), "error", err)
		s.depart(x)
	}
}

// admit makes a session of a connection, or says why not.
func (s *Server) admit(c net.Conn) (*session, error) {
	from := addressOf(c)
	if s.o.Client.IsValid() && from != s.o.Client {
		return nil, errors.New("this server is there for another client")
	}
	client := admission.Client(from)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, net.ErrClosed
	}
	if s.sessions >= s.o.MaxSessions {
		return nil, fmt.Errorf("there are %d sessions already, as many as this server has", s.sessions)
	}
	if most := s.o.MaxSessionsPerClient; most > 0 && s.clients[client] >= most {
		return nil, fmt.Errorf("there are %d sessions of %v already, as many as one client may have", most, client)
	}
	giveBack := func() {}
	if s.o.Admit != nil {
		var err error
		if giveBack, err = s.o.Admit(from); err != nil {
			return nil, err
		}
	}
	s.sessions++
	s.clients[client]++
	s.busy.Add(1)
	x := newSession(c, s)
	x.giveBack = giveBack
	s.open[x] = struct{}{}
	return x, nil
}

// depart forgets a session that has ended.
func (s *Server) depart(x *session) {
	_ = x.Close() // the library does not always
	client := admission.Client(x.client)
	s.mu.Lock()
	delete(s.open, x)
	s.sessions--
	if s.clients[client]--; s.clients[client] == 0 {
		delete(s.clients, client)
	}
	s.mu.Unlock()
	x.giveBack()
	s.busy.Done()
}

// once is a listener at which one session arrives.
type once struct {
	net.Conn
	arrived bool
}

func (o *once) Accept() (net.Conn, error) {
	if o.arrived {
		return nil, &net.OpError{Op: "accept", Err: net.ErrClosed} // by which the library knows the end
	}
	o.arrived = true
	return o.Conn, nil
}

func (o *once) Addr() net.Addr { return o.LocalAddr() }

// Close leaves the session open.
func (o *once) Close() error { return nil }

// driver is what the library asks about a session.
type driver struct {
	x        *session
	settings *library.Settings
}

// dataWait is how long a client may take to open the data connection of a
// transfer that it asked for.
const dataWait = 10 * time.Second

// GetSettings tells the library what to do by itself.
func (d *driver) GetSettings() (*library.Settings, error) { return d.settings, nil }

// ClientConnected greets.
func (d *driver) ClientConnected(library.ClientContext) (string, error) {
	return "hopbench: files are made as they are read", nil
}

// ClientDisconnected is told of the end of the session.
func (d *driver) ClientDisconnected(library.ClientContext) { d.x.s.depart(d.x) }

// AuthUser lets a client in.
func (d *driver) AuthUser(_ library.ClientContext, user, password string) (library.ClientDriver, error) {
	o := d.x.s.o
	switch {
	case o.User == "" && user != "anonymous" && user != "ftp":
		return nil, errors.New("log in as anonymous")
	case o.User != "" && subtle.ConstantTimeCompare([]byte(user+"\x00"+password), []byte(o.User+"\x00"+o.Password)) != 1:
		return nil, errors.New("wrong user or password")
	}
	d.x.loggedIn()
	return newFiles(d.x), nil
}

// GetTLSConfig says that there is none.
func (d *driver) GetTLSConfig() (*tls.Config, error) { return nil, errors.New("no TLS here") }

// WrapPassiveListener takes over the listener of a data connection.
func (d *driver) WrapPassiveListener(ln net.Listener) (net.Listener, error) {
	return d.x.listen(func() (net.Listener, error) {
		w := &dataListener{Listener: ln, x: d.x}
		unused := func() error { return nil } // closes what was replaced
		w.close = sync.OnceValue(func() error {
			d.x.pool.remove(w)
			return errors.Join(w.Listener.Close(), unused())
		})
		if d.x.s.o.Ports != (Ports{}) {
			// The library's own range of ports is for IPv4 alone. Its listener, on
			// which it sets a deadline, stays open for that, and nobody is told of it.
			ours, err := Listen(context.Background(), netip.Addr{}, d.x.s.o.Ports)
			if err != nil {
				return nil, errors.Join(err, ln.Close())
			}
			w.Listener, unused = ours, ln.Close
		}
		return w, nil
	})
}

// dataListener waits for one data connection of a session.
type dataListener struct {
	net.Listener
	x     *session
	close func() error
}

// Accept returns the connection of the session's client, and waits on after one of
// anybody else, who may have guessed the port.
func (l *dataListener) Accept() (net.Conn, error) {
	if tcp, ok := l.Listener.(*net.TCPListener); ok {
		if err := tcp.SetDeadline(time.Now().Add(dataWait)); err != nil {
			return nil, err
		}
	}
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if addressOf(c) == l.x.client {
			return l.x.data(c)
		}
		l.x.s.log.Warn("FTP data connection refused: it is of another client", "client", c.RemoteAddr().String())
		_ = c.Close() // nothing was said
	}
}

// data makes a connection the session's data connection.
func (x *session) data(c net.Conn) (net.Conn, error) {
	d, err := newDataConn(c, &x.pool, &x.s.moved, x.prepare, x.watch)
	if err != nil {
		return nil, err
	}
	d.window = x.s.bounds.window
	return d, nil
}

// prepare has the server's owner prepare a data connection.
func (x *session) prepare(c *net.TCPConn) (net.Conn, error) {
	if x.s.o.Prepare == nil {
		return c, nil
	}
	prepared, err := x.s.o.Prepare(c)
	if err != nil {
		x.s.log.Warn("prepare an FTP data connection", "error", err)
	}
	return prepared, err
}

// watch has the server's owner watch a data connection. Its end is also the
// library's, which does not expect a panic there.
func (x *session) watch(c net.Conn, socket *sockets.Conn) func() {
	if x.s.o.Watch == nil {
		return func() {}
	}
	stop := x.s.o.Watch(c, socket)
	return func() {
		defer x.guard(new(error))
		stop()
	}
}

func (l *dataListener) Close() error { return l.close() }
