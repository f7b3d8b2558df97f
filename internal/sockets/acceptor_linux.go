package sockets

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Acceptor is a listening TCP socket in blocking mode that the runtime's
// network poller no longer knows. One goroutine accepts; others may Shutdown.
type Acceptor struct {
	fd   int
	addr net.Addr
	name unix.RawSockaddrAny
	// brisk says that short connections are expected, see Expect.
	brisk bool

	mu     sync.Mutex
	closed bool
}

// NewAcceptor takes the socket of ln out of the network poller and closes ln.
func NewAcceptor(ln *net.TCPListener) (*Acceptor, error) {
	fd, err := duplicate(ln)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(ln.Close(), unix.SetNonblock(fd, false)); err != nil {
		return nil, fmt.Errorf("detach listener: %w", errors.Join(err, unix.Close(fd)))
	}
	return &Acceptor{fd: fd, addr: ln.Addr()}, nil
}

// Addr is the address that is listened on.
func (a *Acceptor) Addr() net.Addr { return a.addr }

// deferSeconds is how long a connection without data is kept from Accept.
const deferSeconds = 1

// Expect says whether connections will come that each bring their request at
// once and end with its response. The kernel then wakes Accept when the
// request is there, not before (TCP_DEFER_ACCEPT, tcp(7)), and Accept ticks, unless
// the socket is one of MPTCP (SO_RCVTIMEO is not its accept's, Linux 6.18).
func (a *Acceptor) Expect(brisk bool) {
	if a.brisk == brisk {
		return
	}
	a.brisk = brisk
	seconds, wait := 0, time.Duration(0)
	if brisk {
		seconds, wait = deferSeconds, Tick
	}
	tick := unix.NsecToTimeval(wait.Nanoseconds())
	// It fails only for a time that cannot be one.
	_ = unix.SetsockoptTimeval(a.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tick)
	// Without it, a connection may be accepted before its request has come,
	// and goes the slower way.
	_ = unix.SetsockoptInt(a.fd, unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT, seconds)
}

// Accept waits for a connection. ErrTick says that none came for a while,
// or until a signal, net.ErrClosed that the listener was shut down.
func (a *Acceptor) Accept() (Incoming, error) {
	for {
		length := uint32(unix.SizeofSockaddrAny)
		fd, _, errno := syscall.Syscall6(unix.SYS_ACCEPT4, uintptr(a.fd), uintptr(unsafe.Pointer(&a.name)), uintptr(unsafe.Pointer(&length)), unix.SOCK_CLOEXEC, 0, 0)
		switch errno {
		case 0:
			return Incoming{fd: int(fd), family: int(a.name.Addr.Family), From: sender(&a.name).Addr()}, nil
		case unix.ECONNABORTED:
		case unix.EINTR, unix.EAGAIN: // after a signal it would wait its time from the start
			return Incoming{}, ErrTick
		case unix.EINVAL, unix.EBADF: // Close shuts it down first
			return Incoming{}, net.ErrClosed
		default:
			return Incoming{}, errno
		}
	}
}

// Shutdown wakes whoever accepts and lets nobody accept any more. It may be
// called at any time, more than once.
func (a *Acceptor) Shutdown() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.closed {
		// It fails only when it was shut down already.
		_ = unix.Shutdown(a.fd, unix.SHUT_RDWR)
	}
}

// Close closes the listener; nobody may be in Accept.
func (a *Acceptor) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil
	}
	a.closed = true
	return unix.Close(a.fd)
}

// Incoming is an accepted connection that nobody has read from yet. It must be
// answered, closed or handed to the runtime, once. None of that blocks.
type Incoming struct {
	fd, family int
	From       netip.Addr
	file       *os.File // owns fd once Conn was called
}

// Peek copies bytes that wait to p without taking them, and returns how many.
func (in Incoming) Peek(p []byte) int {
	n, _, errno := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(in.fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), unix.MSG_PEEK|unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return 0
	}
	return int(n)
}

// Answer takes a request that Peek has seen in full, sends the response and
// closes. The end of the connection travels with the response, in one segment
// if that fits. It says whether the kernel took all of it.
func (in Incoming) Answer(request, response []byte, dscp int) bool {
	n, _, errno := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(in.fd), uintptr(unsafe.Pointer(unsafe.SliceData(request))), uintptr(len(request)), unix.MSG_DONTWAIT, 0, 0)
	ok := errno == 0 && int(n) == len(request)
	if ok && dscp != 0 {
		family := in.family
		if in.From.Is4() {
			family = unix.AF_INET // mapped addresses have the field of IPv4
		}
		ok = mark(in.fd, family, dscp) == nil
	}
	if ok {
		n, _, errno = syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(in.fd), uintptr(unsafe.Pointer(unsafe.SliceData(response))), uintptr(len(response)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL|unix.MSG_MORE, 0, 0)
		ok = errno == 0 && int(n) == len(response)
	}
	in.Close()
	return ok
}

// mark sets the differentiated services field as Options do, but without allocating: it is
// called for each of many thousand connections a second.
func mark(fd, family, dscp int) error {
	if family == unix.AF_INET {
		return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TOS, dscp<<2)
	}
	return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_TCLASS, dscp<<2)
}

// Close ends the connection.
func (in Incoming) Close() {
	if in.file != nil {
		_ = in.file.Close() // as below, or closed already
		return
	}
	// A socket that does not linger has no error to report.
	_, _, _ = syscall.RawSyscall(unix.SYS_CLOSE, uintptr(in.fd), 0, 0)
}

// Conn hands the connection over to the runtime's network poller, which needs
// a second descriptor. Without one it returns unix.EMFILE or unix.ENFILE, and
// may be called again; after any other error the connection is closed, and
// Close does nothing.
func (in *Incoming) Conn() (net.Conn, error) {
	if in.file == nil {
		in.file = os.NewFile(uintptr(in.fd), "accepted connection")
	}
	c, err := net.FileConn(in.file)
	if OutOfDescriptors(err) {
		return nil, fmt.Errorf("take an accepted connection: %w", err)
	}
	err = errors.Join(err, in.file.Close())
	if err == nil && c.RemoteAddr() == nil {
		// The client has reset it: nobody is there any more.
		err = errors.Join(unix.ENOTCONN, c.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("take an accepted connection: %w", err)
	}
	return c, nil
}
