package sockets

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// SetFragmentMode says what to do with packets larger than an MTU.
func (c *Conn) SetFragmentMode(m FragmentMode) error {
	values := [...]int{Fragment: unix.IP_PMTUDISC_DONT, DontFragment: unix.IP_PMTUDISC_DO, ProbeMTU: unix.IP_PMTUDISC_PROBE}
	level, option := unix.IPPROTO_IP, unix.IP_MTU_DISCOVER
	if c.overIPv6() {
		// IPV6_PMTUDISC_* have the same values (linux/in6.h).
		level, option = unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER
	}
	if err := c.ask(func() error { return unix.SetsockoptInt(c.fd, level, option, values[m]) }); err != nil {
		return fmt.Errorf("set path MTU discovery: %w", err)
	}
	return nil
}

// PathMTU is the path's MTU as far as the kernel knows it, 0 if it does not say.
func (c *Conn) PathMTU() int {
	if c.overIPv6() {
		return c.intOption(unix.IPPROTO_IPV6, unix.IPV6_MTU)
	}
	return c.intOption(unix.IPPROTO_IP, unix.IP_MTU)
}

// IPHeaderBytes is the length of the IP header of this socket's packets.
func (c *Conn) IPHeaderBytes() int {
	if c.overIPv6() {
		return 40
	}
	return 20
}

// largestBuffer is asked for where a privileged process may take what it
// likes: tens of milliseconds at 10 Gbit/s and more would only leave the cache.
const largestBuffer = 8 << 20

// SetReceiveBuffer asks for a receive buffer of so many bytes, or, for 0, the
// largest to be had, and returns what the kernel gave: twice what was asked,
// for the overhead of packets (socket(7)), or less.
func (c *Conn) SetReceiveBuffer(bytes int) int {
	return c.setBuffer(bytes, unix.SO_RCVBUFFORCE, unix.SO_RCVBUF)
}

// SetSendBuffer is SetReceiveBuffer for sending.
func (c *Conn) SetSendBuffer(bytes int) int {
	return c.setBuffer(bytes, unix.SO_SNDBUFFORCE, unix.SO_SNDBUF)
}

func (c *Conn) setBuffer(bytes, force, plain int) int {
	forced, asked := bytes, bytes
	if bytes == 0 {
		forced, asked = largestBuffer, 1<<30 // the kernel stops at its limit
	}
	err := c.ask(func() error { return unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, force, forced) })
	if err != nil {
		// Without the privilege; what this gives is read back below.
		_ = c.ask(func() error { return unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, plain, asked) })
	}
	return c.intOption(unix.SOL_SOCKET, plain)
}

// ReceiveDrops is how many messages the kernel dropped because the socket's
// receive buffer was full (SO_MEMINFO, linux/sock_diag.h), 0 if unknown.
func (c *Conn) ReceiveDrops() int64 {
	var info [unix.SK_MEMINFO_VARS]uint32
	size := uint32(unsafe.Sizeof(info))
	err := c.ask(func() error {
		_, _, errno := unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(c.fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
			uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
		if errno != 0 {
			return errno
		}
		return nil
	})
	if err != nil {
		return 0
	}
	return int64(info[unix.SK_MEMINFO_DROPS])
}

// SetReadTick has a Receive return ErrTick after d instead of a Tick.
func (c *Conn) SetReadTick(d time.Duration) error {
	wait := unix.NsecToTimeval(d.Nanoseconds())
	return c.ask(func() error { return unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait) })
}

// QueuePathErrors has the kernel keep what hosts and routers answer to packets (ICMP), and what
// it says itself, for PathErrors or Rejection (IP_RECVERR, ip(7)), or no longer.
func (c *Conn) QueuePathErrors(keep bool) error {
	on := 0
	if keep {
		on = 1
	}
	level, option := unix.IPPROTO_IP, unix.IP_RECVERR
	if c.overIPv6() {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_RECVERR
	}
	return c.ask(func() error { return unix.SetsockoptInt(c.fd, level, option, on) })
}

// PathErrors takes what routers have answered, and this host said, of packets that are too big
// for them since it or Rejection was last called.
func (c *Conn) PathErrors() []PathError {
	return slices.DeleteFunc(c.queuedErrors(), func(e PathError) bool { return !e.tooBig })
}

// Rejection takes what hosts and routers have answered since it or PathErrors was last called,
// and has the last that was not about the size of a packet.
func (c *Conn) Rejection() (last PathError, found bool) {
	for _, e := range c.queuedErrors() {
		if !e.tooBig && !e.Own {
			last, found = e, true
		}
	}
	return last, found
}

func (c *Conn) queuedErrors() []PathError {
	var out []PathError
	for range 256 { // whatever comes meanwhile is for the next call
		var p, oob [512]byte
		var oobn int
		err := c.ask(func() (err error) {
			_, oobn, _, _, err = unix.Recvmsg(c.fd, p[:], oob[:], unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
			return err
		})
		if err != nil || oobn == 0 {
			break
		}
		if e, ok := parsePathError(oob[:oobn]); ok {
			out = append(out, e)
		}
	}
	return out
}

// parsePathError reads a struct sock_extended_err (linux/errqueue.h) and the
// address behind it.
func parsePathError(control []byte) (PathError, bool) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return PathError{}, false
	}
	const size = 16 // errno, origin, type, code, pad, info, data
	for _, m := range messages {
		is4 := m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_RECVERR
		is6 := m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_RECVERR
		if !is4 && !is6 || len(m.Data) < size {
			continue
		}
		errno := syscall.Errno(binary.NativeEndian.Uint32(m.Data))
		origin := m.Data[4]
		own := origin == unix.SO_EE_ORIGIN_LOCAL
		if !own && origin != unix.SO_EE_ORIGIN_ICMP && origin != unix.SO_EE_ORIGIN_ICMP6 {
			continue
		}
		e := PathError{
			tooBig: errno == unix.EMSGSIZE, Own: own, V6: origin == unix.SO_EE_ORIGIN_ICMP6, Type: m.Data[5], Code: m.Data[6],
			MTU: int(binary.NativeEndian.Uint32(m.Data[8:])),
		}
		switch from := m.Data[size:]; {
		case own:
		case is4 && len(from) >= unix.SizeofSockaddrInet4:
			e.From = netip.AddrFrom4([4]byte(from[4:8])).String()
		case is6 && len(from) >= unix.SizeofSockaddrInet6:
			e.From = netip.AddrFrom16([16]byte(from[8:24])).String()
		}
		return e, true
	}
	return PathError{}, false
}

// LocalAddr is the socket's own address and port, empty if unknown.
func (c *Conn) LocalAddr() string {
	var name unix.Sockaddr
	err := c.ask(func() (err error) {
		name, err = unix.Getsockname(c.fd)
		return err
	})
	if err != nil {
		return ""
	}
	switch a := name.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port)).String()
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr).Unmap(), uint16(a.Port)).String()
	}
	return ""
}
