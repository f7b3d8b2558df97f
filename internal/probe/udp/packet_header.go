package udp

import (
	"bytes"
	"encoding/binary"

	"github.com/hopbench/hopbench/internal/probe/datagram"
	"github.com/hopbench/hopbench/internal/protocol"
)

// The layout of a packet of a udp or pps test; what follows is padding:
//
//	0                               16      17      18              24              32
//	+-------------------------------+-------+-------+---------------+---------------+
//	|            cookie             | kind 3| phase |   sequence    |   send time   |
//	+-------------------------------+-------+-------+---------------+---------------+
//
// The sequence has 48 bits and counts from 0; the time is in nanoseconds of a
// clock of the sender's.
const (
	dataPhase    = protocol.CookieBytes + 1
	dataSequence = protocol.CookieBytes + 2
	dataTime     = 24

	maxSequence = 1<<48 - 1
)

// A packet that follows another in a large buffer, sent zero-copy, is the same
// each time that its memory is sent, and says where it stands instead:
//
//	0                               16      17      18      20      24      28      32
//	+-------------------------------+-------+-------+-------+-------+-------+-------+
//	|            cookie             | kind 6| phase | zero  |  lap  | place | index |
//	+-------------------------------+-------+-------+-------+-------+-------+-------+
//
// Its place is its sequence number modulo the lap; index is how far behind its
// leader it is, the data packet at the head of the buffer, whose time is its own.
const (
	followLap   = 20
	followPlace = 24
	followIndex = 28
)

// The phases of a test, in the order of time, as the sender's clock says.
const (
	phaseWarmup   = 0
	phaseMeasured = 1
	phaseAfter    = 2
)

func putData(b []byte, phase byte, sequence uint64, nanoseconds int64) {
	_ = b[datagram.DataBytes-1]
	// Kind, phase and sequence make one word.
	binary.BigEndian.PutUint64(b[protocol.CookieBytes:], uint64(datagram.Data)<<56|uint64(phase)<<48|sequence&maxSequence)
	binary.BigEndian.PutUint64(b[dataTime:], uint64(nanoseconds))
}

// parseData reads a packet of the test that has this cookie, and says whether
// it is one.
func parseData(b, cookie []byte) (phase byte, sequence uint64, nanoseconds int64, ok bool) {
	if len(b) < datagram.DataBytes || b[datagram.KindOffset] != datagram.Data || b[dataPhase] > phaseAfter ||
		!bytes.Equal(b[:protocol.CookieBytes], cookie) {
		return 0, 0, 0, false
	}
	sequence = binary.BigEndian.Uint64(b[protocol.CookieBytes:]) & maxSequence
	return b[dataPhase], sequence, int64(binary.BigEndian.Uint64(b[dataTime:])), true
}

// follower is where a packet stands that follows another.
type follower struct {
	phase             byte
	lap, place, index uint32
}

// at says whether a sequence number is at the follower's place.
func (f follower) at(sequence uint64) bool { return sequence%uint64(f.lap) == uint64(f.place) }

// last is the last sequence number at the follower's place up to another one, or
// the first of all.
func (f follower) last(sequence uint64) uint64 {
	lap := uint64(f.lap)
	behind := (sequence%lap + lap - uint64(f.place)) % lap
	if behind > sequence {
		return uint64(f.place)
	}
	return sequence - behind
}

func putFollower(b, cookie []byte, f follower) {
	_ = b[datagram.DataBytes-1]
	copy(b, cookie)
	b[datagram.KindOffset], b[dataPhase] = datagram.Follower, f.phase
	binary.BigEndian.PutUint16(b[dataSequence:], 0)
	binary.BigEndian.PutUint32(b[followLap:], f.lap)
	binary.BigEndian.PutUint32(b[followPlace:], f.place)
	binary.BigEndian.PutUint32(b[followIndex:], f.index)
}

// parseFollower reads a follower of the test that has this cookie, and says
// whether it is one.
func parseFollower(b, cookie []byte) (f follower, ok bool) {
	if len(b) < datagram.DataBytes || b[datagram.KindOffset] != datagram.Follower || b[dataPhase] > phaseAfter ||
		!bytes.Equal(b[:protocol.CookieBytes], cookie) {
		return follower{}, false
	}
	f = follower{
		phase: b[dataPhase],
		lap:   binary.BigEndian.Uint32(b[followLap:]), place: binary.BigEndian.Uint32(b[followPlace:]),
		index: binary.BigEndian.Uint32(b[followIndex:]),
	}
	return f, f.place < f.lap && 0 < f.index && f.index <= f.place
}
