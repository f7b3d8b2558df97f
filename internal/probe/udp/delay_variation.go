package udp

import (
	"math"
	"math/bits"
	"time"
)

// delays is what the times of a flow's packets say. The clocks of the two ends
// need not agree: only differences between delays are used.
type delays struct {
	base     int64 // delay of the first packet; the histograms count from it
	smallest int64
	last     int64
	jitter   float64 // in nanoseconds
	n        int64
	above    histogram // of delays at or above base
	below    histogram // of how far the others are below it
}

// add takes the delay of n packets that came one after the other, in
// nanoseconds.
func (d *delays) add(delay, n int64) {
	if d.n == 0 {
		d.base, d.smallest, d.last = delay, delay, delay
	}
	// RFC 3550 section 6.4.1: J += (|D| - J) / 16, where D, the difference of
	// the spacing at the receiver and at the sender, is that of the delays.
	// Between packets of the same delay it is zero.
	d.jitter += (math.Abs(float64(delay-d.last)) - d.jitter) / 16
	for range min(n-1, 256) {
		d.jitter -= d.jitter / 16
	}
	d.last = delay
	d.smallest = min(d.smallest, delay)
	d.n += n
	if delay >= d.base {
		d.above.add(uint64(delay-d.base), n)
	} else {
		d.below.add(uint64(d.base-delay), n)
	}
}

// variation is a quantile of the packet delay variation of RFC 5481 section
// 4.2: the delay above the smallest one. It is exact within 1 % of the
// distance from the first packet's delay.
func (d *delays) variation(quantile float64) time.Duration {
	if d.n == 0 {
		return 0
	}
	rank := max(int64(math.Ceil(quantile*float64(d.n))), 1)
	low := d.below.n
	if rank > low {
		return time.Duration(d.base + int64(d.above.at(rank-low)) - d.smallest)
	}
	// The smallest delays are farthest below base.
	return time.Duration(max(d.base-int64(d.below.at(low-rank+1))-d.smallest, 0))
}

const histogramBits = 7

// histogram counts values in buckets whose width is at most 1/128 of their
// value.
type histogram struct {
	n      int64
	counts [(64 - histogramBits + 1) << histogramBits]int64
}

func bucketOf(v uint64) int {
	shift := max(bits.Len64(v)-histogramBits-1, 0)
	return shift<<histogramBits + int(v>>shift)
}

// valueOf is the middle of a bucket.
func valueOf(bucket int) uint64 {
	shift := max(bucket>>histogramBits-1, 0)
	return uint64(bucket-shift<<histogramBits)<<shift + uint64(1)<<shift/2
}

func (h *histogram) add(v uint64, n int64) {
	h.n += n
	h.counts[bucketOf(v)] += n
}

// at is the value with so many values up to and with it.
func (h *histogram) at(rank int64) uint64 {
	for i, n := range h.counts {
		if rank -= n; rank <= 0 && n > 0 {
			return valueOf(i)
		}
	}
	return 0
}
