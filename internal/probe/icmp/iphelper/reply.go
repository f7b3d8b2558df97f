// Package iphelper sends ICMP echo requests by the IP Helper API of Windows
// (IcmpSendEcho2Ex, Icmp6SendEcho2), which needs no administrator. Its replies
// are laid out here as the Windows SDK does (ipexport.h), and read on every
// system, so that what reads bytes from outside is tested everywhere.
package iphelper

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// Reply is what came back for an echo request.
type Reply struct {
	From   netip.Addr
	Status Status
	// TTL is the time to live that the reply arrived with, 0 when unknown, as
	// it always is over IPv6.
	TTL int
	// Payload is the reply's. Over IPv6 the API does not tell its length: what
	// may follow it is zeros.
	Payload []byte
}

// Status is an IP_STATUS of ipexport.h.
type Status uint32

// Those that callers tell apart.
const (
	Success  Status = 0
	TimedOut Status = 11010 // IP_REQ_TIMED_OUT
)

type icmpError struct{ type4, code4, type6, code6 int }

// errorsOf are the ICMP errors that a status stands for, -1 where it is none of
// the family.
var (
	unreachable4 = int(ipv4.ICMPTypeDestinationUnreachable)
	unreachable6 = int(ipv6.ICMPTypeDestinationUnreachable)
	errorsOf     = map[Status]icmpError{
		11002: {unreachable4, 0, unreachable6, 0},                                     // IP_DEST_NET_UNREACHABLE
		11003: {unreachable4, 1, unreachable6, 3},                                     // IP_DEST_HOST_UNREACHABLE
		11004: {unreachable4, 2, unreachable6, 1},                                     // IP_DEST_PROT_UNREACHABLE, IP_DEST_PROHIBITED
		11005: {unreachable4, 3, unreachable6, 4},                                     // IP_DEST_PORT_UNREACHABLE
		11009: {unreachable4, 4, int(ipv6.ICMPTypePacketTooBig), 0},                   // IP_PACKET_TOO_BIG
		11012: {unreachable4, 5, -1, 0},                                               // IP_BAD_ROUTE
		11013: {int(ipv4.ICMPTypeTimeExceeded), 0, int(ipv6.ICMPTypeTimeExceeded), 0}, // IP_TTL_EXPIRED_TRANSIT, IP_HOP_LIMIT_EXCEEDED
		11014: {int(ipv4.ICMPTypeTimeExceeded), 1, int(ipv6.ICMPTypeTimeExceeded), 1}, // IP_TTL_EXPIRED_REASSEM
		11015: {int(ipv4.ICMPTypeParameterProblem), 0, int(ipv6.ICMPTypeParameterProblem), 0},
		11016: {4, 0, -1, 0},                                        // IP_SOURCE_QUENCH (RFC 792, deprecated by RFC 6633)
		11040: {-1, 0, unreachable6, 0},                             // IP_DEST_UNREACHABLE
		11041: {-1, 0, int(ipv6.ICMPTypeTimeExceeded), 0},           // IP_TIME_EXCEEDED
		11042: {-1, 0, int(ipv6.ICMPTypeParameterProblem), 0},       // IP_BAD_HEADER
		11043: {-1, 0, int(ipv6.ICMPTypeParameterProblem), 1},       // IP_UNRECOGNIZED_NEXT_HEADER
		11045: {-1, 0, int(ipv6.ICMPTypeDestinationUnreachable), 2}, // IP_DEST_SCOPE_MISMATCH
	}
)

// ICMP returns the type and code of the ICMP error that the status stands for.
func (s Status) ICMP(v6 bool) (typ, code uint8, ok bool) {
	e, known := errorsOf[s]
	if v6 {
		return uint8(e.type6), uint8(e.code6), known && e.type6 >= 0
	}
	return uint8(e.type4), uint8(e.code4), known && e.type4 >= 0
}

// Error is for a status that is no ICMP error.
func (s Status) Error() string { return fmt.Sprintf("IP_STATUS %d", uint32(s)) }

// reply4Bytes is the size of ICMP_ECHO_REPLY: address, status, round trip in
// milliseconds, size of the data, reserved, pointer to the data, and
// IP_OPTION_INFORMATION: time to live, type of service, flags, size of the
// options, pointer to them.
func reply4Bytes(pointerBytes int) int { return 16 + 3*pointerBytes }

// parse4 reads the ICMP_ECHO_REPLY that b, which lies at an address in memory,
// starts with.
func parse4(b []byte, address uint64, pointerBytes int) (Reply, error) {
	if len(b) < reply4Bytes(pointerBytes) {
		return Reply{}, fmt.Errorf("an ICMP_ECHO_REPLY of %d bytes", len(b))
	}
	le := binary.LittleEndian
	r := Reply{From: netip.AddrFrom4([4]byte(b)), Status: Status(le.Uint32(b[4:]))}
	if r.Status != Success {
		return r, nil // what else there is, is of the ICMP error
	}
	size, at := uint64(le.Uint16(b[12:])), uint64(le.Uint32(b[16:]))
	if pointerBytes == 8 {
		at = le.Uint64(b[16:])
	}
	r.TTL = int(b[16+pointerBytes])
	if size == 0 {
		return r, nil
	}
	start := at - address
	if at < address || start > uint64(len(b)) || size > uint64(len(b))-start {
		return Reply{}, fmt.Errorf("the data of an ICMP_ECHO_REPLY lies outside its buffer: %d bytes at %d of %d", size, int64(start), len(b))
	}
	r.Payload = b[start : start+size]
	return r, nil
}

// reply6Bytes is the size of ICMPV6_ECHO_REPLY: IPV6_ADDRESS_EX, which is
// packed (port, flow, address, scope), padding, status, round trip in
// milliseconds. The data follows.
const reply6Bytes = 26 + 2 + 4 + 4

// parse6 reads the ICMPV6_ECHO_REPLY that b starts with.
func parse6(b []byte) (Reply, error) {
	if len(b) < reply6Bytes {
		return Reply{}, fmt.Errorf("an ICMPV6_ECHO_REPLY of %d bytes", len(b))
	}
	return Reply{
		From:    netip.AddrFrom16([16]byte(b[6:])),
		Status:  Status(binary.LittleEndian.Uint32(b[28:])),
		Payload: b[reply6Bytes:],
	}, nil
}
