package probe

import "github.com/hopbench/hopbench/internal/protocol"

// The layout of a native UDP packet; what follows is padding:
//
//	0                               16      17              20              24
//	+-------------------------------+-------+---------------+---------------+
//	|            cookie             | kind  |     zero      |   sequence    |
//	+-------------------------------+-------+---------------+---------------+
const (
	datagramKind     = protocol.CookieBytes
	datagramSequence = 20
	datagramBytes    = 24
	// dataBytes is the header of datagramData and datagramFollower.
	dataBytes = 32

	datagramEcho    = 0 // answered with its first 24 bytes, so that the client sees a TTL
	datagramRequest = 1 // answered with as many bytes as the test's spec says
	datagramHello   = 2 // first of a flow; its sequence is the number of READY
	datagramData    = 3 // of a udp or pps test; see packetdata.go
	datagramProbe   = 4 // of an mtu test, answered with its first 24 bytes
	datagramMirror  = 5 // of an mtu test, answered with as many bytes
	// datagramFollower is of a udp test, behind a datagramData in a large buffer.
	datagramFollower = 6

	maxDatagram = 65507 // the largest UDP payload over IPv4
)

func putDatagram(b, cookie []byte, kind byte) {
	copy(b[:protocol.CookieBytes], cookie)
	b[datagramKind] = kind
}
