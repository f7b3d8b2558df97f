package sockets

import (
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TryRead reads what is there, or returns ErrTick at once. It never gives the
// CPU away, and a loop around it has to: it never blocks either.
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
// timer slack (see PreciseTimers); with orWrite it returns ErrTick also as soon
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

// stamps is what recvmsg needs to bring back the kernel's time stamps.
type stamps struct {
	message unix.Msghdr
	vector  unix.Iovec
	control [128]byte
}

// EnableReceiveStamps has the kernel note when it takes a packet from its
// driver (SO_TIMESTAMPING, Documentation/networking/timestamping.rst), for
// ReadStamped to return. The kernel then stamps every packet of the host, so it
// is not for the time that is measured.
func (c *Conn) EnableReceiveStamps() error {
	flags := unix.SOF_TIMESTAMPING_RX_SOFTWARE | unix.SOF_TIMESTAMPING_SOFTWARE
	err := c.ask(func() error { return unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPING, flags) })
	if err != nil {
		return fmt.Errorf("ask for time stamps: %w", err)
	}
	c.stamps = new(stamps)
	return nil
}

// ReadStamped is Read, without waiting if poll, and the time at which the
// kernel received the last byte: zero if it does not say. It does not allocate.
func (c *Conn) ReadStamped(p []byte, poll bool) (int, time.Time, error) {
	s := c.stamps
	if s == nil {
		return 0, time.Time{}, errors.New("time stamps were not asked for")
	}
	flags := uintptr(0)
	if poll {
		flags = unix.MSG_DONTWAIT
	}
	s.vector.Base = unsafe.SliceData(p)
	s.vector.SetLen(len(p))
	s.message = unix.Msghdr{Iov: &s.vector, Control: &s.control[0]}
	s.message.SetIovlen(1)
	s.message.SetControllen(len(s.control))
	var n uintptr
	var errno syscall.Errno
	if poll {
		n, _, errno = syscall.RawSyscall(unix.SYS_RECVMSG, uintptr(c.fd), uintptr(unsafe.Pointer(&s.message)), flags)
	} else {
		n, _, errno = syscall.Syscall(unix.SYS_RECVMSG, uintptr(c.fd), uintptr(unsafe.Pointer(&s.message)), flags)
	}
	got, err := tried(int(n), errno)
	switch {
	case err != nil:
		return 0, time.Time{}, err
	case got == 0:
		return 0, time.Time{}, io.EOF
	}
	return got, receivedAt(s.control[:s.message.Controllen]), nil
}

// receivedAt finds the software time stamp, the first of the three of struct
// scm_timestamping, among control messages.
func receivedAt(control []byte) time.Time {
	for len(control) >= unix.SizeofCmsghdr {
		h := (*unix.Cmsghdr)(unsafe.Pointer(unsafe.SliceData(control)))
		length := int(h.Len)
		if length < unix.SizeofCmsghdr || length > len(control) {
			break
		}
		data := control[unix.CmsgLen(0):length]
		if h.Level == unix.SOL_SOCKET && h.Type == unix.SCM_TIMESTAMPING && len(data) >= int(unsafe.Sizeof(unix.Timespec{})) {
			at := (*unix.Timespec)(unsafe.Pointer(unsafe.SliceData(data)))
			if at.Sec == 0 && at.Nsec == 0 {
				return time.Time{}
			}
			return time.Unix(int64(at.Sec), int64(at.Nsec))
		}
		control = control[min(unix.CmsgSpace(length-unix.CmsgLen(0)), len(control)):]
	}
	return time.Time{}
}
