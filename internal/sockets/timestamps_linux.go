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
