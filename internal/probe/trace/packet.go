package trace

import (
	"crypto/rand"
	"encoding/binary"
	"net/netip"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/icmp/wire"
)

// randomBase returns where the numbers of a trace start: far enough from the
// end that sequence numbers need no wrapping, and unlike another trace's.
func randomBase() (base uint32, echoID uint16) {
	var b [6]byte
	// crypto/rand.Read never fails (Go 1.24).
	_, _ = rand.Read(b[:])
	return binary.BigEndian.Uint32(b[:]), max(1, binary.BigEndian.Uint16(b[4:]))
}

// codec builds probes of one flow that differ only by their number, and finds
// that number in answers and in what ICMP errors quote of the probe, of which
// no more than the first eight bytes of the transport header can be relied on
// (RFC 792).
type codec interface {
	// encode builds probe id from the transport header on.
	encode(id int) []byte
	// reply reads a packet of the destination, from the transport header on.
	reply(b []byte) (r reply, ok bool)
	// quote reads what an ICMP error quotes, from the transport header on.
	quote(b []byte) (id int, ok bool)
}

// reply is what a packet of the destination says.
type reply struct {
	id  int
	mss int // of a SYN-ACK, 0 when absent
}

// maxProbes bounds probe numbers: two for every hop.
const maxProbes = 2 * kind.MaxHops

func newCodec(protocol measurement.Protocol, local, target netip.AddrPort, echoID uint16, base uint32) codec {
	switch protocol {
	case measurement.OverTCP:
		return tcpCodec{local, target, base}
	case measurement.OverUDP:
		return udpCodec{local, target}
	}
	return echoCodec{v6: target.Addr().Is6(), id: echoID, base: uint16(base)}
}

// longestAnswer is more than any answer that is read in full: an IPv4 header
// with options, a TCP header with options, or what an ICMP error quotes.
const longestAnswer = 1500

// IP protocol numbers, for pseudo headers.
const (
	protocolTCP = 6
	protocolUDP = 17
)

// pseudoSum sums the pseudo header that TCP and UDP checksums cover (RFC 9293
// §3.1, RFC 8200 §8.1; the sums of both forms are the same).
func pseudoSum(local, target netip.Addr, protocol, length int) uint32 {
	sum := wire.Sum(uint32(protocol)+uint32(length), local.AsSlice())
	return wire.Sum(sum, target.AsSlice())
}

// tcpCodec numbers SYNs by their sequence number.
type tcpCodec struct {
	local, target netip.AddrPort
	base          uint32
}

const (
	flagSYN = 0x02
	flagACK = 0x10
)

func (c tcpCodec) encode(id int) []byte {
	be := binary.BigEndian
	b := be.AppendUint16(nil, c.local.Port())
	b = be.AppendUint16(b, c.target.Port())
	b = be.AppendUint32(b, c.base+uint32(id))
	b = append(b, 0, 0, 0, 0) // acknowledgment
	b = append(b, 6<<4, flagSYN, 0xff, 0xff, 0, 0, 0, 0)
	// A maximum segment size, as any SYN has: 1460 or 1440.
	mss := uint16(1500 - 20 - 20)
	if c.target.Addr().Is6() {
		mss -= 20
	}
	b = append(b, 2, 4)
	b = be.AppendUint16(b, mss)
	sum := pseudoSum(c.local.Addr(), c.target.Addr(), protocolTCP, len(b))
	be.PutUint16(b[16:], wire.Checksum(sum, b))
	return b
}

// reply takes a SYN-ACK, a RST or an ACK that challenges a second SYN of the
// flow (RFC 5961 §4): each acknowledges the number of the SYN that it answers.
func (c tcpCodec) reply(b []byte) (reply, bool) {
	be := binary.BigEndian
	if len(b) < 20 || be.Uint16(b) != c.target.Port() || be.Uint16(b[2:]) != c.local.Port() || b[13]&flagACK == 0 {
		return reply{}, false
	}
	id, ok := c.number(be.Uint32(b[8:]) - 1)
	r := reply{id: id}
	if header := int(b[12]>>4) * 4; ok && b[13]&flagSYN != 0 && header >= 20 && header <= len(b) {
		r.mss = maximumSegment(b[20:header])
	}
	return r, ok
}

func (c tcpCodec) quote(b []byte) (int, bool) {
	be := binary.BigEndian
	if len(b) < 8 || be.Uint16(b) != c.local.Port() || be.Uint16(b[2:]) != c.target.Port() {
		return 0, false
	}
	return c.number(be.Uint32(b[4:]))
}

func (c tcpCodec) number(sequence uint32) (int, bool) {
	n := sequence - c.base
	return int(n), n < maxProbes
}

// maximumSegment finds the MSS among TCP options (RFC 9293 §3.2), 0 if none.
func maximumSegment(options []byte) int {
	for len(options) > 0 {
		switch {
		case options[0] == 0: // end
			return 0
		case options[0] == 1: // no operation
			options = options[1:]
			continue
		case len(options) < 2 || options[1] < 2 || int(options[1]) > len(options):
			return 0
		case options[0] == 2 && options[1] == 4:
			return int(binary.BigEndian.Uint16(options[2:]))
		}
		options = options[options[1]:]
	}
	return 0
}

// udpCodec numbers datagrams by their length, which no translator of
// addresses changes, as it may the checksum.
type udpCodec struct {
	local, target netip.AddrPort
}

// shortestDatagram is the UDP length of probe 0.
const shortestDatagram = 8 + 12

func (c udpCodec) encode(id int) []byte {
	be := binary.BigEndian
	b := make([]byte, shortestDatagram+id)
	be.PutUint16(b, c.local.Port())
	be.PutUint16(b[2:], c.target.Port())
	be.PutUint16(b[4:], uint16(len(b)))
	sum := wire.Checksum(pseudoSum(c.local.Addr(), c.target.Addr(), protocolUDP, len(b)), b)
	if sum == 0 {
		sum = 0xffff // zero means "none" (RFC 768)
	}
	be.PutUint16(b[6:], sum)
	return b
}

// reply takes nothing: an answer of a listener does not tell which datagram
// it answers.
func (c udpCodec) reply([]byte) (reply, bool) { return reply{}, false }

func (c udpCodec) quote(b []byte) (int, bool) {
	be := binary.BigEndian
	if len(b) < 8 || be.Uint16(b) != c.local.Port() || be.Uint16(b[2:]) != c.target.Port() {
		return 0, false
	}
	id := int(be.Uint16(b[4:])) - shortestDatagram
	return id, id >= 0 && id < maxProbes
}

// echoCodec numbers echo requests by their sequence number, and balances it
// in the payload so that all have the same checksum, which some routers hash.
type echoCodec struct {
	v6 bool
	// id is the identifier, 0 when the kernel sets it and checks it.
	id   uint16
	base uint16
}

func (c echoCodec) encode(id int) []byte {
	sequence := c.base + uint16(id)
	payload := make([]byte, 16)
	binary.BigEndian.PutUint16(payload, ^sequence)
	return wire.AppendEchoRequest(nil, c.v6, c.id, sequence, payload)
}

func (c echoCodec) reply(b []byte) (reply, bool) {
	_, typ := wire.EchoTypes(c.v6)
	id, ok := c.read(b, typ)
	return reply{id: id}, ok
}

func (c echoCodec) quote(b []byte) (int, bool) {
	typ, _ := wire.EchoTypes(c.v6)
	return c.read(b, typ)
}

func (c echoCodec) read(b []byte, typ uint8) (int, bool) {
	echo, ok := wire.ParseEcho(b)
	if !ok || echo.Type != typ || c.id != 0 && echo.ID != c.id {
		return 0, false
	}
	n := echo.Sequence - c.base
	return int(n), n < maxProbes
}
