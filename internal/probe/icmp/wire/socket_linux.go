package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Control is what the kernel said about a packet in addition to its bytes.
type Control struct {
	// TTL is the time to live or hop limit, 0 when unknown.
	TTL int
	// Stamp is the kernel's software timestamp (wall clock), zero when there
	// is none.
	Stamp time.Time
	// Queued is set for what came from the error queue.
	Queued bool
	// Error describes it then (linux/errqueue.h, struct sock_extended_err).
	Error unix.SockExtendedErr
	// Offender is who sent the ICMP error.
	Offender netip.Addr
}

// IsICMP says that the message is an ICMP error of a packet sent earlier.
func (c *Control) IsICMP() bool {
	return c.Queued && (c.Error.Origin == unix.SO_EE_ORIGIN_ICMP || c.Error.Origin == unix.SO_EE_ORIGIN_ICMP6)
}

// TransmitKey returns the number of the packet, counted from 0 since
// timestamping was switched on, whose transmit timestamp this is
// (SOF_TIMESTAMPING_OPT_ID).
func (c *Control) TransmitKey() (uint32, bool) {
	ok := c.Queued && c.Error.Origin == unix.SO_EE_ORIGIN_TIMESTAMPING && c.Error.Info == unix.SCM_TSTAMP_SND
	return c.Error.Data, ok
}

const (
	extendedErrBytes = int(unsafe.Sizeof(unix.SockExtendedErr{}))
	timespecBytes    = int(unsafe.Sizeof(unix.Timespec{}))
)

// parseControl reads the control messages of one recvmsg.
func parseControl(oob []byte) (Control, error) {
	var c Control
	for len(oob) >= unix.CmsgLen(0) {
		header, data, rest, err := unix.ParseOneSocketControlMessage(oob)
		if err != nil {
			return c, fmt.Errorf("parse control message: %w", err)
		}
		c.add(header.Level, header.Type, data)
		oob = rest
	}
	return c, nil
}

func (c *Control) add(level, typ int32, data []byte) {
	switch {
	case level == unix.SOL_SOCKET && typ == unix.SCM_TIMESTAMPING:
		c.Stamp = parseTimespec(data)
	case level == unix.IPPROTO_IP && typ == unix.IP_TTL,
		level == unix.IPPROTO_IPV6 && typ == unix.IPV6_HOPLIMIT:
		if len(data) >= 4 {
			c.TTL = int(int32(binary.NativeEndian.Uint32(data)))
		}
	case level == unix.IPPROTO_IP && typ == unix.IP_RECVERR,
		level == unix.IPPROTO_IPV6 && typ == unix.IPV6_RECVERR:
		c.addError(data)
	}
}

// parseTimespec reads the first of the three timestamps of struct
// scm_timestamping, the software one.
func parseTimespec(data []byte) time.Time {
	if len(data) < timespecBytes {
		return time.Time{}
	}
	var ts unix.Timespec
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&ts)), timespecBytes), data)
	if ts.Sec == 0 && ts.Nsec == 0 {
		return time.Time{}
	}
	return time.Unix(ts.Unix())
}

// addError reads struct sock_extended_err and the sockaddr of the offender
// that follows it.
func (c *Control) addError(data []byte) {
	if len(data) < extendedErrBytes {
		return
	}
	c.Queued = true
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&c.Error)), extendedErrBytes), data)
	offender := data[extendedErrBytes:]
	if len(offender) < 2 {
		return
	}
	switch binary.NativeEndian.Uint16(offender) {
	case unix.AF_INET:
		if len(offender) >= 8 { // family, port, address
			c.Offender = netip.AddrFrom4([4]byte(offender[4:8]))
		}
	case unix.AF_INET6:
		if len(offender) >= 24 { // family, port, flow, address
			c.Offender = netip.AddrFrom16([16]byte(offender[8:24])).Unmap()
		}
	}
}

// Receiver holds the buffers of a socket's reader. Not for concurrent use.
type Receiver struct {
	packet  []byte
	control [512]byte
}

// NewReceiver makes a Receiver for packets of at most size bytes; what is
// longer is cut.
func NewReceiver(size int) *Receiver { return &Receiver{packet: make([]byte, size)} }

// Receive takes one packet from the socket or, with fromErrors, from its error
// queue, without waiting. The bytes are valid until the next call. It returns
// unix.EAGAIN when there is nothing.
func (r *Receiver) Receive(fd int, fromErrors bool) ([]byte, Control, error) {
	flags := unix.MSG_DONTWAIT
	if fromErrors {
		flags |= unix.MSG_ERRQUEUE
	}
	for {
		n, controlBytes, _, _, err := unix.RecvmsgBuffers(fd, [][]byte{r.packet}, r.control[:], flags)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, Control{}, err
		}
		control, err := parseControl(r.control[:controlBytes])
		return r.packet[:n], control, err
	}
}

// IsPending tells whether err is how the kernel announces, once, on whatever
// call comes next that an ICMP error arrived earlier on the socket: the call
// did nothing and may be repeated.
func IsPending(err error) bool {
	errno, _ := errors.AsType[unix.Errno](err)
	return slices.Contains([]unix.Errno{unix.EHOSTUNREACH, unix.ENETUNREACH, unix.ECONNREFUSED, unix.EMSGSIZE,
		unix.EPROTO, unix.EOPNOTSUPP, unix.ENOPROTOOPT, unix.EHOSTDOWN, unix.ENONET, unix.EACCES}, errno)
}

// Send sends b on a connected socket. Errors that belong to earlier packets
// are dropped: only an error that stays is of this packet.
func Send(fd int, b []byte) error {
	var err error
	// An ICMP error can arrive between two attempts, but hardly three times.
	for range 4 {
		_, err = unix.Write(fd, b)
		if err == nil || !IsPending(err) && !errors.Is(err, unix.EINTR) {
			return err
		}
	}
	return err
}

// Waiter waits for sockets until a time or the end of a context.
type Waiter struct {
	wake int
	stop func() bool
	done chan struct{}
	fds  []unix.PollFd
}

// NewWaiter makes a Waiter that the end of ctx wakes. The caller must Close it.
func NewWaiter(ctx context.Context) (*Waiter, error) {
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	w := &Waiter{wake: wake, done: make(chan struct{})}
	w.stop = context.AfterFunc(ctx, func() {
		defer close(w.done)
		one := binary.NativeEndian.AppendUint64(nil, 1)
		// A full counter wakes as well, so no error is worth more than this.
		_, _ = unix.Write(wake, one)
	})
	return w, nil
}

// Close releases the Waiter.
func (w *Waiter) Close() error {
	if !w.stop() {
		<-w.done // the writer must be gone before its descriptor is
	}
	return os.NewSyscallError("close", unix.Close(w.wake))
}

// Wait blocks until one of fds has something to read or an error, the time
// has come or the context ended, whichever is first. With writable it also
// wakes when a connection attempt has ended. It never reports which.
func (w *Waiter) Wait(until time.Time, writable bool, fds ...int) error {
	events := int16(unix.POLLIN)
	if writable {
		events |= unix.POLLOUT
	}
	w.fds = append(w.fds[:0], unix.PollFd{Fd: int32(w.wake), Events: unix.POLLIN})
	for _, fd := range fds {
		w.fds = append(w.fds, unix.PollFd{Fd: int32(fd), Events: events})
	}
	timeout := unix.NsecToTimespec(int64(max(0, time.Until(until))))
	_, err := unix.Ppoll(w.fds, &timeout, nil)
	if err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("poll: %w", err)
	}
	return nil
}

// Sockaddr converts an address and port for system calls.
func Sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	sa := &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
	sa.ZoneId = ZoneIndex(a.Addr().Zone())
	return sa
}

// LocalAddr returns the address and port a socket is bound to.
func LocalAddr(fd int) (netip.AddrPort, error) {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("getsockname: %w", err)
	}
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port)), nil
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port)), nil
	}
	return netip.AddrPort{}, fmt.Errorf("getsockname: unexpected address %T", sa)
}

// Connect binds a socket to source, if that is valid, and connects it to
// target, so that the kernel delivers only the target's packets and the ICMP
// errors about packets sent to it.
func Connect(fd int, source netip.Addr, target netip.AddrPort) error {
	if source.IsValid() {
		if err := unix.Bind(fd, Sockaddr(netip.AddrPortFrom(source, 0))); err != nil {
			return fmt.Errorf("bind to %v: %w (is it an address of this host?)", source, err)
		}
	}
	if err := unix.Connect(fd, Sockaddr(target)); err != nil {
		return fmt.Errorf("connect to %v: %w", target.Addr(), err)
	}
	return nil
}

// Option is one integer socket option.
type Option struct {
	Level, Name, Value int
	What               string // for the error
}

// Set sets socket options, and stops at the first that fails.
func Set(fd int, options ...Option) error {
	for _, o := range options {
		if err := unix.SetsockoptInt(fd, o.Level, o.Name, o.Value); err != nil {
			return fmt.Errorf("set %s: %w", o.What, err)
		}
	}
	return nil
}

// ErrorQueue is the option that makes the kernel queue ICMP errors.
func ErrorQueue(v6 bool) Option {
	if v6 {
		return Option{unix.IPPROTO_IPV6, unix.IPV6_RECVERR, 1, "IPV6_RECVERR"}
	}
	return Option{unix.IPPROTO_IP, unix.IP_RECVERR, 1, "IP_RECVERR"}
}

// SendTTL is the option that sets the time to live or hop limit of what is sent.
func SendTTL(v6 bool, ttl int) Option {
	if v6 {
		return Option{unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, ttl, "IPV6_UNICAST_HOPS"}
	}
	return Option{unix.IPPROTO_IP, unix.IP_TTL, ttl, "IP_TTL"}
}

// receiveTTL is the option that reports the time to live of what is received.
func receiveTTL(v6 bool) Option {
	if v6 {
		return Option{unix.IPPROTO_IPV6, unix.IPV6_RECVHOPLIMIT, 1, "IPV6_RECVHOPLIMIT"}
	}
	return Option{unix.IPPROTO_IP, unix.IP_RECVTTL, 1, "IP_RECVTTL"}
}

// onlyEchoReplies keeps every other ICMP message away from a raw ICMP socket
// (linux/icmp.h ICMP_FILTER, RFC 3542 §3.2). ICMP errors about sent packets
// come by the error queue and are not affected.
func onlyEchoReplies(fd int, v6 bool) error {
	_, reply := EchoTypes(v6)
	if v6 {
		var f unix.ICMPv6Filter
		for i := range f.Data {
			f.Data[i] = ^uint32(0)
		}
		f.Data[reply>>5] &^= 1 << (reply & 31)
		if err := unix.SetsockoptICMPv6Filter(fd, unix.IPPROTO_ICMPV6, unix.ICMPV6_FILTER, &f); err != nil {
			return fmt.Errorf("set ICMPV6_FILTER: %w", err)
		}
		return nil
	}
	const solRaw, icmpFilter = 255, 1 // linux/socket.h SOL_RAW, linux/icmp.h
	blocked := ^uint32(0) &^ (1 << reply)
	return Set(fd, Option{solRaw, icmpFilter, int(int32(blocked)), "ICMP_FILTER"})
}
