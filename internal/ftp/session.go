package ftp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"runtime/debug"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/printable"
)

// bounds are those in time of a server's sessions.
type bounds struct{ login, command, quiet, window, ending time.Duration }

// session is a client's control connection at the server, and owns what belongs to
// it: a listener and a data connection at most. One timer bounds it, whatever the
// client or the library does meanwhile; the length of a command the library bounds.
type session struct {
	net.Conn
	s      *Server
	client netip.Addr
	// giveBack ends what was taken for the session.
	giveBack func()
	pool     pool // of the data connection and its listener

	writing sync.Mutex
	close   func() error

	mu       sync.Mutex
	timer    *time.Timer // nil once the session is closed
	ends     time.Time
	login    time.Time // by then; zero when it is done
	quiet    time.Time // until then without a transfer
	idle     time.Time // since then without a transfer
	rest     time.Time // of a command that has begun, by then; zero when none has
	partial  bool      // a command has begun
	passive  io.Closer // the listener that was asked for last
	transfer *handle   // in progress
}

func newSession(c net.Conn, s *Server) *session {
	now := time.Now()
	x := &session{Conn: c, s: s, client: addressOf(c), ends: now.Add(s.o.MaxDuration), login: now.Add(s.bounds.login)}
	x.close = sync.OnceValue(func() error {
		x.mu.Lock()
		x.timer.Stop()
		x.timer = nil
		x.mu.Unlock()
		s.pool.remove(x)
		err := c.Close()
		x.pool.close()
		return err
	})
	x.mu.Lock()
	defer x.mu.Unlock()
	x.timer = time.AfterFunc(time.Until(x.login), x.expire)
	return x
}

// bound is when the session ends as things are, and why.
func (x *session) bound() (time.Time, string) {
	at, why := x.ends, fmt.Sprintf("a session lasts %v at most", x.s.o.MaxDuration)
	earlier := func(t time.Time, reason string) {
		if t.Before(at) {
			at, why = t, reason
		}
	}
	if x.s.draining.Load() && x.transfer == nil {
		earlier(x.idle.Add(x.s.bounds.ending), "this server is ending")
	}
	if !x.rest.IsZero() {
		earlier(x.rest, fmt.Sprintf("a command must be complete within %v", x.s.bounds.command))
	}
	if !x.login.IsZero() {
		earlier(x.login, fmt.Sprintf("log in within %v", x.s.bounds.login))
	} else if x.transfer == nil {
		earlier(x.quiet, fmt.Sprintf("no data was transferred for %v", x.s.bounds.quiet))
	}
	return at, why
}

// change moves the timer to where a change of the session's state puts the bound.
func (x *session) change(state func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	state()
	if x.timer != nil {
		at, _ := x.bound()
		x.timer.Reset(time.Until(at))
	}
}

// expire is called by the timer.
func (x *session) expire() {
	x.mu.Lock()
	at, why := x.bound()
	early := time.Until(at)
	if early > 0 && x.timer != nil { // the state changed just now
		x.timer.Reset(early)
	}
	x.mu.Unlock()
	if early <= 0 {
		x.end(why)
	}
}

// end tells the client why its session ends, where it listens, and ends it.
func (x *session) end(why string) {
	// A reply that is being written comes first, unless the client does not take it.
	_ = x.Conn.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	x.writing.Lock()
	sayGoodbye(x.Conn, why)
	x.writing.Unlock()
	_ = x.Close() // whatever it says, it is over
}

// sayGoodbye is the reply for a session that the server ends (RFC 959, 5.4). A
// client that does not take it at once goes without.
func sayGoodbye(c net.Conn, why string) {
	if c.SetWriteDeadline(time.Now().Add(100*time.Millisecond)) == nil {
		_, _ = fmt.Fprintf(c, "421 %s\r\n", why)
	}
}

// loggedIn begins the time in which there must be a transfer.
func (x *session) loggedIn() {
	x.change(func() { x.login, x.idle, x.quiet = time.Time{}, time.Now(), time.Now().Add(x.s.bounds.quiet) })
}

// began has a transfer in progress.
func (x *session) began(h *handle) { x.change(func() { x.transfer = h }) }

// ended has none. One that moved nothing was none.
func (x *session) ended(moved int64) {
	x.change(func() {
		x.transfer, x.idle = nil, time.Now()
		if moved > 0 {
			x.quiet = time.Now().Add(x.s.bounds.quiet)
		}
	})
}

// listen takes a listener over in place of the one before, which the library may
// have forgotten: it does so with PASV over IPv6, and after PROT P.
func (x *session) listen(open func() (net.Listener, error)) (net.Listener, error) {
	x.mu.Lock()
	before := x.passive
	x.passive = nil
	x.mu.Unlock()
	if before != nil {
		_ = before.Close() // it was the session's own
	}
	ln, err := open()
	if err != nil {
		return nil, err
	}
	x.mu.Lock()
	x.passive = ln
	x.mu.Unlock()
	return ln, x.pool.add(ln)
}

// errFault is what the library is told after a fault of this program.
var errFault = fmt.Errorf("a fault of this program ended the session: %w", net.ErrClosed)

// guard is deferred where a panic must end the session, and not the process.
func (x *session) guard(err *error) {
	if r := recover(); r != nil {
		x.fault(r)
		*err = errFault
	}
}

// fault logs a panic, on top of which it is called, and ends the session.
func (x *session) fault(cause any) {
	x.s.log.Error("a fault of this program ended an FTP session", "client", x.RemoteAddr().String(),
		"panic", printable.Line(fmt.Sprint(cause), 200), "stack", string(debug.Stack()))
	go x.end("a fault of this server") // not here, which may be in the midst of its end
}

// faults is the library's log, of which one line matters: it recovers from a panic
// in a command by itself and goes on, as if the session could.
type faults struct {
	slog.Handler
	x *session
}

// The library's words; TestPanicEndsTheSession knows when they change.
const commandPanic = "Internal command handling error"

func (f faults) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (f faults) Handle(_ context.Context, r slog.Record) error {
	if r.Message != commandPanic {
		return nil
	}
	said := map[string]any{}
	r.Attrs(func(a slog.Attr) bool { said[a.Key] = a.Value.Any(); return true })
	f.x.fault(said["err"])
	switch said["command"] {
	case "RETR", "STOR", "APPE": // this goroutine's transfer, to whose end the library does not come now
		f.x.mu.Lock()
		h := f.x.transfer
		f.x.mu.Unlock()
		if h != nil {
			_ = h.Close() // the client is told nothing more
		}
	}
	return nil
}

func (f faults) WithAttrs([]slog.Attr) slog.Handler { return f }

func (f faults) WithGroup(string) slog.Handler { return f }

func (x *session) Read(p []byte) (n int, err error) {
	defer x.guard(&err)
	x.change(func() {
		if x.partial && x.rest.IsZero() {
			x.rest = time.Now().Add(x.s.bounds.command)
		}
	})
	n, err = x.Conn.Read(p)
	x.change(func() {
		if n > 0 {
			x.partial = p[n-1] != '\n'
		}
		if bytes.IndexByte(p[:n], '\n') >= 0 {
			x.rest = time.Time{}
		}
	})
	return n, err
}

func (x *session) Write(p []byte) (n int, err error) {
	defer x.guard(&err)
	x.writing.Lock()
	defer x.writing.Unlock()
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

// Close closes all that is the session's. It may be called again.
func (x *session) Close() error { return x.close() }
