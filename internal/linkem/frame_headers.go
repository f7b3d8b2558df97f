package linkem

import "encoding/binary"

// Values of struct virtio_net_hdr (linux/virtio_net.h). Its fields are in the
// machine's byte order: flags u8, gso_type u8, hdr_len u16, gso_size u16,
// csum_start u16, csum_offset u16.
const (
	virtioNeedsChecksum = 1    // csum_start is valid
	virtioGSOTCPv4      = 1    // cut TCP over IPv4
	virtioGSOUDP        = 3    // cut by IP fragmentation
	virtioGSOTCPv6      = 4    // cut TCP over IPv6
	virtioGSOUDPL4      = 5    // cut into UDP datagrams
	virtioGSOECN        = 0x80 // flag on top of a TCP type

	ethernetHeaderBytes = 14
	udpHeaderBytes      = 8

	etherTypeIPv4 = 0x0800
	etherTypeIPv6 = 0x86dd
)

// WireBytes returns how many bytes of layer 2, without the frame check
// sequence, a real wire would carry for a frame with its virtio header in
// front: for a super-packet the bytes of all segments, each with its own
// headers. head holds at least the start of the frame, up to the end of its
// transport header; length is that of the whole, virtio header included. A
// frame whose headers make no sense counts as one segment.
func WireBytes(head []byte, length int) int {
	frame := length - virtioHeaderBytes
	if len(head) < virtioHeaderBytes || frame <= 0 {
		return max(frame, 0)
	}
	kind := head[1] &^ virtioGSOECN
	size := int(binary.NativeEndian.Uint16(head[4:]))
	if kind == 0 || size == 0 {
		return frame
	}
	headers := segmentHeaderBytes(head, kind)
	payload := frame - headers
	if headers == 0 || payload <= size {
		return frame
	}
	segments := (payload + size - 1) / size
	return frame + (segments-1)*headers
}

// segmentHeaderBytes is the length of the headers that every segment of a
// super-packet repeats: Ethernet, IP and transport. 0 means unknown.
func segmentHeaderBytes(head []byte, kind byte) int {
	packet := head[virtioHeaderBytes:]
	transport := 0
	if head[0]&virtioNeedsChecksum != 0 {
		// The kernel asks for the checksum from the transport header on, so
		// no header chain needs to be walked.
		transport = int(binary.NativeEndian.Uint16(head[6:]))
	} else {
		transport = transportOffset(packet)
	}
	if transport < ethernetHeaderBytes || transport >= len(packet) {
		return 0
	}
	switch kind {
	case virtioGSOTCPv4, virtioGSOTCPv6:
		if transport+13 > len(packet) {
			return 0
		}
		// RFC 9293 section 3.1: the data offset counts words of 32 bits.
		words := int(packet[transport+12] >> 4)
		if words < 5 {
			return 0
		}
		return transport + 4*words
	case virtioGSOUDPL4:
		return transport + udpHeaderBytes
	case virtioGSOUDP:
		return transport // the UDP header is in the first fragment only
	}
	return 0
}

// transportOffset walks Ethernet, VLAN tags and IP to the transport header.
// 0 means that it was not found.
func transportOffset(packet []byte) int {
	switch etherType, at := networkOffset(packet); etherType {
	case etherTypeIPv4:
		return ipv4Transport(packet, at)
	case etherTypeIPv6:
		transport, _, _ := ipv6Transport(packet, at)
		return transport
	}
	return 0
}

// networkOffset walks Ethernet and up to two VLAN tags to what they carry. An
// etherType of 0 means that it was not found.
func networkOffset(packet []byte) (etherType uint16, at int) {
	if len(packet) < ethernetHeaderBytes {
		return 0, 0
	}
	at = ethernetHeaderBytes
	etherType = binary.BigEndian.Uint16(packet[12:])
	for range 2 {
		if etherType != 0x8100 && etherType != 0x88a8 {
			break
		}
		if len(packet) < at+4 {
			return 0, 0
		}
		etherType = binary.BigEndian.Uint16(packet[at+2:])
		at += 4
	}
	return etherType, at
}

func ipv4Transport(packet []byte, at int) int {
	if len(packet) <= at || packet[at]>>4 != 4 {
		return 0
	}
	length := int(packet[at]&0x0f) * 4
	if length < 20 {
		return 0
	}
	return at + length
}

// ipv6Transport skips extension headers (RFC 8200 section 4), at most as many as
// a sane packet has, and tells the protocol behind them and whether the packet
// is but a fragment. 0 means that it was not found.
func ipv6Transport(packet []byte, at int) (transport int, protocol byte, fragment bool) {
	if len(packet) < at+40 || packet[at]>>4 != 6 {
		return 0, 0, false
	}
	next := packet[at+6]
	at += 40
	for range 8 {
		switch next {
		case 0, 43, 60: // hop-by-hop, routing, destination options
			if len(packet) < at+2 {
				return 0, 0, false
			}
			next = packet[at]
			at += 8 * (int(packet[at+1]) + 1)
		case 44: // fragment: its offset and whether more follow (RFC 8200 section 4.5)
			if len(packet) < at+8 {
				return 0, 0, false
			}
			next = packet[at]
			fragment = fragment || binary.BigEndian.Uint16(packet[at+2:])&^0x0006 != 0
			at += 8
		default:
			return at, next, fragment
		}
	}
	return 0, 0, false
}

// insertVLAN copies a frame with its virtio header to buffer and puts a tag
// behind the Ethernet addresses. The kernel keeps the tag of a received frame
// dropped; a wire would not. An empty result means that there is no room.
func insertVLAN(buffer, frame []byte, tpid, tci uint16) []byte {
	const tagBytes, addresses = 4, virtioHeaderBytes + 12
	if len(frame) < addresses || len(frame)+tagBytes > len(buffer) {
		return nil
	}
	copy(buffer, frame[:addresses])
	binary.BigEndian.PutUint16(buffer[addresses:], tpid)
	binary.BigEndian.PutUint16(buffer[addresses+2:], tci)
	copy(buffer[addresses+tagBytes:], frame[addresses:])
	for _, field := range [...]int{2, 6} { // hdr_len and csum_start
		if v := binary.NativeEndian.Uint16(buffer[field:]); v != 0 {
			binary.NativeEndian.PutUint16(buffer[field:], v+tagBytes)
		}
	}
	return buffer[:len(frame)+tagBytes]
}
