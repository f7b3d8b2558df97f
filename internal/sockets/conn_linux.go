package sockets

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
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
	// call and cpu belong to the goroutine that transfers.
	call call
	cpu  processor
	// waits is of who receives in bulk, stay of who sends.
	waits waits
	stay  stay
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

// Detach takes the socket of c out of the network poller and closes c.
func Detach(c *net.TCPConn) (*Conn, error) { return detach(c) }

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

func (c *Conn) block() error {
	tick := unix.NsecToTimeval(Tick.Nanoseconds())
	return errors.Join(
		unix.SetNonblock(c.fd, false),
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

// raw does the call without telling the runtime's scheduler.
func (k *call) raw(fd uintptr) {
	if k.trap == unix.SYS_SPLICE {
		k.got, _, k.errno = syscall.RawSyscall6(k.trap, uintptr(k.pipe), 0, fd, 0, uintptr(k.n), uintptr(k.flags))
		return
	}
	k.got, _, k.errno = syscall.RawSyscall6(k.trap, fd, uintptr(k.p), uintptr(k.n), uintptr(k.flags), 0, 0)
}

// told does the call so that the scheduler may use the processor meanwhile.
func (k *call) told(fd uintptr) {
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

// complete does the call, and repeats it when a signal interrupts it.
func (c *Conn) complete() (int, error) {
	for {
		switch {
		case c.attached != nil:
			if err := c.park(); err != nil {
				return 0, err
			}
		case c.cpu.held:
			c.call.raw(uintptr(c.fd))
		default:
			c.call.told(uintptr(c.fd))
		}
		switch c.call.errno {
		case 0:
			c.cpu.busy()
			return int(c.call.got), nil
		case unix.EINTR:
			if c.cpu.interrupted() {
				return 0, ErrTick // the call would wait its Tick from the start
			}
		case unix.EAGAIN:
			if c.call.flags&unix.MSG_DONTWAIT == 0 {
				c.cpu.idle()
			}
			return 0, ErrTick
		default:
			return 0, c.call.errno
		}
	}
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

// KeepProcessor says that small messages are exchanged on this connection: as
// long as they follow each other closely, and a processor can be spared, its
// thread keeps one while it waits. Read then ticks every 10 ms. The returned
// function, which the same goroutine calls, ends it.
func (c *Conn) KeepProcessor() (func(), error) {
	if c.attached != nil {
		return func() {}, nil
	}
	wait := unix.NsecToTimeval(rawWait.Nanoseconds())
	if err := unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
		return nil, fmt.Errorf("set the longest wait: %w", err)
	}
	c.cpu = newProcessor()
	return func() { c.cpu = processor{} }, nil
}

// HoldProcessor says that the calling goroutine, which called Lock, transfers in
// bulk on this connection: until it calls the returned function, its thread keeps
// a processor of its own, which the Go runtime is given for it, while it waits,
// and may nap before it waits for more of what comes fast. With beside, the other
// end is on this machine, says the same, and nothing else is transferred: then both
// may share a processor of the machine. Where there would be too many threads,
// nothing changes.
func (c *Conn) HoldProcessor(beside bool) func() {
	if c.attached != nil {
		return func() {}
	}
	own, added := addProcessor()
	if !added {
		return func() {}
	}
	c.cpu = addedProcessor()
	// A thread whose timers are late waits for each packet instead of napping.
	c.waits, c.stay = waits{wanted: punctual(timerSlack) == nil, limit: int32(own), fd: c.fd}, stay{}
	var thread *pin
	if beside {
		thread = newPin()
		c.waits.pin, c.stay.pin = thread, thread
	}
	return func() {
		_ = punctual(0) // it worked once
		if thread != nil {
			thread.release()
		}
		c.cpu, c.waits, c.stay = processor{}, waits{kept: c.waits.kept}, stay{}
		removeProcessor()
	}
}

// ReceiveWait says how a receiver of bulk last chose to wait for more.
func (c *Conn) ReceiveWait() string { return c.waits.kept.String() }

// Read reads into p as net.Conn would, or returns ErrTick.
func (c *Conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, err := c.receive(p, 0)
	if n == 0 && err == nil {
		return 0, io.EOF
	}
	return n, err
}

// Discard drops up to len(p) received bytes inside the kernel, without
// copying them to p (MSG_TRUNC, tcp(7)), and returns how many.
func (c *Conn) Discard(p []byte) (int, error) {
	n, err := c.receive(p, unix.MSG_TRUNC)
	if n == 0 && err == nil {
		return 0, io.EOF
	}
	return n, err
}

// receive is one recv. An end that naps does so when it would have to wait.
func (c *Conn) receive(p []byte, flags int) (int, error) {
	n, err := 0, error(ErrTick)
	if c.waits.way == napping && c.cpu.held {
		n, err = c.transfer(unix.SYS_RECVFROM, unsafe.Pointer(unsafe.SliceData(p)), len(p), flags|unix.MSG_DONTWAIT)
		if err == ErrTick {
			c.waits.nap()
		}
	}
	if err == ErrTick {
		n, err = c.transfer(unix.SYS_RECVFROM, unsafe.Pointer(unsafe.SliceData(p)), len(p), flags)
	}
	c.waits.took(n)
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

// SendPayload sends up to n bytes of payload, as Write does.
func (c *Conn) SendPayload(p *Payload, n int) (sent int, err error) {
	if p.pipes == nil {
		sent, err = c.Write(p.buf[:min(n, len(p.buf))])
	} else {
		sent, err = c.sendPiped(n)
	}
	c.stay.sent(sent)
	return sent, err
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
