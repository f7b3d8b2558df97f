// Package wire has the bytes that ping and trace put on and take from the
// wire: ICMP echo messages, the Internet checksum, the names of ICMP errors
// and, on Linux, the socket error queue on which the kernel hands over ICMP
// errors and transmit timestamps.
//
// Every parser takes bytes from strangers: it never panics, never reads past
// its input and allocates nothing that grows with it.
package wire

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// Kinds of ICMP echo socket, by name as results carry them.
const (
	RawSocket      = "raw"
	DatagramSocket = "datagram"
)

// CheckEnds says why nothing can be sent to a target, from a source unless that is invalid.
// Neither may be an IPv4 address in IPv6 form.
func CheckEnds(source, target netip.Addr) error {
	switch {
	case !target.IsValid() || target.IsUnspecified() || target.IsMulticast():
		return fmt.Errorf("target %v is not a unicast address", target)
	case source.IsValid() && source.Is6() != target.Is6():
		return fmt.Errorf("source %v and target %v are of different address families", source, target)
	}
	return nil
}

// EchoHeaderBytes is the length of an echo message before its payload
// (RFC 792 and RFC 4443 §4.1: type, code, checksum, identifier, sequence).
const EchoHeaderBytes = 8

// Echo is an ICMP or ICMPv6 echo request or reply.
type Echo struct {
	Type, Code   uint8
	ID, Sequence uint16
	Payload      []byte
}

// EchoTypes returns the request and reply types of the address family.
func EchoTypes(v6 bool) (request, reply uint8) {
	if v6 {
		return uint8(ipv6.ICMPTypeEchoRequest), uint8(ipv6.ICMPTypeEchoReply)
	}
	return uint8(ipv4.ICMPTypeEcho), uint8(ipv4.ICMPTypeEchoReply)
}

// AppendEchoRequest appends an echo request. Its checksum is that of ICMP for
// IPv4; for ICMPv6 it is left zero, because it covers a pseudo header and the
// kernel fills it in (RFC 3542 §3.1).
func AppendEchoRequest(b []byte, v6 bool, id, sequence uint16, payload []byte) []byte {
	start := len(b)
	request, _ := EchoTypes(v6)
	b = append(b, request, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, id)
	b = binary.BigEndian.AppendUint16(b, sequence)
	b = append(b, payload...)
	if !v6 {
		binary.BigEndian.PutUint16(b[start+2:], Checksum(0, b[start:]))
	}
	return b
}

// ParseEcho reads the echo message that b starts with. The payload aliases b
// and may be cut short, as it is in what an ICMP error quotes. The checksum
// is not looked at: the kernel verified it of messages, and nobody can of
// quotes.
func ParseEcho(b []byte) (Echo, bool) {
	if len(b) < EchoHeaderBytes {
		return Echo{}, false
	}
	return Echo{
		Type:     b[0],
		Code:     b[1],
		ID:       binary.BigEndian.Uint16(b[4:]),
		Sequence: binary.BigEndian.Uint16(b[6:]),
		Payload:  b[EchoHeaderBytes:],
	}, true
}

// SplitIPv4 splits an IPv4 packet, as a raw socket delivers it, into its time
// to live and what follows the header.
func SplitIPv4(b []byte) (ttl int, payload []byte, ok bool) {
	if len(b) < 20 || b[0]>>4 != 4 {
		return 0, nil, false
	}
	header := int(b[0]&0x0f) * 4
	if header < 20 || header > len(b) {
		return 0, nil, false
	}
	return int(b[8]), b[header:], true
}

// Sum adds b, as big-endian 16-bit words, to a running sum for Checksum.
func Sum(sum uint32, b []byte) uint32 {
	for ; len(b) >= 2; b = b[2:] {
		sum += uint32(b[0])<<8 | uint32(b[1])
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	return sum>>16 + sum&0xffff
}

// Checksum is the Internet checksum (RFC 1071) of b, on top of a sum of
// earlier words. All parts but the last must have an even length.
func Checksum(sum uint32, b []byte) uint16 {
	sum = Sum(sum, b)
	for sum>>16 != 0 {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// Kinds of ICMP error that callers tell apart.
const (
	unreachable4     = uint8(ipv4.ICMPTypeDestinationUnreachable)
	timeExceeded4    = uint8(ipv4.ICMPTypeTimeExceeded)
	unreachable6     = uint8(ipv6.ICMPTypeDestinationUnreachable)
	packetTooBig6    = uint8(ipv6.ICMPTypePacketTooBig)
	timeExceeded6    = uint8(ipv6.ICMPTypeTimeExceeded)
	portUnreachable4 = 3
	fragNeeded4      = 4
	portUnreachable6 = 4
)

// IsTimeExceeded tells an expired time to live (code 0; code 1 is about the
// reassembly of fragments) from other ICMP errors.
func IsTimeExceeded(v6 bool, typ, code uint8) bool {
	if v6 {
		return typ == timeExceeded6 && code == 0
	}
	return typ == timeExceeded4 && code == 0
}

// IsPortUnreachable tells "nobody listens on that port".
func IsPortUnreachable(v6 bool, typ, code uint8) bool {
	if v6 {
		return typ == unreachable6 && code == portUnreachable6
	}
	return typ == unreachable4 && code == portUnreachable4
}

// IsTooBig tells that the packet exceeded a link's MTU.
func IsTooBig(v6 bool, typ, code uint8) bool {
	if v6 {
		return typ == packetTooBig6
	}
	return typ == unreachable4 && code == fragNeeded4
}

// unreachableNames4 are the codes of destination unreachable (RFC 792,
// RFC 1122 §3.2.2.1, RFC 1812 §5.2.7.1).
var unreachableNames4 = [...]string{
	0:  "network unreachable",
	1:  "host unreachable",
	2:  "protocol unreachable",
	3:  "port unreachable",
	4:  "fragmentation needed",
	5:  "source route failed",
	6:  "destination network unknown",
	7:  "destination host unknown",
	8:  "source host isolated",
	9:  "network administratively prohibited",
	10: "host administratively prohibited",
	11: "network unreachable for this type of service",
	12: "host unreachable for this type of service",
	13: "communication administratively prohibited",
	14: "host precedence violation",
	15: "precedence cutoff in effect",
}

// unreachableNames6 are the codes of ICMPv6 destination unreachable (RFC 4443
// §3.1).
var unreachableNames6 = [...]string{
	0: "no route",
	1: "administratively prohibited",
	2: "beyond the scope of the source address",
	3: "address unreachable",
	4: "port unreachable",
	5: "source address failed the ingress policy",
	6: "reject route",
}

// Describe names an ICMP error for people.
func Describe(v6 bool, typ, code uint8) string {
	names := unreachableNames4[:]
	isUnreachable := typ == unreachable4
	if v6 {
		names, isUnreachable = unreachableNames6[:], typ == unreachable6
	}
	switch {
	case isUnreachable && int(code) < len(names):
		return names[code]
	case IsTooBig(v6, typ, code):
		return "packet too big"
	case IsTimeExceeded(v6, typ, code):
		return "time to live exceeded"
	case v6:
		return fmt.Sprintf("ICMPv6 type %d code %d", typ, code)
	default:
		return fmt.Sprintf("ICMP type %d code %d", typ, code)
	}
}

// ZoneIndex turns an IPv6 zone, a name or a number, into an interface index;
// 0, which means none, when there is no such interface.
func ZoneIndex(zone string) uint32 {
	if zone == "" {
		return 0
	}
	if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
		return uint32(n)
	}
	link, err := net.InterfaceByName(zone)
	if err != nil {
		return 0
	}
	return uint32(link.Index)
}

// Error is an ICMP error, as it comes from the wire.
type Error struct {
	Type, Code uint8
	// MTU is that of the link that was too narrow, in bytes, 0 unless IsTooBig.
	MTU uint32
	// To is whom the packet was for that the error is about, and Quote what it
	// quotes of that packet, from the ICMP header on.
	To    netip.Addr
	Quote []byte
}

// ParseError reads an ICMP error about an ICMP message. The quote aliases b.
func ParseError(b []byte, v6 bool) (Error, bool) {
	if len(b) < EchoHeaderBytes {
		return Error{}, false
	}
	e := Error{Type: b[0], Code: b[1]}
	quote := b[EchoHeaderBytes:]
	if v6 {
		const header, next = 40, 6 // RFC 8200 §3
		if e.Type >= uint8(ipv6.ICMPTypeEchoRequest) || len(quote) < header || quote[next] != protocolICMPv6 {
			return Error{}, false
		}
		e.To, e.Quote = netip.AddrFrom16([16]byte(quote[24:])), quote[header:]
		if IsTooBig(v6, e.Type, e.Code) {
			e.MTU = binary.BigEndian.Uint32(b[4:]) // RFC 4443 §3.2
		}
		return e, true
	}
	switch e.Type {
	case unreachable4, timeExceeded4, uint8(ipv4.ICMPTypeParameterProblem):
	default:
		return Error{}, false
	}
	_, rest, ok := SplitIPv4(quote)
	if !ok || quote[9] != protocolICMP {
		return Error{}, false
	}
	e.To, e.Quote = netip.AddrFrom4([4]byte(quote[16:])), rest
	if IsTooBig(v6, e.Type, e.Code) {
		e.MTU = uint32(binary.BigEndian.Uint16(b[6:])) // RFC 1191 §4
	}
	return e, true
}

// IP protocol numbers.
const (
	protocolICMP   = 1
	protocolICMPv6 = 58
)
