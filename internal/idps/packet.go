package idps

import (
	"encoding/binary"
	"net/netip"
)

const (
	// virtioHeaderBytes is the size of struct virtio_net_hdr without the field
	// of mergeable buffers (linux/virtio_net.h).
	virtioHeaderBytes = 10
	virtioGSOUDPL4    = 5 // a super-packet of several datagrams

	ethernetHeaderBytes = 14
	ipv6HeaderBytes     = 40

	protocolTCP = 6
	protocolUDP = 17

	// Of RFC 9293, section 3.1.
	flagFIN = 1 << 0
	flagSYN = 1 << 1
	flagRST = 1 << 2
	flagACK = 1 << 4
)

// packet is what inspection needs of a frame. Its slices are parts of it.
type packet struct {
	protocol            uint8
	source, destination netip.AddrPort
	ethernet            []byte // header with its VLAN tags
	payload             []byte

	// Of TCP.
	flags         uint8
	sequence, ack uint32

	// datagram is the length of each datagram in a super-packet of UDP but the
	// last, which may be shorter; 0 when there is one.
	datagram int
}

// kind is what a frame is to inspection.
type kind uint8

const (
	kindOther    kind = iota // neither TCP nor UDP, or malformed
	kindFragment             // part of a packet
	kindPacket
)

// read takes a frame with its virtio header apart.
func (p *packet) read(frame []byte) kind {
	if len(frame) < virtioHeaderBytes+ethernetHeaderBytes {
		return kindOther
	}
	gso, size := frame[1], int(binary.NativeEndian.Uint16(frame[4:]))
	frame = frame[virtioHeaderBytes:]
	at := ethernetHeaderBytes
	etherType := binary.BigEndian.Uint16(frame[12:])
	for range 2 {
		if etherType != 0x8100 && etherType != 0x88a8 {
			break
		}
		if len(frame) < at+4 {
			return kindOther
		}
		etherType = binary.BigEndian.Uint16(frame[at+2:])
		at += 4
	}
	p.ethernet = frame[:at]
	var k kind
	switch etherType {
	case 0x0800:
		k = p.readIPv4(frame[at:])
	case 0x86dd:
		k = p.readIPv6(frame[at:])
	}
	if gso == virtioGSOUDPL4 && k == kindPacket && p.protocol == protocolUDP {
		p.datagram = size
	}
	return k
}

// readIPv4 follows RFC 791, section 3.1.
func (p *packet) readIPv4(b []byte) kind {
	if len(b) < 20 || b[0]>>4 != 4 {
		return kindOther
	}
	header, total := int(b[0]&0x0f)*4, int(binary.BigEndian.Uint16(b[2:]))
	// A super-packet of more than 64 KiB has a length of 0 and ends with the
	// frame; any other may be followed by Ethernet's padding.
	if total == 0 {
		total = len(b)
	}
	if header < 20 || total < header || total > len(b) {
		return kindOther
	}
	const moreFragments, offset = 0x2000, 0x1fff
	if binary.BigEndian.Uint16(b[6:])&(moreFragments|offset) != 0 {
		return kindFragment
	}
	return p.readTransport(b[9], netip.AddrFrom4([4]byte(b[12:])), netip.AddrFrom4([4]byte(b[16:])), b[header:total])
}

// readIPv6 follows RFC 8200, sections 3 and 4, past as many extension headers
// as a sane packet has.
func (p *packet) readIPv6(b []byte) kind {
	if len(b) < ipv6HeaderBytes || b[0]>>4 != 6 {
		return kindOther
	}
	source, destination := netip.AddrFrom16([16]byte(b[8:])), netip.AddrFrom16([16]byte(b[24:]))
	length, next := int(binary.BigEndian.Uint16(b[4:])), b[6]
	b = b[ipv6HeaderBytes:]
	if length > len(b) {
		return kindOther
	}
	if length > 0 { // 0 as with IPv4
		b = b[:length]
	}
	for range 8 {
		switch next {
		case 0, 43, 60: // hop-by-hop, routing, destination options
			if len(b) < 8 || len(b) < 8*(int(b[1])+1) {
				return kindOther
			}
			next, b = b[0], b[8*(int(b[1])+1):]
		case 44: // fragment; one that is whole is an atomic fragment, RFC 6946
			if len(b) < 8 {
				return kindOther
			}
			if binary.BigEndian.Uint16(b[2:])&0xfff9 != 0 {
				return kindFragment
			}
			next, b = b[0], b[8:]
		default:
			return p.readTransport(next, source, destination, b)
		}
	}
	return kindOther
}

func (p *packet) readTransport(protocol uint8, source, destination netip.Addr, b []byte) kind {
	p.protocol = protocol
	header := 8
	switch protocol {
	case protocolTCP:
		if len(b) < 20 {
			return kindOther
		}
		header = int(b[12]>>4) * 4
		if header < 20 {
			return kindOther
		}
		p.sequence, p.ack, p.flags = binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:]), b[13]
	case protocolUDP:
	default:
		return kindOther
	}
	if len(b) < header {
		return kindOther
	}
	p.source = netip.AddrPortFrom(source, binary.BigEndian.Uint16(b[0:]))
	p.destination = netip.AddrPortFrom(destination, binary.BigEndian.Uint16(b[2:]))
	p.payload = b[header:]
	return kindPacket
}
