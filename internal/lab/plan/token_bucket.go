package plan

import (
	"fmt"
	"math"
)

// TokenBucket are the parameters of tbf(8).
type TokenBucket struct {
	BytesPerSecond uint64
	BurstBytes     uint32
	LimitBytes     uint32
}

// String is the bucket as tc writes it, in bits and bytes.
func (b TokenBucket) String() string {
	return fmt.Sprintf("tbf rate %dbit burst %d limit %d", b.BytesPerSecond*8, b.BurstBytes, b.LimitBytes)
}

// EgressBucket sizes the token bucket that meters an endpoint's egress.
//
// Burst: tbf passes a frame when the bucket holds tokens for all of it, and
// splits a GSO super-packet that is larger than the bucket into its segments,
// each queued by itself; so the bucket holds at least two super-packets of 64
// KiB. Tokens that would overflow a full bucket are lost: when the timer that
// restarts the queue is late by more than burst/rate, the rate comes out too
// low. 5 ms at the rate cover the lateness of a busy machine. The price is that
// a sender that was idle sends 5 ms worth at once: half a percent of a trial of
// one second, and none of it when the bucket is empty after the warm-up that
// throughput trials discard. Two super-packets are two seconds at 500 kbit/s, so
// below 21 Mbit/s the bucket holds no more than 50 ms, and one frame of the
// MTU, without which it would pass none: to split super-packets costs little there.
//
// Limit: 10 ms at the rate, and at least 16 MiB beyond the burst, may wait. TCP
// keeps about 1 ms per flow in the queue of its own host, but not less than two
// super-packets (TCP small queues, tcp_small_queue_check in
// net/ipv4/tcp_output.c): then 128 flows have no drop here. With 1 MiB, 64 flows
// at 100 Mbit/s had every sixth super-packet dropped by their own host. Where
// the bucket meters an instance for many pairs of hosts, a hundred flows keep
// windows at which they send more than single segments.
//
// tbf counts layer 2 bytes, the headers of every segment of a super-packet
// included (qdisc_pkt_len_init in net/core/dev.c): a full frame of an MTU of
// 1500 is 1514 bytes.
func EgressBucket(bitsPerSecond float64, mtu int) TokenBucket {
	const superPacket = 64<<10 + 256 // with the headers of its first segment
	bytesPerSecond := bitsPerSecond / 8
	burst := max(min(2*superPacket, bytesPerSecond*0.050), bytesPerSecond*0.005, float64(frameBytes(mtu)))
	limit := burst + max(16<<20, bytesPerSecond*0.010)
	return TokenBucket{
		BytesPerSecond: uint64(max(1, math.Round(bytesPerSecond))),
		BurstBytes:     uint32(min(math.Ceil(burst), math.MaxUint32)),
		LimitBytes:     uint32(min(math.Ceil(limit), math.MaxUint32)),
	}
}

// frameBytes is the largest frame of a link: that of Ethernet, with a tag of a VLAN.
func frameBytes(mtu int) int { return mtu + 18 }

// HopBucket sizes the token bucket that meters the rate of a hop. Its senders are other hosts, so
// nothing holds datagrams back until it drops them: no more waits than it sends in 1.5 s, and at
// least four frames. With 16 MiB before a slow rate, no answer came back while a test that
// had overloaded it was waited for.
func HopBucket(bitsPerSecond float64, mtu int) TokenBucket {
	const longest, least = 1.5, 4 // seconds, frames
	b := EgressBucket(bitsPerSecond, mtu)
	if queue := max(float64(least*frameBytes(mtu)), bitsPerSecond/8*longest); queue < float64(b.LimitBytes-b.BurstBytes) {
		b.LimitBytes = b.BurstBytes + uint32(queue)
	}
	return b
}
