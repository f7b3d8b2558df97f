package sockets

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/sockets/tcpstate"
)

// option is one socket option to be set.
type option struct {
	what       string
	level, key int
	value      int
	text       string // instead of value
	hint       string // of an error
}

// Control sets the options before the socket is bound and connected; it is a
// net.Dialer's Control.
func (o Options) Control(network, _ string, raw syscall.RawConn) error {
	var inner error
	err := raw.Control(func(fd uintptr) { inner = setOptions(int(fd), o.options(strings.HasSuffix(network, "6"))) })
	if err != nil {
		return fmt.Errorf("set socket options: %w", err)
	}
	return inner
}

// SetOptions sets the options of a connected socket.
func (c *Conn) SetOptions(o Options) error {
	return c.ask(func() error { return setOptions(c.fd, o.options(c.overIPv6())) })
}

func setOptions(fd int, options []option) error {
	for _, s := range options {
		var err error
		if s.text != "" {
			err = unix.SetsockoptString(fd, s.level, s.key, s.text)
		} else {
			err = unix.SetsockoptInt(fd, s.level, s.key, s.value)
		}
		if err != nil {
			return fmt.Errorf("set %s: %w%s", s.what, err, s.hint)
		}
	}
	return nil
}

// options lists what is asked. Buffers and MSS decide what the handshake
// offers, so they come before connect where this end connects.
func (o Options) options(six bool) []option {
	var list []option
	add := func(wanted bool, s option) {
		if wanted {
			list = append(list, s)
		}
	}
	add(o.ReusePort, option{what: "reuse of the source port", level: unix.SOL_SOCKET, key: unix.SO_REUSEADDR, value: 1})
	add(o.LatePort, option{what: "late choice of the source port", level: unix.IPPROTO_IP, key: unix.IP_BIND_ADDRESS_NO_PORT, value: 1})
	add(o.Device != "", option{what: fmt.Sprintf("device %q", o.Device), level: unix.SOL_SOCKET, key: unix.SO_BINDTODEVICE, text: o.Device,
		hint: " (ip link shows the devices; a bound socket may need CAP_NET_RAW to be bound anew)"})
	add(o.SendBuffer > 0, option{what: fmt.Sprintf("send buffer to %d bytes", o.SendBuffer), level: unix.SOL_SOCKET, key: unix.SO_SNDBUF, value: o.SendBuffer})
	add(o.ReceiveBuffer > 0, option{what: fmt.Sprintf("receive buffer to %d bytes", o.ReceiveBuffer), level: unix.SOL_SOCKET, key: unix.SO_RCVBUF, value: o.ReceiveBuffer})
	add(o.MSS > 0, option{what: fmt.Sprintf("MSS to %d bytes", o.MSS), level: unix.IPPROTO_TCP, key: unix.TCP_MAXSEG, value: o.MSS})
	add(o.Backlog > 0, option{what: "bound of unsent bytes", level: unix.IPPROTO_TCP, key: unix.TCP_NOTSENT_LOWAT, value: o.Backlog})
	if six {
		add(o.DSCP > 0, option{what: fmt.Sprintf("DSCP %d", o.DSCP), level: unix.IPPROTO_IPV6, key: unix.IPV6_TCLASS, value: o.DSCP << 2})
	} else {
		add(o.DSCP > 0, option{what: fmt.Sprintf("DSCP %d", o.DSCP), level: unix.IPPROTO_IP, key: unix.IP_TOS, value: o.DSCP << 2})
	}
	add(o.CongestionControl != "", option{what: fmt.Sprintf("congestion control %q", o.CongestionControl), level: unix.IPPROTO_TCP, key: unix.TCP_CONGESTION, text: o.CongestionControl,
		hint: " (see sysctl net.ipv4.tcp_available_congestion_control and tcp_allowed_congestion_control)"})
	return list
}

// InForce is what of the options the kernel says of a connected socket.
func (c *Conn) InForce() Options {
	dscp := c.intOption(unix.IPPROTO_IP, unix.IP_TOS)
	if c.overIPv6() {
		dscp = c.intOption(unix.IPPROTO_IPV6, unix.IPV6_TCLASS)
	}
	return Options{
		SendBuffer: value(c, tcpstate.SendBuffer), ReceiveBuffer: value(c, tcpstate.ReceiveBuffer), MSS: c.MSS(), DSCP: dscp >> 2,
		CongestionControl: c.CongestionControl(), Backlog: max(c.intOption(unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT), 0), // UINT_MAX bounds nothing
	}
}

// SetPacing bounds what the socket sends (SO_MAX_PACING_RATE, socket(7)).
func (c *Conn) SetPacing(bitsPerSecond float64) error {
	rate := uint64(max(math.Ceil(bitsPerSecond/8), 1))
	err := c.ask(func() error { return unix.SetsockoptUint64(c.fd, unix.SOL_SOCKET, unix.SO_MAX_PACING_RATE, rate) })
	if err != nil {
		return fmt.Errorf("pace to %g bit/s: %w", bitsPerSecond, err)
	}
	return nil
}

// MultipathTCP says whether the connection uses MPTCP (RFC 8684) and did not
// fall back to TCP.
func (c *Conn) MultipathTCP() bool {
	if c.intOption(unix.SOL_SOCKET, unix.SO_PROTOCOL) != unix.IPPROTO_MPTCP {
		return false
	}
	// MPTCP_INFO (level SOL_MPTCP, linux/mptcp.h) answers EOPNOTSUPP after a
	// fallback.
	err := c.ask(func() error {
		_, err := unix.GetsockoptInt(c.fd, solMPTCP, mptcpInfo)
		return err
	})
	return err == nil
}

const (
	solMPTCP  = 284 // SOL_MPTCP, linux/socket.h
	mptcpInfo = 1   // MPTCP_INFO, linux/mptcp.h
)

// overIPv6 says whether the socket's packets are IPv6; a socket that accepts
// both families has IPv4 addresses in IPv6 form.
func (c *Conn) overIPv6() bool {
	name, err := unix.Getsockname(c.fd)
	if err != nil {
		return false
	}
	six, ok := name.(*unix.SockaddrInet6)
	return ok && !netip.AddrFrom16(six.Addr).Is4In6()
}

// CongestionControl is the kernel name of the algorithm in use, empty if unknown.
func (c *Conn) CongestionControl() string { return value(c, congestionControl) }

// CongestionControlOf is that of a connection which is no Conn yet.
func CongestionControlOf(c syscall.Conn) (name string) {
	raw, err := c.SyscallConn()
	if err == nil {
		_ = raw.Control(func(fd uintptr) { name = congestionControl(int(fd)) }) // a closed one has none
	}
	return name
}

func congestionControl(fd int) string {
	name, err := unix.GetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
	if err != nil {
		return ""
	}
	return name
}

// NoDelay turns Nagle's algorithm off.
func (c *Conn) NoDelay() error {
	return c.ask(func() error { return unix.SetsockoptInt(c.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1) })
}

func (c *Conn) intOption(level, option int) int {
	var v int
	err := c.ask(func() (err error) {
		v, err = unix.GetsockoptInt(c.fd, level, option)
		return err
	})
	if err != nil {
		return 0
	}
	return v
}

// ClampWindow bounds the window that this end advertises. The kernel moves the
// bound when receive-buffer autotuning grows the buffer (tcp_rcvbuf_grow) and
// when it learns the overhead of packets (tcp_measure_rcv_mss, both in
// net/ipv4/tcp_input.c), so RenewClamp has to follow while bytes flow. To keep
// the excess small in between, the buffer is fixed at four times the window,
// as far as net.core.rmem_max allows: room for the overhead of packets, and
// nothing for autotuning to grow.
func (c *Conn) ClampWindow(bytes int) error {
	// The kernel doubles what is asked (socket(7)) and silently stops at rmem_max.
	err := c.ask(func() error { return unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 2*bytes) })
	if err != nil {
		return fmt.Errorf("fix receive buffer for a window of %d bytes: %w", bytes, err)
	}
	return c.RenewClamp(bytes)
}

// RenewClamp bounds the window anew.
func (c *Conn) RenewClamp(bytes int) error {
	err := c.ask(func() error { return unix.SetsockoptInt(c.fd, unix.IPPROTO_TCP, unix.TCP_WINDOW_CLAMP, bytes) })
	if err != nil {
		return fmt.Errorf("clamp receive window to %d bytes: %w", bytes, err)
	}
	return nil
}

// WindowClamp is the bound in force, 0 if unknown.
func (c *Conn) WindowClamp() int { return c.intOption(unix.IPPROTO_TCP, unix.TCP_WINDOW_CLAMP) }

// ReceivedTTL is the time to live (hop limit) left in the packet that opened
// an accepted connection; 0 on a connection that this end opened.
//
// The kernel keeps it in the socket as the default of multicast packets
// (tcp_v4_syn_recv_sock: newinet->mc_ttl = ip_hdr(skb)->ttl; IPv6 likewise in
// mcast_hops), where a plain socket option reads it.
func (c *Conn) ReceivedTTL() int {
	if c.overIPv6() {
		return c.intOption(unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS)
	}
	return c.intOption(unix.IPPROTO_IP, unix.IP_MULTICAST_TTL)
}

// SetReceiveLowWater has a receiving transfer of a detached Conn wake when so many bytes
// have arrived (SO_RCVLOWAT, socket(7)), or after wait with those that have, ErrTick if
// none. What is there already is read at once. TCP acknowledges as before: the kernel looks at what the program waits for (__tcp_ack_snd_check in
// net/ipv4/tcp_input.c). It makes the receive buffer large enough for twice as much, if
// nobody fixed its size, and wakes the program early where the window is about to close
// (tcp_set_rcvlowat, tcp_epollin_ready).
func (c *Conn) SetReceiveLowWater(bytes int, wait time.Duration) error {
	tick := unix.NsecToTimeval(wait.Nanoseconds())
	err := c.ask(func() error {
		return errors.Join(
			unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tick),
			unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVLOWAT, bytes),
		)
	})
	if err != nil {
		return fmt.Errorf("wake the receiver every %d bytes: %w", bytes, err)
	}
	c.lowWater.Store(int64(bytes))
	return nil
}

// batches says that a receive takes what there is before it waits: one that took less than
// the low water would wait with it for as many again, and return what came at two times.
func (c *Conn) batches() bool { return c.lowWater.Load() > 0 }

// Unacknowledged is how many bytes were written that the other end has not acknowledged yet
// (SIOCOUTQ, tcp(7)), its end among them.
func (c *Conn) Unacknowledged() int64 {
	left := 0
	err := c.ask(func() (err error) {
		left, err = unix.IoctlGetInt(c.fd, unix.SIOCOUTQ)
		return err
	})
	if err != nil {
		return 0 // the connection has ended
	}
	return int64(left)
}

// Unread is how many bytes have arrived that the program could have read (SIOCINQ,
// tcp(7)): without those that wait until there are enough.
func (c *Conn) Unread() int64 {
	unread := 0
	err := c.ask(func() (err error) {
		unread, err = unix.IoctlGetInt(c.fd, unix.SIOCINQ)
		return err
	})
	if err != nil {
		return 0 // the connection has ended
	}
	return max(int64(unread)-c.lowWater.Load(), 0)
}
