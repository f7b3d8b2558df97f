package ftp

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	library "github.com/fclairamb/ftpserverlib"

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
	// DSCP marks the packets (RFC 2474).
	DSCP int
	// MaxSessions at the same time; MaxDuration of each.
	MaxSessions int
	MaxDuration time.Duration
	// Watch is told of each data connection, and what it returns is called
	// before that is closed; it may be nil.
	Watch func(net.Conn) func()
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
	o       ServerOptions
	log     *slog.Logger
	library *library.FtpServer
	pool    pool
	// busy are the sessions and transfers in progress.
	busy sync.WaitGroup

	mu       sync.Mutex
	sessions map[string]*session // by the client's address and port
	closed   bool
}

// NewServer takes the listener over, also when it fails.
func NewServer(ln net.Listener, o ServerOptions) (*Server, error) {
	s := &Server{o: o, log: o.Log, sessions: map[string]*session{}}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	d := &door{Listener: ln, s: s}
	if err := s.pool.add(d); err != nil {
		return nil, err
	}
	s.library = library.NewFtpServer(&driver{s: s, listener: d})
	if err := s.library.Listen(); err != nil {
		return nil, errors.Join(fmt.Errorf("set up the FTP server: %w", err), d.Close())
	}
	return s, nil
}

// Serve serves until Close.
func (s *Server) Serve() error {
	err := s.library.Serve()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	return err
}

// Close ends every session and transfer and waits for them. It may be called
// again.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.pool.close()
	s.busy.Wait()
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
		return from.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}

// welcome says why a connection's client is not served.
func (s *Server) welcome(c net.Conn) error {
	if s.o.Client.IsValid() && addressOf(c) != s.o.Client {
		return errors.New("this server is there for another client")
	}
	return nil
}

// admit makes a session of a connection, or says why not.
func (s *Server) admit(c net.Conn) (*session, error) {
	if err := s.welcome(c); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, net.ErrClosed
	}
	if len(s.sessions) >= s.o.MaxSessions {
		return nil, fmt.Errorf("there are %d sessions already", len(s.sessions))
	}
	x := &session{Conn: c, s: s, client: addressOf(c), ends: time.Now().Add(s.o.MaxDuration)}
	s.sessions[c.RemoteAddr().String()] = x
	s.busy.Add(1)
	return x, nil
}

// of finds the session of a connection that the library speaks of.
func (s *Server) of(cc library.ClientContext) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[cc.RemoteAddr().String()]
}

// door is the listener at which sessions begin.
type door struct {
	net.Listener
	s       *Server
	closing sync.Once
	closed  error
}

// Accept returns the next client that is served.
func (d *door) Accept() (net.Conn, error) {
	for {
		c, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		x, err := d.s.admit(c)
		if err == nil {
			if err = d.s.pool.add(x); err == nil {
				return x, nil
			}
			d.s.depart(x)
			continue
		}
		d.s.log.Warn("FTP session refused", "client", c.RemoteAddr().String(), "error", err)
		_ = c.Close() // it was not even greeted
	}
}

// Close may be called again.
func (d *door) Close() error {
	d.closing.Do(func() {
		d.s.pool.remove(d)
		d.closed = d.Listener.Close()
	})
	return d.closed
}

// depart forgets a session that has ended.
func (s *Server) depart(x *session) {
	_ = x.Close() // the library does not always
	s.mu.Lock()
	key := x.RemoteAddr().String()
	known := s.sessions[key] == x
	if known {
		delete(s.sessions, key)
	}
	s.mu.Unlock()
	if known {
		s.busy.Done()
	}
}

// driver is what the library asks.
type driver struct {
	s        *Server
	listener net.Listener
}

// dataWait is how long a client may take to open the data connection of a
// transfer that it asked for.
const dataWait = 10 * time.Second

// GetSettings tells the library what to do by itself. How long a session may
// last and idle is the session's own to watch over, since the library knows
// nothing of transfers in progress there.
func (d *driver) GetSettings() (*library.Settings, error) {
	settings := &library.Settings{
		Listener: d.listener, Banner: "hopbench",
		IdleTimeout: int(d.s.o.MaxDuration/time.Second) + 1, ConnectionTimeout: int(dataWait / time.Second),
		DisableActiveMode: true, DisableSite: true, DisableMFMT: true, EnableHASH: true,
		DefaultTransferType: library.TransferTypeBinary, DisableASCIIConversion: true,
	}
	return settings, nil
}

// ClientConnected greets.
func (d *driver) ClientConnected(library.ClientContext) (string, error) {
	return "hopbench: files are made as they are read", nil
}

// ClientDisconnected is told of the end of every session.
func (d *driver) ClientDisconnected(cc library.ClientContext) {
	if x := d.s.of(cc); x != nil {
		d.s.depart(x)
	}
}

// AuthUser lets a client in.
func (d *driver) AuthUser(cc library.ClientContext, user, password string) (library.ClientDriver, error) {
	x := d.s.of(cc)
	if x == nil {
		return nil, net.ErrClosed
	}
	o := d.s.o
	switch {
	case o.User == "" && user != "anonymous" && user != "ftp":
		return nil, errors.New("log in as anonymous")
	case o.User != "" && subtle.ConstantTimeCompare([]byte(user+"\x00"+password), []byte(o.User+"\x00"+o.Password)) != 1:
		return nil, errors.New("wrong user or password")
	}
	return newFiles(x), nil
}

// GetTLSConfig says that there is none.
func (d *driver) GetTLSConfig() (*tls.Config, error) { return nil, errors.New("no TLS here") }

// WrapPassiveListener takes over the listener of a data connection.
func (d *driver) WrapPassiveListener(ln net.Listener) (net.Listener, error) {
	w := &dataListener{Listener: ln, s: d.s, unused: func() error { return nil }}
	if d.s.o.Ports != (Ports{}) {
		// The library's own range of ports is for IPv4 alone. Its listener, on
		// which it sets a deadline, stays open for that, and nobody is told of it.
		ours, err := Listen(context.Background(), netip.Addr{}, d.s.o.Ports)
		if err != nil {
			return nil, errors.Join(err, ln.Close())
		}
		w.Listener, w.unused = ours, ln.Close
	}
	return w, d.s.pool.add(w)
}

// dataListener waits for one data connection. That it comes from the client of
// the session is the library's to see.
type dataListener struct {
	net.Listener
	s       *Server
	unused  func() error // closes what was replaced
	closing sync.Once
	closed  error
}

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
		if err := l.s.welcome(c); err != nil {
			l.s.log.Warn("FTP data connection refused", "client", c.RemoteAddr().String(), "error", err)
			_ = c.Close() // nothing was said
			continue
		}
		l.s.mark(c)
		return newDataConn(c, &l.s.pool, nil, l.s.o.Watch)
	}
}

// mark sets the DSCP of a connection.
func (s *Server) mark(c net.Conn) {
	tcp, ok := c.(*net.TCPConn)
	if !ok || s.o.DSCP == 0 {
		return
	}
	conn, err := sockets.Attach(tcp)
	if err == nil {
		err = conn.SetOptions(sockets.Options{DSCP: s.o.DSCP})
	}
	if err != nil {
		s.log.Warn("mark the packets of a data connection", "error", err)
	}
}

func (l *dataListener) Close() error {
	l.closing.Do(func() {
		l.s.pool.remove(l)
		l.closed = errors.Join(l.Listener.Close(), l.unused())
	})
	return l.closed
}
