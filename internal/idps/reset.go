package idps

import (
	"encoding/binary"
	"net/netip"
)

// answer is a frame that resets the sender of p, as a host answers for a
// connection that it does not have (RFC 9293, section 3.10.7.1): with the
// sequence number that p itself acknowledges, which the sender accepts without
// a challenge (RFC 5961, section 3.2).
func (p *packet) answer(buffer []byte) []byte {
	sequence, ack, flags := p.ack, uint32(0), uint8(flagRST)
	if p.flags&flagACK == 0 {
		sequence, ack, flags = 0, p.sequence+p.length(), flagRST|flagACK
	}
	return p.reset(buffer, true, sequence, ack, flags)
}

// replace is a frame that resets the receiver of p in the sender's name. next
// is the sequence number that the receiver waits for.
func (p *packet) replace(buffer []byte, next uint32) []byte {
	return p.reset(buffer, false, next, p.ack, flagRST|p.flags&flagACK)
}

// length is how far p moves the sequence number on.
func (p *packet) length() uint32 {
	n := uint32(len(p.payload))
	if p.flags&flagSYN != 0 {
		n++
	}
	if p.flags&flagFIN != 0 {
		n++
	}
	return n
}

// reset builds a TCP reset in buffer, with complete checksums: towards the
// sender of p when back is set, else on behalf of it.
func (p *packet) reset(buffer []byte, back bool, sequence, ack uint32, flags uint8) []byte {
	from, to := p.source, p.destination
	frame := append(buffer[:0], make([]byte, virtioHeaderBytes)...)
	frame = append(frame, p.ethernet...)
	if back {
		from, to = to, from
		copy(frame[virtioHeaderBytes:], p.ethernet[6:12])
		copy(frame[virtioHeaderBytes+6:], p.ethernet[:6])
	}
	var tcp [20]byte
	binary.BigEndian.PutUint16(tcp[0:], from.Port())
	binary.BigEndian.PutUint16(tcp[2:], to.Port())
	binary.BigEndian.PutUint32(tcp[4:], sequence)
	binary.BigEndian.PutUint32(tcp[8:], ack)
	tcp[12], tcp[13] = 5<<4, flags
	source, destination := from.Addr(), to.Addr()
	binary.BigEndian.PutUint16(tcp[16:], ^transportSum(source, destination, tcp[:]))
	if source.Is4() {
		frame = append(frame, ipv4Header(source, destination, len(tcp))...)
	} else {
		frame = append(frame, ipv6Header(source, destination, len(tcp))...)
	}
	return append(frame, tcp[:]...)
}

const resetTTL = 64

func ipv4Header(source, destination netip.Addr, payload int) []byte {
	h := make([]byte, 20)
	h[0] = 4<<4 | 5
	binary.BigEndian.PutUint16(h[2:], uint16(len(h)+payload))
	h[6] = 0x40 // don't fragment
	h[8], h[9] = resetTTL, protocolTCP
	copy(h[12:], source.AsSlice())
	copy(h[16:], destination.AsSlice())
	binary.BigEndian.PutUint16(h[10:], ^sum(0, h))
	return h
}

func ipv6Header(source, destination netip.Addr, payload int) []byte {
	h := make([]byte, ipv6HeaderBytes)
	h[0] = 6 << 4
	binary.BigEndian.PutUint16(h[4:], uint16(payload))
	h[6], h[7] = protocolTCP, resetTTL
	copy(h[8:], source.AsSlice())
	copy(h[24:], destination.AsSlice())
	return h
}

// transportSum is that of TCP with its pseudo-header (RFC 9293, section 3.1).
func transportSum(source, destination netip.Addr, segment []byte) uint16 {
	s := uint32(protocolTCP) + uint32(len(segment))
	s = uint32(sum(s, source.AsSlice()))
	s = uint32(sum(s, destination.AsSlice()))
	return sum(s, segment)
}

// sum is the one's complement sum of RFC 1071 on top of start; b has an even
// number of bytes.
func sum(start uint32, b []byte) uint16 {
	for i := 0; i+1 < len(b); i += 2 {
		start += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for start>>16 != 0 {
		start = start&0xffff + start>>16
	}
	return uint16(start)
}
