//go:build !linux

package sockets

import (
	"net"
	"net/netip"
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
