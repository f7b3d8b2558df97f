// Package datagram is how the packets of a test over UDP find its other end: their
// layout, a flow's first packet, the search for a port behind a load balancer, and the
// time to live with which packets arrive.
package datagram

import (
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/protocol"
)

// The layout of a native UDP packet; what follows is padding:
//
//	0                               16      17              20              24
//	+-------------------------------+-------+---------------+---------------+
//	|            cookie             | kind  |     zero      |   sequence    |
//	+-------------------------------+-------+---------------+---------------+
const (
	KindOffset     = protocol.CookieBytes
	SequenceOffset = 20
	HeaderBytes    = 24
	// DataBytes is the header of datagramData and datagramFollower.
	DataBytes = kind.MinPacketBytes

	Echo    = 0 // answered with its first 24 bytes, so that the client sees a TTL
	Request = 1 // answered with as many bytes as the test's spec says
	Hello   = 2 // first of a flow; its sequence is the number of READY
	Data    = 3 // of a udp or pps test; see package udp
	Probe   = 4 // of an mtu test, answered with its first 24 bytes
	Mirror  = 5 // of an mtu test, answered with as many bytes
	// Follower is of a udp test, behind a datagramData in a large buffer.
	Follower = 6
	// Stamp is answered with the time, behind its header: see clock_stamps.go.
	Stamp = 7

	MaxBytes = kind.MaxDatagramBytes
)

// PutHeader writes the cookie and the kind of a packet.
func PutHeader(b, cookie []byte, kindOf byte) {
	copy(b[:protocol.CookieBytes], cookie)
	b[KindOffset] = kindOf
}
