package tcpstate

import (
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/measurement"
)

// Raw is what the kernel told of a connection, to be put into other words where the
// descriptor is not needed any more: that takes stack, which each of thousands of flows has.
// That of a closed connection is its zero value.
type Raw struct {
	info           *unix.TCPInfo
	sendBufferFull bool
}

// Take reads the kernel's struct tcp_info, and whether the send buffer is full.
func Take(fd int) (Raw, error) {
	k, err := tcpInfo(fd)
	if err != nil {
		return Raw{}, fmt.Errorf("read TCP_INFO: %w", err)
	}
	return Raw{k, sendBufferFull(fd)}, nil
}

// Info is what was read, At a given time. Fields beyond what the running kernel reports
// are zero. Bytes counters are those of linux/tcp.h; windows that the kernel keeps in
// segments are multiplied by the sending MSS. What it returns is not on the stack either.
func (r Raw) Info(at time.Duration) *measurement.TCPInfo {
	k := r.info
	if k == nil {
		return &measurement.TCPInfo{At: measurement.SecondsOf(at)}
	}
	// A kernel that knows fewer fields writes, and returns, fewer bytes; what
	// it did not write is still zero, and zero means absent in the result.
	mss := int64(k.Snd_mss)
	info := &measurement.TCPInfo{
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
	info.SendBufferFull = r.sendBufferFull
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
	return info
}

// Acknowledged is how many bytes the other end's kernel has acknowledged (tcpi_bytes_acked,
// tcpEStatsAppHCThruOctetsAcked of RFC 4898), with the rest of what is known at that moment;
// false of a connection that is not established.
func (r Raw) Acknowledged() (bytes int64, info measurement.TCPInfo, ok bool) {
	k := r.info
	if k == nil || k.Snd_mss == 0 {
		return 0, measurement.TCPInfo{}, false
	}
	return int64(k.Bytes_acked), measurement.TCPInfo{
		RTT: microseconds(uint64(k.Rtt)), CongestionWindow: int64(k.Snd_cwnd) * int64(k.Snd_mss), Retransmits: int64(k.Total_retrans),
	}, true
}

// tcpInfo keeps what it reads off the stack, which each of thousands of flows has.
func tcpInfo(fd int) (*unix.TCPInfo, error) {
	k := new(unix.TCPInfo)
	return k, getsockopt(fd, unix.IPPROTO_TCP, unix.TCP_INFO, unsafe.Pointer(k), unsafe.Sizeof(*k))
}

func getsockopt(fd, level, option int, into unsafe.Pointer, size uintptr) error {
	bytes := uint32(size)
	_, _, errno := unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(option), uintptr(into), uintptr(unsafe.Pointer(&bytes)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// sendBufferFull says that a writer has to wait for room: the kernel wakes it when a
// third of the buffer is free (sk_stream_is_writeable, net/sock.h). The memory in
// use is in SO_MEMINFO (sk_get_meminfo, net/core/sock.c).
func sendBufferFull(fd int) bool {
	var memory [9]uint32 // SK_MEMINFO_VARS of them
	const sendBuffer, queued = 3, 5
	err := getsockopt(fd, unix.SOL_SOCKET, unix.SO_MEMINFO, unsafe.Pointer(&memory), unsafe.Sizeof(memory))
	return err == nil && memory[sendBuffer] > 0 && uint64(memory[queued])*3 >= 2*uint64(memory[sendBuffer])
}

// applicationLimitedByte is where struct tcp_info (linux/tcp.h) has the bit field
// tcpi_delivery_rate_app_limited, its lowest bit.
const applicationLimitedByte = 7

// slowStart is the threshold of a flow that never left slow start
// (TCP_INFINITE_SSTHRESH, net/tcp.h).
const slowStart = 0x7fffffff

// OutOfOrder is how many segments came before one that was sent earlier, 0 if unknown.
func OutOfOrder(fd int) int64 {
	k, err := tcpInfo(fd)
	if err != nil {
		return 0
	}
	return int64(k.Rcv_ooopack)
}

// LostInARow is how many times in a row the retransmission timer ran out without an answer since,
// 0 if unknown.
func LostInARow(fd int) int {
	k, err := tcpInfo(fd)
	if err != nil {
		return 0
	}
	return int(k.Retransmits)
}

func microseconds(us uint64) measurement.Seconds { return measurement.Seconds(float64(us) / 1e6) }
