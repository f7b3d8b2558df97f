package probe

import (
	"bytes"
	"encoding/binary"

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
	dataBytes    = 32

	maxSequence = 1<<48 - 1
)

// The phases of a test, in the order of time, as the sender's clock says.
const (
	phaseWarmup   = 0
	phaseMeasured = 1
	phaseAfter    = 2
)

func putData(b []byte, phase byte, sequence uint64, nanoseconds int64) {
	_ = b[dataBytes-1]
	// Kind, phase and sequence make one word.
	binary.BigEndian.PutUint64(b[protocol.CookieBytes:], uint64(datagramData)<<56|uint64(phase)<<48|sequence&maxSequence)
	binary.BigEndian.PutUint64(b[dataTime:], uint64(nanoseconds))
}

// parseData reads a packet of the test that has this cookie, and says whether
// it is one.
func parseData(b, cookie []byte) (phase byte, sequence uint64, nanoseconds int64, ok bool) {
	if len(b) < dataBytes || b[datagramKind] != datagramData || b[dataPhase] > phaseAfter ||
		!bytes.Equal(b[:protocol.CookieBytes], cookie) {
		return 0, 0, 0, false
	}
	sequence = binary.BigEndian.Uint64(b[protocol.CookieBytes:]) & maxSequence
	return b[dataPhase], sequence, int64(binary.BigEndian.Uint64(b[dataTime:])), true
}
