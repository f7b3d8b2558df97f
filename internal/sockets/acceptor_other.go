//go:build !linux

package sockets

import (
	"errors"
	"net"
	"net/netip"
	"time"
)

// Acceptor is a listening TCP socket. One goroutine accepts; others may Shutdown.
type Acceptor struct{ ln *net.TCPListener }

// NewAcceptor wraps ln, which the Acceptor now owns.
func NewAcceptor(ln *net.TCPListener) (*Acceptor, error) { return &Acceptor{ln}, nil }

// Addr is the address that is listened on.
func (a *Acceptor) Addr() net.Addr { return a.ln.Addr() }

// Expect changes nothing here.
func (a *Acceptor) Expect(bool) {}

// Accept waits for a connection.
func (a *Acceptor) Accept() (Incoming, error) {
	c, err := a.ln.Accept()
	if err != nil {
		return Incoming{}, err
	}
	return Incoming{c: c, From: c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()}, nil
}

// Shutdown wakes whoever accepts and lets nobody accept any more.
func (a *Acceptor) Shutdown() {
	_ = a.ln.Close() // it fails only when it is closed already
}

// Close does nothing more here: Shutdown has closed the listener.
func (a *Acceptor) Close() error { return nil }

// Incoming is an accepted connection that nobody has read from yet.
type Incoming struct {
	c    net.Conn
	From netip.Addr
}

// Peek sees nothing here: every connection goes the usual way.
func (in Incoming) Peek([]byte) int { return 0 }

// Answer is never called here, since Peek sees nothing.
func (in Incoming) Answer([]byte, []byte, int) bool {
	in.Close()
	return false
}

// Close ends the connection.
func (in Incoming) Close() {
	_ = in.c.Close() // nothing was written
}

// Conn hands the connection over.
func (in *Incoming) Conn() (net.Conn, error) { return in.c, nil }

// Connector makes one TCP connection after another from and to the same
// addresses. It belongs to one goroutine.
type Connector struct {
	// Conn is the connection made last.
	*Conn
	options ConnectOptions
}

// ConnectOptions are the addresses and the marks of a Connector's packets.
type ConnectOptions struct {
	Remote  netip.AddrPort
	Local   netip.Addr // may be invalid: the system chooses
	Device  string     // not supported here
	DSCP    int        // not supported here
	NoDelay bool       // always on here
}

// connectWait bounds one connection here, where waiting cannot be resumed.
const connectWait = 5 * time.Second

// NewConnector prepares connections; it makes none yet.
func NewConnector(o ConnectOptions) (*Connector, error) {
	if o.Device != "" || o.DSCP != 0 {
		return nil, ErrUnsupported
	}
	return &Connector{options: o}, nil
}

// Connect makes a connection.
func (k *Connector) Connect() error {
	dialer := net.Dialer{Timeout: connectWait}
	if k.options.Local.IsValid() {
		dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(k.options.Local, 0))
	}
	c, err := dialer.Dial("tcp", k.options.Remote.String())
	if err != nil {
		return err
	}
	k.Conn, err = Detach(c.(*net.TCPConn))
	if err != nil {
		return errors.Join(err, c.Close())
	}
	return nil
}

// Close ends the connection made last; it may be called without one.
func (k *Connector) Close() error {
	if k.Conn == nil {
		return nil
	}
	c := k.Conn
	k.Conn = nil
	return c.Close()
}
