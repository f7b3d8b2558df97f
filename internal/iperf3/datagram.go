package iperf3

import (
	"encoding/binary"
	"math"
	"time"
)

// The first datagram of a stream and its answer. They are constants of the C
// program written in the order of the client's CPU; the newer pair is
// chosen so that all orders give the same bytes (src/iperf.h).
var hellos = map[[4]byte][4]byte{
	{'9', '8', '7', '6'}:     {'6', '7', '8', '9'},     // newer
	{0x15, 0xcd, 0x5b, 0x07}: {0xb1, 0x68, 0xde, 0x3a}, // 123456789 and 987654321, little-endian
	{0x07, 0x5b, 0xcd, 0x15}: {0x3a, 0xde, 0x68, 0xb1}, // big-endian
}

// helloOf is the first datagram that this client sends.
var helloOf = [4]byte{'9', '8', '7', '6'}

// isHello says whether a datagram is the first of a stream.
func isHello(packet []byte) bool {
	if len(packet) != 4 {
		return false
	}
	_, ok := hellos[[4]byte(packet)]
	return ok
}

// isReply says whether packet answers a hello, in any version.
func isReply(packet []byte) bool {
	for _, reply := range hellos {
		if string(packet) == string(reply[:]) {
			return true
		}
	}
	return false
}

// clock is what the clock shows at a moment that the receiver dates arrivals by: the time of
// day before iperf3 3.7, the time since the boot from then on. Before 3.9 a receiver takes the
// difference to it of the first packet, too, for jitter.
func (p params) clock(at time.Time) time.Duration {
	if p.knows(7) {
		return sinceBoot()
	}
	return time.Duration(at.UnixNano())
}

// header is what a data packet begins with: when it was sent, and its number,
// counted from 1.
type header struct {
	sent   time.Duration // since the sender's own beginning of time
	number uint64
}

const headerBytes = 16

// putHeader writes 16 bytes, of which 12 matter when counters have 32 bits.
func putHeader(b []byte, sent time.Duration, number uint64, wide bool) {
	binary.BigEndian.PutUint32(b, uint32(sent/time.Second))
	binary.BigEndian.PutUint32(b[4:], uint32(sent%time.Second/time.Microsecond))
	if wide {
		binary.BigEndian.PutUint64(b[8:], number)
	} else {
		binary.BigEndian.PutUint32(b[8:], uint32(number))
	}
}

// parseHeader reads the header of a packet of which b is the start.
func parseHeader(b []byte, wide bool) (header, bool) {
	if len(b) < 12 || wide && len(b) < headerBytes {
		return header{}, false
	}
	h := header{
		sent: time.Duration(binary.BigEndian.Uint32(b))*time.Second +
			time.Duration(binary.BigEndian.Uint32(b[4:]))*time.Microsecond,
		number: uint64(binary.BigEndian.Uint32(b[8:])),
	}
	if wide {
		h.number = binary.BigEndian.Uint64(b[8:])
	}
	return h, true
}

// maxNumber bounds packet numbers, so that a hostile one cannot overflow a sum.
const maxNumber = 1 << 53

// arrivals is what a receiver of datagrams knows. Loss and reordering are
// counted as iperf3 counts them, so that results compare: a gap is a loss until
// a packet with a lower number makes up for it; duplicates count as reordered.
type arrivals struct {
	highest      int64 // packet number
	lost         int64
	outOfOrder   int64
	jitter       float64 // seconds
	lastTransit  time.Duration
	first        bool // the next packet is the first, or the first after the omitted time
	omitHighest  int64
	omitLost     int64
	omitDisorder int64
}

// omit marks the end of the omitted start.
func (a *arrivals) omit() {
	a.omitHighest, a.omitLost, a.omitDisorder = a.highest, a.lost, a.outOfOrder
	a.jitter, a.first = 0, true
}

// arrive counts a packet. The two clocks need not agree: only changes of the
// difference matter (interarrival jitter, RFC 3550 section 6.4.1 and A.8).
func (a *arrivals) arrive(h header, at time.Duration) {
	if h.number == 0 || h.number > maxNumber {
		return
	}
	if number := int64(h.number); number > a.highest {
		a.lost += number - a.highest - 1
		a.highest = number
	} else {
		a.outOfOrder++
		if a.lost > 0 {
			a.lost--
		}
	}
	transit := at - h.sent
	if a.first {
		a.first, a.lastTransit = false, transit
	}
	a.jitter += (math.Abs((transit - a.lastTransit).Seconds()) - a.jitter) / 16
	a.lastTransit = transit
}
