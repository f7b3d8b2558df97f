package ftp

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// session is a client's control connection at the server. It bounds the time of
// the session, and the time without a command or a transfer; the length of a
// command the library bounds.
type session struct {
	net.Conn
	s       *Server
	client  netip.Addr
	ends    time.Time
	active  atomic.Int32 // transfers in progress
	closing sync.Once
	closed  error
}

func (x *session) Read(p []byte) (int, error) {
	for {
		deadline := time.Now().Add(idleTimeout)
		if deadline.After(x.ends) {
			deadline = x.ends
		}
		if err := x.Conn.SetReadDeadline(deadline); err != nil {
			return 0, err
		}
		n, err := x.Conn.Read(p)
		if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && x.active.Load() > 0 && time.Now().Before(x.ends) {
			continue // the client waits for its transfer
		}
		return n, err
	}
}

func (x *session) Write(p []byte) (int, error) {
	if err := x.Conn.SetWriteDeadline(time.Now().Add(replyTimeout)); err != nil {
		return 0, err
	}
	return x.Conn.Write(p)
}

// SetDeadline, SetReadDeadline and SetWriteDeadline leave the time to the session.
func (x *session) SetDeadline(time.Time) error { return nil }

// SetReadDeadline is SetDeadline.
func (x *session) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline is SetDeadline.
func (x *session) SetWriteDeadline(time.Time) error { return nil }

// Close may be called again.
func (x *session) Close() error {
	x.closing.Do(func() {
		x.s.pool.remove(x)
		x.closed = x.Conn.Close()
	})
	return x.closed
}
