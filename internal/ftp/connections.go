package ftp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hopbench/hopbench/internal/sockets"
)

// ErrMalformed is what the other end's breaches of the protocol wrap.
var ErrMalformed = errors.New("not the FTP that was expected")

// pool is the connections and listeners that an end has open. It closes them
// when the end does, whatever the library knows of them.
type pool struct {
	mu     sync.Mutex
	open   map[io.Closer]struct{}
	closed bool
}

// add takes c in, or closes it because the end is closed.
func (p *pool) add(c io.Closer) error {
	if p.keep(c) {
		return nil
	}
	return errors.Join(net.ErrClosed, c.Close()) // without the lock, which it takes
}

func (p *pool) keep(c io.Closer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	if p.open == nil {
		p.open = map[io.Closer]struct{}{}
	}
	p.open[c] = struct{}{}
	return true
}

func (p *pool) ended() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

func (p *pool) remove(c io.Closer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, c)
}

// close closes all that is open and all that will come.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	all := slices.Collect(maps.Keys(p.open))
	p.mu.Unlock()
	for _, c := range all { // each removes itself
		_ = c.Close() // whatever it says, it is over
	}
}

// dataConn is a data connection that may neither stand still nor trickle. It hides
// what else its connection can do, so that every byte passes here.
type dataConn struct {
	net.Conn
	moved *atomic.Int64 // of the end, in both directions
	close func() error
	// socket is asked what the system sent; nil where nobody can be asked.
	socket *sockets.Conn
	// whole says that all was written that this end was to send.
	whole atomic.Bool

	// What follows belongs to the goroutine that transfers.
	window               time.Duration
	ends                 time.Time // of the window
	inWindow, sentBefore int64     // what moved in it, and was sent before it
}

// newDataConn takes c over; prepare, which may be nil, gives the connection to use in place of it.
// Watch, which may be nil, too, is called with it and its socket, and what it returns before the
// connection is closed. All this is before the pool has it, which may close it at any moment.
func newDataConn(c net.Conn, p *pool, moved *atomic.Int64, prepare func(*net.TCPConn) (net.Conn, error), watch func(net.Conn, *sockets.Conn) func()) (_ *dataConn, err error) {
	d := &dataConn{Conn: c, moved: moved, window: stallTimeout}
	taken := false
	defer func() {
		if !taken { // also where the owner of prepare or watch panics
			_ = c.Close()
		}
	}()
	if tcp, ok := c.(*net.TCPConn); ok {
		d.socket, _ = sockets.Attach(tcp) // the connection itself will say why not
		if prepare != nil {
			if d.Conn, err = prepare(tcp); err != nil {
				return nil, err
			}
		}
	}
	unwatch := func() {}
	if watch != nil && d.socket != nil {
		unwatch = watch(c, d.socket)
	}
	d.close = sync.OnceValue(func() error {
		d.drain(p)
		unwatch()
		p.remove(d)
		return c.Close()
	})
	if err := p.add(d); err != nil {
		return nil, err
	}
	taken = true
	return d, nil
}

func (d *dataConn) Read(p []byte) (int, error) {
	for {
		if err := d.renew(); err != nil {
			return 0, err
		}
		n, err := d.Conn.Read(p)
		d.count(n)
		if err = d.judge(err); n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
	}
}

func (d *dataConn) Write(p []byte) (int, error) {
	for done := 0; ; {
		if err := d.renew(); err != nil {
			return done, err
		}
		n, err := d.Conn.Write(p[done:min(done+chunkBytes, len(p))])
		d.count(n)
		done += n
		if err = d.judge(err); done == len(p) || err != nil {
			d.whole.Store(err == nil)
			return done, err
		}
	}
}

// drainTick is how often a connection that drains is looked at.
const drainTick = 20 * time.Millisecond

// drain says that nothing more comes, and waits until the other end has what was written, for
// the system may hold all of a file: who watches the connection sees the whole transfer, and the
// reply to it need not wait for the data. It gives up where that moves no more, or the end ends.
func (d *dataConn) drain(p *pool) {
	c, ok := d.Conn.(*net.TCPConn) // as whatever sends is
	if !ok || d.socket == nil || p.ended() || !d.whole.Load() || c.CloseWrite() != nil {
		return
	}
	for d.socket.Unacknowledged() > 0 && !p.ended() {
		now := time.Now()
		if !now.Before(d.ends) && d.judge(os.ErrDeadlineExceeded) != nil || d.renew() != nil || d.SetReadDeadline(now.Add(drainTick)) != nil {
			return
		}
		// The other end says nothing but that it has all, too.
		if _, err := d.Conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
	}
}

func (d *dataConn) count(n int) {
	d.inWindow += int64(n)
	d.moved.Add(int64(n))
}

// renew begins a window after the one before.
func (d *dataConn) renew() error {
	now := time.Now()
	if now.Before(d.ends) {
		return nil
	}
	d.ends, d.inWindow, d.sentBefore = now.Add(d.window), 0, d.sentSoFar()
	return d.SetDeadline(d.ends)
}

// judge is what err comes to: where it is the end of the window, and enough moved in
// that, nothing. What the system sent counts too: on a slow path its buffer takes
// more from time to time only.
func (d *dataConn) judge(err error) error {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	if moved := max(d.inWindow, d.sentSoFar()-d.sentBefore); moved < leastBytes {
		return fmt.Errorf("the data connection moved %d bytes in %v, it must be %d: %w", moved, d.window, leastBytes, err)
	}
	return nil
}

func (d *dataConn) sentSoFar() int64 {
	if d.socket == nil {
		return 0
	}
	info, err := d.socket.TCPInfo(0)
	if err != nil {
		return 0
	}
	return info.SentBytes - info.RetransmittedBytes
}

// RemoteAddr has no zone of IPv6, which the library takes for no address.
func (d *dataConn) RemoteAddr() net.Addr {
	a, ok := d.Conn.RemoteAddr().(*net.TCPAddr)
	if !ok || a.Zone == "" {
		return d.Conn.RemoteAddr()
	}
	return &net.TCPAddr{IP: a.IP, Port: a.Port}
}

// Close may be called again.
func (d *dataConn) Close() error { return d.close() }

// controlConn is a client's control connection: what is read is bounded in time
// and length from each command on.
type controlConn struct {
	net.Conn
	close func() error
	// transfers is called when a command is about to be sent that begins one.
	transfers func()
	// left is how much of a reply may still come.
	left     int
	greeting []byte
}

func newControlConn(c net.Conn, p *pool, transfers func()) (*controlConn, error) {
	control := &controlConn{Conn: c, transfers: transfers, left: maxReplyBytes}
	control.close = sync.OnceValue(func() error {
		p.remove(control)
		return c.Close()
	})
	if err := p.add(control); err != nil {
		return nil, err
	}
	return control, c.SetDeadline(time.Now().Add(replyTimeout))
}

func (c *controlConn) Write(p []byte) (int, error) {
	c.left = maxReplyBytes
	if err := c.SetDeadline(time.Now().Add(replyTimeout)); err != nil {
		return 0, err
	}
	if bytes.HasPrefix(p, []byte("RETR ")) || bytes.HasPrefix(p, []byte("STOR ")) {
		c.transfers()
	}
	return c.Conn.Write(p)
}

func (c *controlConn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, fmt.Errorf("%w: a reply of more than %d bytes", ErrMalformed, maxReplyBytes)
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	if c.greeting == nil {
		c.greeting = bytes.Clone(p[:n])
	}
	return n, err
}

func (c *controlConn) Close() error { return c.close() }
