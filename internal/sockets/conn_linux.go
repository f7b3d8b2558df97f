package sockets

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/sockets/tcpstate"
)

// Conn is a connected TCP socket. Detached, it is in blocking mode and unknown
// to the runtime's network poller: a transfer blocks its thread in the kernel
// for at most a Tick. Attached, a transfer that has to wait parks its goroutine
// in the runtime's poller (one epoll instance for all of the process) for at
// most an AttachedTick, and no thread. One goroutine transfers, which should be
// locked to its thread when the Conn is detached; others may call Interrupt,
// TCPInfo and the other methods that only ask.
type Conn struct {
	fd int
	// mu keeps the descriptor from being closed, and its number reused, while
	// another goroutine asks something of it.
	mu     sync.RWMutex
	closed bool
	// attached is the socket while the poller knows it, nil afterwards.
	attached *net.TCPConn
	raw      syscall.RawConn
	try      func(fd uintptr) bool
	taken    int // bytes in this turn
	// call and keeper belong to the goroutine that transfers.
	call   call
	keeper *Keeper // may be nil
	// lowWater is how many bytes wake a receiver, 0 for any.
	lowWater atomic.Int64
	// pipe, unless nil, is what a payload is sent from that is not copied.
	pipe *payloadPipe
	// stamps is nil unless time stamps were asked for.
	stamps *stamps
}

// turn is how many bytes an attached Conn transfers before others get theirs;
// left alone, the scheduler would give each 10 ms.
const turn = 256 << 10

// Attach wraps c, which the Conn now owns, and leaves it in the poller.
func Attach(c *net.TCPConn) (*Conn, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("attach socket: %w", err)
	}
	conn := &Conn{attached: c, raw: raw}
	conn.try = conn.attempt
	err = raw.Control(func(fd uintptr) { conn.fd = int(fd) })
	if err = errors.Join(err, c.SetDeadline(time.Now().Add(AttachedTick))); err != nil {
		return nil, fmt.Errorf("attach socket: %w", err)
	}
	return conn, nil
}

// detach takes the socket of c out of the network poller and closes c.
func detach(c interface {
	syscall.Conn
	io.Closer
}) (*Conn, error) {
	fd, err := duplicate(c)
	if err != nil {
		return nil, err
	}
	conn := &Conn{fd: fd}
	if err := errors.Join(c.Close(), conn.block()); err != nil {
		return nil, fmt.Errorf("detach socket: %w", errors.Join(err, unix.Close(fd)))
	}
	return conn, nil
}

func duplicate(c syscall.Conn) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, fmt.Errorf("detach socket: %w", err)
	}
	fd := -1
	var inner error
	err = raw.Control(func(own uintptr) {
		fd, inner = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0)
	})
	if err = errors.Join(err, inner); err != nil {
		return -1, fmt.Errorf("detach socket: %w", err)
	}
	return fd, nil
}

// Detach takes an attached socket out of the network poller; a detached one
// stays as it is. The goroutine that transfers calls it.
func (c *Conn) Detach() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attached == nil || c.closed {
		return nil
	}
	fd, err := duplicate(c.attached)
	if err != nil {
		return err
	}
	err = c.attached.Close()
	c.attached, c.raw, c.fd = nil, nil, fd
	if err = errors.Join(err, c.block()); err != nil {
		return fmt.Errorf("detach socket: %w", err)
	}
	return nil
}

// Lock ties the calling goroutine, which is about to transfer on a detached
// Conn, to its thread, until the returned function is called.
func Lock() (unlock func()) {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}

func (c *Conn) block() error {
	return errors.Join(unix.SetNonblock(c.fd, false), c.setTick(Tick))
}

// setTick changes how long a transfer blocks at most, 0 for ever.
func (c *Conn) setTick(d time.Duration) error {
	tick := unix.NsecToTimeval(d.Nanoseconds())
	return errors.Join(
		unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tick),
		unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &tick),
	)
}

// call is one system call that transfers: send or recv of n bytes at p or, when trap
// is that of splice(2), of n bytes that come from a pipe.
type call struct {
	trap     uintptr
	p        unsafe.Pointer
	n, flags int
	pipe     int

	got   uintptr
	errno syscall.Errno
}

// attempt is the poller's callback: it says whether the call came to an end.
func (c *Conn) attempt(fd uintptr) bool {
	if c.call.trap == unix.SYS_SPLICE {
		c.attemptPayload(fd)
	} else {
		c.call.raw(fd)
	}
	return c.call.errno != unix.EAGAIN
}

// raw does a call that does not wait, or may keep the processor meanwhile, without telling
// the runtime's scheduler.
func (k *call) raw(fd uintptr) {
	if k.trap == unix.SYS_SPLICE {
		k.got, _, k.errno = syscall.RawSyscall6(k.trap, uintptr(k.pipe), 0, fd, 0, uintptr(k.n), uintptr(k.flags))
		return
	}
	k.got, _, k.errno = syscall.RawSyscall6(k.trap, fd, uintptr(k.p), uintptr(k.n), uintptr(k.flags), 0, 0)
}

// blocking does the call so that the scheduler may use the CPU meanwhile.
func (k *call) blocking(fd uintptr) {
	if k.trap == unix.SYS_SPLICE {
		k.got, _, k.errno = syscall.Syscall6(k.trap, uintptr(k.pipe), 0, fd, 0, uintptr(k.n), uintptr(k.flags))
		return
	}
	k.got, _, k.errno = syscall.Syscall6(k.trap, fd, uintptr(k.p), uintptr(k.n), uintptr(k.flags), 0, 0)
}

// transfer is one send or recv of n bytes at p.
func (c *Conn) transfer(trap uintptr, p unsafe.Pointer, n, flags int) (int, error) {
	c.call = call{trap: trap, p: p, n: n, flags: flags}
	return c.complete()
}

// complete does the call. A signal ends it like a Tick, of which the call would
// begin another.
func (c *Conn) complete() (int, error) {
	if c.attached == nil {
		if c.keeper.keeps() {
			c.call.raw(uintptr(c.fd))
		} else {
			c.call.blocking(uintptr(c.fd))
		}
		moved, err := tried(int(c.call.got), c.call.errno)
		c.keeper.count(moved)
		return moved, err
	}
	if err := c.park(); err != nil {
		return 0, err
	}
	return tried(int(c.call.got), c.call.errno)
}

// park does the call as soon as the poller says that it will not wait.
func (c *Conn) park() error {
	var err error
	if c.call.trap == unix.SYS_RECVFROM {
		err = c.raw.Read(c.try)
	} else {
		err = c.raw.Write(c.try)
	}
	if err == nil {
		if c.taken += int(c.call.got); c.taken >= turn {
			c.taken = 0
			runtime.Gosched()
		}
		return nil
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	if err := c.attached.SetDeadline(time.Now().Add(AttachedTick)); err != nil {
		return err
	}
	return ErrTick
}

// Read reads into p as net.Conn would, or returns ErrTick.
func (c *Conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	return c.receive(p, 0)
}

// Discard drops up to len(p) received bytes inside the kernel, without
// copying them to p (MSG_TRUNC, tcp(7)), and returns how many.
func (c *Conn) Discard(p []byte) (int, error) {
	return c.receive(p, unix.MSG_TRUNC)
}

// receive is one recv; 0 bytes are the end.
func (c *Conn) receive(p []byte, flags int) (int, error) {
	if c.batches() && flags&unix.MSG_DONTWAIT == 0 {
		if n, err := c.receive(p, flags|unix.MSG_DONTWAIT); !errors.Is(err, ErrTick) {
			return n, err
		}
	}
	n, err := c.transfer(unix.SYS_RECVFROM, unsafe.Pointer(unsafe.SliceData(p)), len(p), flags)
	if n == 0 && err == nil {
		return 0, io.EOF
	}
	return n, err
}

// DiscardsInKernel says whether Discard saves the copy.
func (c *Conn) DiscardsInKernel() bool { return true }

// Write sends what it can of p within a Tick: fewer bytes than len(p) come
// with a nil error when at least one was taken.
func (c *Conn) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	return c.transfer(unix.SYS_SENDTO, unsafe.Pointer(unsafe.SliceData(p)), len(p), unix.MSG_NOSIGNAL)
}

// WriteMore is Write for bytes that more will follow at once: the kernel may
// hold them back to fill a segment (MSG_MORE, send(2)).
func (c *Conn) WriteMore(p []byte) (int, error) {
	return c.transfer(unix.SYS_SENDTO, unsafe.Pointer(unsafe.SliceData(p)), len(p), unix.MSG_NOSIGNAL|unix.MSG_MORE)
}

// Readable says whether a Read would not block: bytes, the end, or an error wait.
func (c *Conn) Readable() bool {
	var b [1]byte
	_, _, errno := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(c.fd), uintptr(unsafe.Pointer(&b)), 1, unix.MSG_PEEK|unix.MSG_DONTWAIT, 0, 0)
	return errno != unix.EAGAIN
}

// Interrupt ends the connection in both directions and wakes whoever blocks
// in a transfer. It may be called at any time, more than once.
func (c *Conn) Interrupt() {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if !c.closed {
		// It fails only when the connection has already ended.
		_ = unix.Shutdown(c.fd, unix.SHUT_RDWR)
	}
}

// CloseWrite says that nothing more will be sent. Where the other end has left already,
// with all that it wanted, nobody is left to tell, and that is no error.
func (c *Conn) CloseWrite() error {
	if err := unix.Shutdown(c.fd, unix.SHUT_WR); !errors.Is(err, unix.ENOTCONN) {
		return err
	}
	return nil
}

// Close closes the socket; what was written is still delivered.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	var err error
	if c.pipe != nil && !c.pipe.shared {
		err = c.pipe.close()
	}
	if c.attached != nil {
		return errors.Join(err, c.attached.Close())
	}
	return errors.Join(err, unix.Close(c.fd))
}

// Attached says whether the runtime's poller knows the socket.
func (c *Conn) Attached() bool { return c.attached != nil }

// Abort closes the socket and throws away what was not yet sent, so that the
// rest of one trial does not travel during the next.
func (c *Conn) Abort() error {
	err := c.ask(func() error {
		return unix.SetsockoptLinger(c.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	})
	return errors.Join(err, c.Close())
}

// ask runs f while the descriptor is sure to be open.
func (c *Conn) ask(f func() error) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed {
		return nil
	}
	return f()
}

// TCPInfo samples what the kernel knows of the connection, At a given time.
func (c *Conn) TCPInfo(at time.Duration) (*measurement.TCPInfo, error) {
	raw, err := c.state()
	return raw.Info(at), err
}

// Acknowledged is how many bytes the other end's kernel has acknowledged, with the rest of
// what is known at that moment; false once the connection is closed.
func (c *Conn) Acknowledged() (bytes int64, info measurement.TCPInfo, ok bool) {
	raw, _ := c.state()
	return raw.Acknowledged()
}

func (c *Conn) state() (raw tcpstate.Raw, err error) {
	err = c.ask(func() (err error) {
		raw, err = tcpstate.Take(c.fd)
		return err
	})
	return raw, err
}

// OutOfOrder is how many segments came before one that was sent earlier, 0 if unknown.
func (c *Conn) OutOfOrder() int64 { return value(c, tcpstate.OutOfOrder) }

// LostInARow is how many times in a row the retransmission timer ran out without an answer since,
// 0 if unknown.
func (c *Conn) LostInARow() int { return value(c, tcpstate.LostInARow) }

// MSS is the largest segment this end sends, 0 if unknown.
func (c *Conn) MSS() int { return value(c, tcpstate.MSS) }

// value asks for one of a connection, the zero value once it is closed.
func value[T int | int64 | string](c *Conn, of func(fd int) T) (v T) {
	_ = c.ask(func() error {
		v = of(c.fd)
		return nil
	})
	return v
}
