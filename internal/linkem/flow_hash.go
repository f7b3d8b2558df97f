package linkem

import (
	"encoding/binary"
	"math/bits"
)

// flowKey names the flow of a frame by a hash; 0 is no flow.
type flowKey uint64

// Protocols whose header begins with the two ports.
const (
	protocolTCP     = 6
	protocolUDP     = 17
	protocolDCCP    = 33
	protocolSCTP    = 132
	protocolUDPLite = 136
)

// flowOf hashes what makes a flow of the frame that packet begins with: the
// addresses, the protocol and, where the protocol has them, the ports of its IP
// packet, which may lie behind VLAN tags. Packets without ports are told apart
// by addresses and protocol alone; so are fragments, because only the first has
// the ports. What is not IP, or makes no sense, is no flow.
func flowOf(packet []byte, seed uint64) flowKey {
	etherType, at := networkOffset(packet)
	var addresses []byte
	var protocol byte
	var transport int
	fragment := false
	switch etherType {
	case etherTypeIPv4:
		if transport = ipv4Transport(packet, at); transport == 0 || len(packet) < at+20 {
			return 0
		}
		addresses, protocol = packet[at+12:at+20], packet[at+9]
		// RFC 791 section 3.1: the offset, and more to follow.
		fragment = binary.BigEndian.Uint16(packet[at+6:])&0x3fff != 0
	case etherTypeIPv6:
		if transport, protocol, fragment = ipv6Transport(packet, at); transport == 0 {
			return 0
		}
		addresses = packet[at+8 : at+40]
	default:
		return 0
	}
	var ports uint32
	switch protocol {
	case protocolTCP, protocolUDP, protocolDCCP, protocolSCTP, protocolUDPLite:
		if !fragment && len(packet) >= transport+4 {
			ports = binary.NativeEndian.Uint32(packet[transport:])
		}
	}
	hash := mix(seed, uint64(protocol)<<32|uint64(ports))
	for ; len(addresses) > 0; addresses = addresses[8:] {
		hash = mix(hash, binary.NativeEndian.Uint64(addresses))
	}
	return flowKey(max(hash, 1))
}

// mix folds a word into a hash: the two halves of a product of 128 bits.
func mix(hash, word uint64) uint64 {
	high, low := bits.Mul64(hash^0x9e3779b97f4a7c15, word^0xd1b54a32d192ed03)
	return high ^ low
}
