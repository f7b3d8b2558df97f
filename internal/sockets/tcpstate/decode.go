package tcpstate

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
)

// The structures in which other systems than Linux tell the state of a
// connection, read from their bytes, so that the layouts are
// tested wherever the tests run. All these systems are little-endian.

// Sizes of the structures.
const (
	windowsTCPInfo0Bytes = 88
	windowsTCPInfo1Bytes = 136
	darwinTCPInfoBytes   = 112
)

// windowsTCPInfo reads TCP_INFO_v0 or, if there are as many bytes, TCP_INFO_v1
// of mstcpip.h:
// https://learn.microsoft.com/windows/win32/api/mstcpip/ns-mstcpip-tcp_info_v1
//
// Windows counts retransmitted bytes; they become segments of the current MSS,
// rounded up. Of the times that a sender was limited (milliseconds, RFC 4898)
// only that of the receiver's window means what Linux means by it.
func windowsTCPInfo(b []byte, at time.Duration) (measurement.TCPInfo, error) {
	if len(b) < windowsTCPInfo0Bytes {
		return measurement.TCPInfo{}, fmt.Errorf("read TCP_INFO: %w", errShort)
	}
	u32 := func(offset int) int64 { return int64(binary.LittleEndian.Uint32(b[offset:])) }
	info := measurement.TCPInfo{
		At:               measurement.SecondsOf(at),
		MSS:              u32(4),
		RTT:              microsecondsOf(u32(20)),
		InFlight:         u32(28),
		CongestionWindow: u32(32),
		SendWindow:       u32(36),
	}
	// All bits set: there is no sample yet.
	if least := u32(24); least != 1<<32-1 {
		info.MinRTT = microsecondsOf(least)
	}
	if info.MSS > 0 {
		info.Retransmits = (u32(68) + info.MSS - 1) / info.MSS
	}
	if len(b) >= windowsTCPInfo1Bytes {
		info.ReceiveWindowTime = millisecondsOf(u32(92))
	}
	return info, nil
}

// darwinTCPInfo reads struct tcp_connection_info of netinet/tcp.h:
// https://github.com/apple-oss-distributions/xnu/blob/main/bsd/netinet/tcp.h
// Its times are whole milliseconds, too coarse for a fast path: less than one
// is absent.
func darwinTCPInfo(b []byte, at time.Duration) (measurement.TCPInfo, error) {
	if len(b) < darwinTCPInfoBytes {
		return measurement.TCPInfo{}, fmt.Errorf("read TCP_CONNECTION_INFO: %w", errShort)
	}
	u32 := func(offset int) int64 { return int64(binary.LittleEndian.Uint32(b[offset:])) }
	return measurement.TCPInfo{
		At:               measurement.SecondsOf(at),
		MSS:              u32(16),
		CongestionWindow: u32(24),
		SendWindow:       u32(28),
		RTT:              millisecondsOf(u32(44)),
		RTTVariation:     millisecondsOf(u32(48)),
		Retransmits:      int64(min(binary.LittleEndian.Uint64(b[104:]), 1<<53)),
	}, nil
}

func microsecondsOf(us int64) measurement.Seconds {
	return measurement.SecondsOf(time.Duration(us) * time.Microsecond)
}

func millisecondsOf(ms int64) measurement.Seconds {
	return measurement.SecondsOf(time.Duration(ms) * time.Millisecond)
}
