package linkem

import (
	"bytes"
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"
)

// frameOf builds the start of a frame with its virtio header. checksumStart 0
// leaves the transport header to be found.
func frameOf(kind byte, segment, checksumStart int, packet ...[]byte) []byte {
	frame := make([]byte, virtioHeaderBytes)
	frame[1] = kind
	binary.NativeEndian.PutUint16(frame[4:], uint16(segment))
	if checksumStart > 0 {
		frame[0] = virtioNeedsChecksum
		binary.NativeEndian.PutUint16(frame[6:], uint16(checksumStart))
	}
	return append(frame, bytes.Join(packet, nil)...)
}

func ethernet(etherType ...byte) []byte { return append(make([]byte, 12), etherType...) }

func header(length int, values map[int]byte) []byte {
	b := make([]byte, length)
	for i, v := range values {
		b[i] = v
	}
	return b
}

func TestWireBytes(t *testing.T) {
	ipv4, ipv6 := ethernet(0x08, 0x00), ethernet(0x86, 0xdd)
	v4 := header(20, map[int]byte{0: 0x45})
	v6 := header(40, map[int]byte{0: 0x60, 6: 6})
	tcp32 := header(32, map[int]byte{12: 0x80})
	tcp20 := header(20, map[int]byte{12: 0x50})
	udp := header(8, nil)
	const fullV4 = 14 + 20 + 32 + 1448 // a full frame at an MTU of 1500
	for name, c := range map[string]struct {
		head    []byte
		payload int // bytes behind head
		want    int
	}{
		"one segment":               {frameOf(0, 0, 34, ipv4, v4, tcp32), 1448, fullV4},
		"no payload":                {frameOf(0, 0, 0, ipv4, v4, tcp32), 0, 66},
		"TCP, 44 segments":          {frameOf(virtioGSOTCPv4, 1448, 34, ipv4, v4, tcp32), 44 * 1448, 44 * fullV4},
		"TCP, one byte over":        {frameOf(virtioGSOTCPv4, 1448, 34, ipv4, v4, tcp32), 1449, fullV4 + 66 + 1},
		"TCP with ECN":              {frameOf(virtioGSOTCPv4|virtioGSOECN, 1448, 34, ipv4, v4, tcp32), 2 * 1448, 2 * fullV4},
		"TCP, checksum done":        {frameOf(virtioGSOTCPv4, 1448, 0, ipv4, v4, tcp32), 3 * 1448, 3 * fullV4},
		"TCP over IPv6":             {frameOf(virtioGSOTCPv6, 1440, 54, ipv6, v6, tcp20), 10 * 1440, 10 * 1514},
		"TCP over IPv6, no offset":  {frameOf(virtioGSOTCPv6, 1440, 0, ipv6, v6, tcp20), 10 * 1440, 10 * 1514},
		"UDP segmentation":          {frameOf(virtioGSOUDPL4, 1472, 34, ipv4, v4, udp), 40 * 1472, 40 * 1514},
		"UDP fragments":             {frameOf(virtioGSOUDP, 1480, 0, ipv4, v4, udp), 3*1480 - 8, 3*1480 + 3*34},
		"behind a VLAN tag":         {frameOf(virtioGSOTCPv4, 1448, 0, ethernet(0x81, 0, 0, 5, 8, 0), v4, tcp32), 2 * 1448, 2 * (fullV4 + 4)},
		"behind extension headers":  {frameOf(virtioGSOTCPv6, 1440, 0, ipv6, header(40, map[int]byte{0: 0x60, 6: 60}), header(8, map[int]byte{0: 6}), tcp20), 2 * 1440, 2 * 1522},
		"all fits one segment":      {frameOf(virtioGSOTCPv4, 1448, 34, ipv4, v4, tcp32), 100, 166},
		"no segment size":           {frameOf(virtioGSOTCPv4, 0, 34, ipv4, v4, tcp32), 5000, 5066},
		"an unknown kind":           {frameOf(77, 100, 34, ipv4, v4, tcp32), 5000, 5066},
		"an impossible offset":      {frameOf(virtioGSOTCPv4, 1448, 60000, ipv4, v4, tcp32), 5000, 5066},
		"an impossible data offset": {frameOf(virtioGSOTCPv4, 1448, 34, ipv4, v4, header(20, nil)), 5000, 5054},
		"a cut virtio header":       {make([]byte, 4), 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := WireBytes(c.head, len(c.head)+c.payload); got != c.want {
				t.Errorf("%d bytes on the wire, want %d", got, c.want)
			}
		})
	}
}

func FuzzWireBytes(f *testing.F) {
	f.Add(frameOf(virtioGSOTCPv4, 1448, 34, ethernet(8, 0), header(20, map[int]byte{0: 0x45}), header(32, map[int]byte{12: 0x80})), 60_000)
	f.Add(frameOf(virtioGSOTCPv6, 1, 0, ethernet(0x86, 0xdd), header(40, map[int]byte{0: 0x60, 6: 0}), header(80, nil)), 65_000)
	f.Add(frameOf(virtioGSOUDPL4, 1, 14, ethernet(8, 0)), 65_000)
	f.Add([]byte{}, 0)
	f.Fuzz(func(t *testing.T, head []byte, length int) {
		if length < 0 || length > maxFrameBytes {
			length = len(head)
		}
		length = max(length, len(head))
		got := WireBytes(head, length)
		if least := max(length-virtioHeaderBytes, 0); got < least {
			t.Fatalf("%d bytes on the wire for a frame of %d", got, least)
		}
		// Each byte of payload may need a header of its own, no more.
		if most := length * (length + 1); got > most {
			t.Fatalf("%d bytes on the wire for a frame of %d", got, length)
		}
	})
}

func FuzzInsertVLAN(f *testing.F) {
	f.Add(frameOf(virtioGSOTCPv4, 1448, 34, ethernet(8, 0), make([]byte, 60)), uint16(0x8100), uint16(5))
	f.Add([]byte{1, 2, 3}, uint16(0), uint16(0))
	f.Fuzz(func(t *testing.T, frame []byte, tpid, tci uint16) {
		buffer := make([]byte, maxFrameBytes)
		got := insertVLAN(buffer, frame, tpid, tci)
		const at = virtioHeaderBytes + 12
		if len(frame) < at || len(frame) > maxFrameBytes-4 {
			if len(got) != 0 {
				t.Fatalf("a frame of %d bytes became one of %d", len(frame), len(got))
			}
			return
		}
		if len(got) != len(frame)+4 || !bytes.Equal(got[virtioHeaderBytes:at], frame[virtioHeaderBytes:at]) || !bytes.Equal(got[at+4:], frame[at:]) {
			t.Fatalf("%x with a tag became %x", frame, got)
		}
	})
}

// A tagged super-packet is the same on the wire but for four bytes a segment.
func TestInsertVLANKeepsSegments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		segments := rapid.IntRange(1, 40).Draw(t, "segments")
		frame := frameOf(virtioGSOTCPv4, 1400, rapid.SampledFrom([]int{0, 34}).Draw(t, "checksum start"),
			ethernet(8, 0), header(20, map[int]byte{0: 0x45}), header(32, map[int]byte{12: 0x80}), make([]byte, 1400*segments))
		tagged := insertVLAN(make([]byte, maxFrameBytes), frame, 0x8100, 7)
		if got, want := WireBytes(tagged, len(tagged)), WireBytes(frame, len(frame))+4*segments; got != want {
			t.Fatalf("%d bytes on the wire, want %d", got, want)
		}
	})
}
