package sockets

import (
	"bytes"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/measurement"
)

// CongestionControl is the kernel name of the algorithm in use, empty if unknown.
func (c *Conn) CongestionControl() string {
	var name string
	err := c.ask(func() (err error) {
		name, err = unix.GetsockoptString(c.fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
		return err
	})
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

// MSS is the largest segment this end sends, 0 if unknown.
func (c *Conn) MSS() int { return c.intOption(unix.IPPROTO_TCP, unix.TCP_MAXSEG) }

// ReceiveBuffer is the kernel's receive buffer in bytes, overhead included.
func (c *Conn) ReceiveBuffer() int { return c.intOption(unix.SOL_SOCKET, unix.SO_RCVBUF) }

// SendBuffer is the kernel's send buffer in bytes, overhead included.
func (c *Conn) SendBuffer() int { return c.intOption(unix.SOL_SOCKET, unix.SO_SNDBUF) }

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

func mapped(a [16]byte) bool {
	return bytes.Equal(a[:12], []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff})
}

// TCPInfo samples the kernel's struct tcp_info, At a given time. Fields beyond
// what the running kernel reports stay zero. Bytes counters are those of
// linux/tcp.h; windows that the kernel keeps in segments are multiplied by the
// sending MSS.
func (c *Conn) TCPInfo(at time.Duration) (measurement.TCPInfo, error) {
	k, err := c.tcpInfo()
	if err != nil {
		return measurement.TCPInfo{}, fmt.Errorf("read TCP_INFO: %w", err)
	}
	// A kernel that knows fewer fields writes, and returns, fewer bytes; what
	// it did not write is still zero, and zero means absent in the result.
	mss := int64(k.Snd_mss)
	info := measurement.TCPInfo{
		At:                 measurement.SecondsOf(at),
		RTT:                microseconds(uint64(k.Rtt)),
		RTTVariation:       microseconds(uint64(k.Rttvar)),
		CongestionWindow:   int64(k.Snd_cwnd) * mss,
		SendWindow:         int64(k.Snd_wnd),
		MSS:                mss,
		PathMTU:            int64(k.Pmtu),
		Retransmits:        int64(k.Total_retrans),
		SentBytes:          int64(k.Bytes_sent),
		RetransmittedBytes: int64(k.Bytes_retrans),
		InFlight:           max(int64(k.Unacked)-int64(k.Sacked)-int64(k.Lost)+int64(k.Retrans), 0) * mss,
		DeliveryRate:       float64(k.Delivery_rate) * 8,
		Busy:               microseconds(k.Busy_time),
		ReceiveWindowTime:  microseconds(k.Rwnd_limited),
		SendBufferTime:     microseconds(k.Sndbuf_limited),

		ApplicationLimited:   *(*uint8)(unsafe.Add(unsafe.Pointer(k), applicationLimitedByte))&1 != 0,
		NotSent:              int64(k.Notsent_bytes),
		Delivered:            int64(k.Delivered),
		ReorderingSeen:       int64(k.Reord_seen),
		DuplicateSegments:    int64(k.Dsack_dups),
		CongestionMarks:      int64(k.Delivered_ce),
		RetransmissionTimers: int64(k.Total_rto),
	}
	info.SendBufferFull = c.sendBufferFull()
	if k.Snd_ssthresh < slowStart {
		info.SlowStartThreshold = int64(k.Snd_ssthresh) * mss
	}
	// The kernel says "unlimited" and "no sample yet" with all bits set.
	if k.Pacing_rate != ^uint64(0) {
		info.PacingRate = float64(k.Pacing_rate) * 8
	}
	if k.Min_rtt != ^uint32(0) {
		info.MinRTT = microseconds(uint64(k.Min_rtt))
	}
	return info, nil
}

// Acknowledged is how many bytes the other end's kernel has acknowledged (tcpi_bytes_acked,
// tcpEStatsAppHCThruOctetsAcked of RFC 4898), with the rest of what is known at that moment;
// false once the connection is closed.
func (c *Conn) Acknowledged() (bytes int64, info measurement.TCPInfo, ok bool) {
	k, err := c.tcpInfo()
	if err != nil || k.Snd_mss == 0 {
		return 0, measurement.TCPInfo{}, false
	}
	return int64(k.Bytes_acked), measurement.TCPInfo{
		RTT: microseconds(uint64(k.Rtt)), CongestionWindow: int64(k.Snd_cwnd) * int64(k.Snd_mss), Retransmits: int64(k.Total_retrans),
	}, true
}

// tcpInfo keeps what it reads off the stack, which each of thousands of flows has.
func (c *Conn) tcpInfo() (*unix.TCPInfo, error) {
	k := new(unix.TCPInfo)
	size := uint32(unsafe.Sizeof(*k))
	err := c.ask(func() error {
		_, _, errno := unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(c.fd), unix.IPPROTO_TCP, unix.TCP_INFO,
			uintptr(unsafe.Pointer(k)), uintptr(unsafe.Pointer(&size)), 0)
		if errno != 0 {
			return errno
		}
		return nil
	})
	return k, err
}

// sendBufferFull says that a writer has to wait for room: the kernel wakes it when a
// third of the buffer is free (sk_stream_is_writeable, net/sock.h). The memory in
// use is in SO_MEMINFO (sk_get_meminfo, net/core/sock.c).
func (c *Conn) sendBufferFull() bool {
	var memory [9]uint32 // SK_MEMINFO_VARS of them
	const sendBuffer, queued = 3, 5
	size := uint32(unsafe.Sizeof(memory))
	err := c.ask(func() error {
		_, _, errno := unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(c.fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
			uintptr(unsafe.Pointer(&memory)), uintptr(unsafe.Pointer(&size)), 0)
		if errno != 0 {
			return errno
		}
		return nil
	})
	return err == nil && memory[sendBuffer] > 0 && uint64(memory[queued])*3 >= 2*uint64(memory[sendBuffer])
}

// applicationLimitedByte is where struct tcp_info (linux/tcp.h) has the bit field
// tcpi_delivery_rate_app_limited, its lowest bit.
const applicationLimitedByte = 7

// slowStart is the threshold of a flow that never left slow start
// (TCP_INFINITE_SSTHRESH, net/tcp.h).
const slowStart = 0x7fffffff

// Unread is how many bytes have arrived that were not read (SIOCINQ, tcp(7)).
func (c *Conn) Unread() int64 {
	unread := 0
	err := c.ask(func() (err error) {
		unread, err = unix.IoctlGetInt(c.fd, unix.SIOCINQ)
		return err
	})
	if err != nil {
		return 0 // the connection has ended
	}
	return int64(unread)
}

// OutOfOrder is how many segments came before one that was sent earlier, 0 if unknown.
func (c *Conn) OutOfOrder() int64 {
	k, err := c.tcpInfo()
	if err != nil {
		return 0
	}
	return int64(k.Rcv_ooopack)
}

func microseconds(us uint64) measurement.Seconds { return measurement.Seconds(float64(us) / 1e6) }
