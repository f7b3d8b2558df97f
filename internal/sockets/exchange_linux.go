package sockets

import (
	"io"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TryRead reads what is there, or returns ErrTick at once. It never gives the
// processor away, and a loop around it has to: it never blocks either.
func (c *Conn) TryRead(p []byte) (int, error) {
	n, errno := c.once(unix.SYS_RECVFROM, p, unix.MSG_DONTWAIT)
	if n == 0 && errno == 0 {
		return 0, io.EOF
	}
	return tried(n, errno)
}

// TryWrite sends what the kernel takes of p at once, or returns ErrTick.
func (c *Conn) TryWrite(p []byte) (int, error) {
	return tried(c.once(unix.SYS_SENDTO, p, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL))
}

func (c *Conn) once(trap uintptr, p []byte, flags uintptr) (int, syscall.Errno) {
	for {
		n, _, errno := syscall.RawSyscall6(trap, uintptr(c.fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), flags, 0, 0)
		if errno != unix.EINTR {
			return int(n), errno
		}
	}
}

// tried is the result of a call that moved n bytes, or nothing for now.
func tried(n int, errno syscall.Errno) (int, error) {
	switch errno {
	case 0:
		return n, nil
	case unix.EAGAIN, unix.EINTR:
		return 0, ErrTick
	}
	return 0, errno
}

// ReadWithin is a Read that waits for wait at most, exact to the thread's
// timer slack (see PreciseWaits); with orWrite it returns ErrTick also as soon
// as a write would be taken.
func (c *Conn) ReadWithin(p []byte, wait time.Duration, orWrite bool) (int, error) {
	n, err := c.TryRead(p)
	if err != ErrTick || wait <= 0 { //nolint:errorlint // TryRead's very value, in a hot loop
		return n, err
	}
	events := int16(unix.POLLIN)
	if orWrite {
		events |= unix.POLLOUT
	}
	poll := unix.PollFd{Fd: int32(c.fd), Events: events}
	timeout := unix.NsecToTimespec(int64(wait))
	ready, _, errno := syscall.Syscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&poll)), 1, uintptr(unsafe.Pointer(&timeout)), 0, 0, 0)
	switch {
	case errno == unix.EINTR:
		return 0, ErrTick
	case errno != 0:
		return 0, errno
	case ready == 0 || poll.Revents == unix.POLLOUT:
		return 0, ErrTick
	}
	return c.TryRead(p)
}

// PreciseWaits lets the waits of the calling thread, which must be locked, end
// when they are due instead of up to 50 µs later (PR_SET_TIMERSLACK, prctl(2)),
// until the returned function is called.
func PreciseWaits() func() {
	// A kernel that refuses only wakes later; what is late is counted.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	return func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) }
}
