package sockets

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Conn is a connected TCP socket in blocking mode that the runtime's network
// poller no longer knows. A transfer blocks its thread in the kernel for at
// most a Tick. One goroutine, which should be locked to its thread, transfers;
// others may call Interrupt, TCPInfo and the other methods that only ask.
type Conn struct {
	fd int
	// mu keeps the descriptor from being closed, and its number reused, while
	// another goroutine asks something of it.
	mu     sync.RWMutex
	closed bool
	// cpu belongs to the goroutine that transfers.
	cpu processor
}

// Detach takes the socket of c out of the network poller and closes c.
func Detach(c *net.TCPConn) (*Conn, error) { return detach(c) }

func detach(c interface {
	syscall.Conn
	io.Closer
}) (*Conn, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("detach socket: %w", err)
	}
	fd := -1
	var inner error
	err = raw.Control(func(own uintptr) {
		fd, inner = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0)
	})
	if err = errors.Join(err, inner); err != nil {
		return nil, fmt.Errorf("detach socket: %w", err)
	}
	conn := &Conn{fd: fd}
	if err := errors.Join(c.Close(), conn.block()); err != nil {
		return nil, fmt.Errorf("detach socket: %w", errors.Join(err, unix.Close(fd)))
	}
	return conn, nil
}

func (c *Conn) block() error {
	tick := unix.NsecToTimeval(Tick.Nanoseconds())
	return errors.Join(
		unix.SetNonblock(c.fd, false),
		unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tick),
		unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &tick),
	)
}

// transfer is one send or recv of n bytes at p, repeated when a signal
// interrupts it.
func (c *Conn) transfer(trap uintptr, p unsafe.Pointer, n, flags int) (int, error) {
	for {
		var got uintptr
		var errno syscall.Errno
		if c.cpu.held {
			got, _, errno = syscall.RawSyscall6(trap, uintptr(c.fd), uintptr(p), uintptr(n), uintptr(flags), 0, 0)
		} else {
			got, _, errno = syscall.Syscall6(trap, uintptr(c.fd), uintptr(p), uintptr(n), uintptr(flags), 0, 0)
		}
		switch errno {
		case 0:
			c.cpu.busy()
			return int(got), nil
		case unix.EINTR:
			// The runtime's signal to make way, for one: a raw call would wait
			// again, and be interrupted again, for as long as nothing comes.
			c.cpu.idle()
		case unix.EAGAIN:
			c.cpu.idle()
			return 0, ErrTick
		default:
			return 0, errno
		}
	}
}

// KeepProcessor says that small messages are exchanged on this connection: as
// long as they follow each other closely, and a processor can be spared, its
// thread keeps one while it waits. Read then ticks every 10 ms. The returned
// function, which the same goroutine calls, ends it.
func (c *Conn) KeepProcessor() (func(), error) {
	wait := unix.NsecToTimeval(rawWait.Nanoseconds())
	if err := unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
		return nil, fmt.Errorf("set the longest wait: %w", err)
	}
	c.cpu = newProcessor()
	return func() { c.cpu = processor{} }, nil
}

// Read reads into p as net.Conn would, or returns ErrTick.
func (c *Conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, err := c.transfer(unix.SYS_RECVFROM, unsafe.Pointer(unsafe.SliceData(p)), len(p), 0)
	if n == 0 && err == nil {
		return 0, io.EOF
	}
	return n, err
}

// Discard drops up to len(p) received bytes inside the kernel, without
// copying them to p (MSG_TRUNC, tcp(7)), and returns how many.
func (c *Conn) Discard(p []byte) (int, error) {
	n, err := c.transfer(unix.SYS_RECVFROM, unsafe.Pointer(unsafe.SliceData(p)), len(p), unix.MSG_TRUNC)
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
	_, err := c.transfer(unix.SYS_RECVFROM, unsafe.Pointer(&b), 1, unix.MSG_PEEK|unix.MSG_DONTWAIT)
	return !errors.Is(err, ErrTick)
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

// CloseWrite says that nothing more will be sent.
func (c *Conn) CloseWrite() error { return unix.Shutdown(c.fd, unix.SHUT_WR) }

// Close closes the socket; what was written is still delivered.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	return unix.Close(c.fd)
}

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
