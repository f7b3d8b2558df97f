//go:build !linux

package sockets

import (
	"errors"
	"fmt"
	"net"
	"os"
	"reflect"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/sockets/tcpstate"
)

// Conn is a connected socket behind the runtime's network poller, with
// the interface that blocking sockets have on Linux.
type Conn struct {
	sock   net.Conn
	wait   time.Duration // of a Read
	closed atomic.Bool
	// peeked is a byte that Readable took.
	mu     sync.Mutex
	peeked []byte
}

// detach wraps c, which the Conn now owns.
func detach(c net.Conn) (*Conn, error) {
	if err := c.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	return &Conn{sock: c, wait: Tick}, nil
}

// Attach is Detach: every socket is in the poller here.
func Attach(c *net.TCPConn) (*Conn, error) {
	conn, err := detach(c)
	if err == nil {
		conn.wait = AttachedTick
	}
	return conn, err
}

// Detach shortens the Tick; the socket stays in the poller.
func (c *Conn) Detach() error {
	c.wait = Tick
	return nil
}

// Attached says whether the runtime's poller knows the socket.
func (c *Conn) Attached() bool { return true }

func tick(n int, err error) (int, error) {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		if n > 0 {
			return n, nil
		}
		return 0, ErrTick
	}
	return n, err
}

// Read reads into p as net.Conn would, or returns ErrTick.
func (c *Conn) Read(p []byte) (int, error) { return c.read(p, c.wait) }

func (c *Conn) read(p []byte, wait time.Duration) (int, error) {
	c.mu.Lock()
	if len(c.peeked) > 0 {
		n := copy(p, c.peeked)
		c.peeked = c.peeked[n:]
		c.mu.Unlock()
		return n, nil
	}
	c.mu.Unlock()
	if err := c.sock.SetReadDeadline(time.Now().Add(wait)); err != nil {
		return 0, err
	}
	return tick(c.sock.Read(p))
}

// Discard reads into p; only Linux can drop bytes without copying them.
func (c *Conn) Discard(p []byte) (int, error) { return c.Read(p) }

// ReadOver is Read of up to n bytes that nobody looks at.
func (c *Conn) ReadOver(p []byte, n, _ int) (int, error) { return c.Read(p[:min(n, len(p))]) }

// DiscardsInKernel says whether Discard saves the copy.
func (c *Conn) DiscardsInKernel() bool { return false }

// Write sends what it can of p within a Tick.
func (c *Conn) Write(p []byte) (int, error) {
	if err := c.sock.SetWriteDeadline(time.Now().Add(c.wait)); err != nil {
		return 0, err
	}
	return tick(c.sock.Write(p))
}

// WriteMore is Write; only Linux can hold bytes back.
func (c *Conn) WriteMore(p []byte) (int, error) { return c.Write(p) }

// Readable says whether bytes, the end, or an error wait. It waits for up to
// a millisecond, because an expired deadline would hide bytes that are there.
func (c *Conn) Readable() bool {
	var b [1]byte
	n, err := c.read(b[:], shortest)
	if n > 0 {
		c.mu.Lock()
		c.peeked = append(c.peeked, b[0])
		c.mu.Unlock()
	}
	return !errors.Is(err, ErrTick)
}

// Interrupt ends the connection and wakes whoever blocks in a transfer.
func (c *Conn) Interrupt() {
	// The owner's next transfer reports the end; its Close reports errors.
	_ = c.Close()
}

// CloseWrite says that nothing more will be sent. Where the other end has left already,
// with all that it wanted, nobody is left to tell, and that is no error.
func (c *Conn) CloseWrite() error {
	if tcp, ok := c.sock.(*net.TCPConn); ok {
		if err := tcp.CloseWrite(); !errors.Is(err, syscall.ENOTCONN) {
			return err
		}
	}
	return nil
}

// Close closes the socket; what was written is still delivered.
func (c *Conn) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	return c.sock.Close()
}

// Abort closes the socket and throws away what was not yet sent.
func (c *Conn) Abort() error {
	if c.closed.Load() {
		return nil
	}
	var err error
	if tcp, ok := c.sock.(*net.TCPConn); ok {
		err = tcp.SetLinger(0)
	}
	return errors.Join(err, c.Close())
}

// Lock does nothing here: transfers go through the runtime's network poller.
func Lock() func() { return func() {} }

// Keeper does nothing here: no flow has a thread.
type Keeper struct{}

// NewKeeper has nothing to keep.
func NewKeeper(int) *Keeper { return nil }

// KeepProcessor does nothing here, either.
func (c *Conn) KeepProcessor(*Keeper) {}

// ask runs f on the descriptor while it is sure to be open.
func (c *Conn) ask(f func(fd uintptr) error) error {
	sock, ok := c.sock.(syscall.Conn)
	if !ok {
		return ErrUnsupported
	}
	raw, err := sock.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	err = raw.Control(func(fd uintptr) { inner = f(fd) })
	return errors.Join(err, inner)
}

// TCPInfo samples what the system knows of the connection, At a given time.
func (c *Conn) TCPInfo(at time.Duration) (*measurement.TCPInfo, error) {
	info := &measurement.TCPInfo{}
	err := c.ask(func(fd uintptr) (err error) {
		*info, err = tcpstate.Read(int(fd), at)
		return err
	})
	return info, err
}

// MSS is the largest segment this end sends, 0 if unknown.
func (c *Conn) MSS() int { return c.value(tcpstate.MSS) }

// InForce is what of the options the system says of a connected socket.
func (c *Conn) InForce() Options {
	return Options{SendBuffer: c.value(tcpstate.SendBuffer), ReceiveBuffer: c.value(tcpstate.ReceiveBuffer), MSS: c.MSS()}
}

// value asks for one of a connection, 0 once it is closed.
func (c *Conn) value(of func(fd int) int) (v int) {
	_ = c.ask(func(fd uintptr) error {
		v = of(int(fd))
		return nil
	})
	return v
}

// CongestionControl is unknown here.
func (c *Conn) CongestionControl() string { return "" }

// CongestionControlOf is unknown here.
func CongestionControlOf(syscall.Conn) string { return "" }

// NoDelay turns Nagle's algorithm off.
func (c *Conn) NoDelay() error {
	if tcp, ok := c.sock.(*net.TCPConn); ok {
		return tcp.SetNoDelay(true)
	}
	return nil
}

// Acknowledged is not known here.
func (c *Conn) Acknowledged() (bytes int64, info measurement.TCPInfo, ok bool) {
	return 0, measurement.TCPInfo{}, false
}

// ClampWindow is not supported here.
func (c *Conn) ClampWindow(int) error { return ErrUnsupported }

// RenewClamp is not supported here.
func (c *Conn) RenewClamp(int) error { return ErrUnsupported }

// WindowClamp is unknown here.
func (c *Conn) WindowClamp() int { return 0 }

// ReceivedTTL is unknown here.
func (c *Conn) ReceivedTTL() int { return 0 }

// shortest is the shortest wait here: an expired deadline would hide bytes
// that are there.
const shortest = time.Millisecond

// TryRead reads what comes within a millisecond, or returns ErrTick.
func (c *Conn) TryRead(p []byte) (int, error) { return c.read(p, shortest) }

// TryWrite is Write here.
func (c *Conn) TryWrite(p []byte) (int, error) { return c.Write(p) }

// ReadWithin is a Read that waits for wait at most, but for a millisecond at
// least; with orWrite, no longer than that.
func (c *Conn) ReadWithin(p []byte, wait time.Duration, orWrite bool) (int, error) {
	if orWrite {
		wait = shortest
	}
	return c.read(p, max(wait, shortest))
}

// EnableReceiveStamps is not supported here.
func (c *Conn) EnableReceiveStamps() error { return ErrUnsupported }

// ReadStamped is not supported here.
func (c *Conn) ReadStamped([]byte, bool) (int, time.Time, error) {
	return 0, time.Time{}, ErrUnsupported
}

type payloadPipes struct{}

func (*payloadPipes) pageBytes() int { return 0 }
func (*payloadPipes) close() error   { return nil }

// NewPipedPayload is not supported here.
func NewPipedPayload() (*Payload, error) { return nil, ErrUnsupported }

// SendPayload sends up to n bytes of payload, as Write does.
func (c *Conn) SendPayload(p *Payload, n, _ int) (int, error) {
	return c.Write(p.buf[:min(n, len(p.buf))])
}

// TakePipe does nothing here: no payload is piped.
func (c *Conn) TakePipe(*Payload, int, int) error { return nil }

// SharePipe does nothing here: no payload is piped.
func (c *Conn) SharePipe(*Payload, int) error { return nil }

// Control refuses what cannot be set on this system; the buffers are set when
// the connection exists. It is a net.Dialer's Control.
func (o Options) Control(_, _ string, _ syscall.RawConn) error {
	var errs []error
	for i, all := 0, reflect.ValueOf(o); i < all.NumField(); i++ {
		if what := all.Type().Field(i).Tag.Get("linux"); what != "" && !all.Field(i).IsZero() {
			errs = append(errs, fmt.Errorf("set %s: %w", what, ErrUnsupported))
		}
	}
	return errors.Join(errs...)
}

// SetOptions sets the buffers, and refuses what cannot be set on this system.
func (c *Conn) SetOptions(o Options) error {
	err := o.Control("", "", nil)
	tcp, ok := c.sock.(*net.TCPConn)
	if !ok {
		return err
	}
	if o.SendBuffer > 0 {
		err = errors.Join(err, tcp.SetWriteBuffer(o.SendBuffer))
	}
	if o.ReceiveBuffer > 0 {
		err = errors.Join(err, tcp.SetReadBuffer(o.ReceiveBuffer))
	}
	return err
}

// SetPacing is not supported here.
func (c *Conn) SetPacing(float64) error { return ErrUnsupported }

// MultipathTCP is false: only Linux has it.
func (c *Conn) MultipathTCP() bool { return false }

// SetReceiveLowWater does nothing here.
func (c *Conn) SetReceiveLowWater(int, time.Duration) error { return nil }

// Unacknowledged is unknown here.
func (c *Conn) Unacknowledged() int64 { return 0 }

// Unread is unknown here.
func (c *Conn) Unread() int64 { return 0 }

// OutOfOrder is unknown here.
func (c *Conn) OutOfOrder() int64 { return 0 }

// LostInARow is unknown here.
func (c *Conn) LostInARow() int { return 0 }
