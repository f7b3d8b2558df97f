package sockets

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"
)

// controlMessage is one control message with its padding.
func controlMessage(level, kind int32, data []byte) []byte {
	b := make([]byte, unix.CmsgSpace(len(data)))
	binary.NativeEndian.PutUint64(b, uint64(unix.CmsgLen(len(data))))
	binary.NativeEndian.PutUint32(b[8:], uint32(level))
	binary.NativeEndian.PutUint32(b[12:], uint32(kind))
	copy(b[unix.CmsgLen(0):], data)
	return b
}

func fourBytes(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }

func TestReadControl(t *testing.T) {
	if unix.SizeofCmsghdr != 16 {
		t.Skip("the layout of a 64-bit system")
	}
	stamp := binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(nil, 5), 7)
	both := append(controlMessage(unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, stamp), controlMessage(unix.IPPROTO_UDP, unix.UDP_GRO, fourBytes(1200))...)
	for name, c := range map[string]struct {
		control []byte
		segment int
		at      int64
	}{
		"nothing":         {nil, 3000, 0},
		"both":            {both, 1200, 5_000_000_007},
		"cut short":       {both[:len(both)-9], 3000, 5_000_000_007},
		"a segment of 0":  {controlMessage(unix.IPPROTO_UDP, unix.UDP_GRO, fourBytes(0)), 3000, 0},
		"another message": {controlMessage(unix.IPPROTO_IP, unix.IP_TTL, fourBytes(64)), 3000, 0},
	} {
		m := Message{Length: 3000, Segment: 3000}
		m.readControl(c.control)
		if m.Segment != c.segment || m.At != c.at {
			t.Errorf("%s: segment %d at %d, want %d at %d", name, m.Segment, m.At, c.segment, c.at)
		}
	}
}

func FuzzControlMessages(f *testing.F) {
	f.Add(controlMessage(unix.IPPROTO_UDP, unix.UDP_GRO, fourBytes(1200)))
	f.Add(controlMessage(unix.IPPROTO_IP, unix.IP_RECVERR, make([]byte, 32)))
	f.Fuzz(func(t *testing.T, b []byte) {
		m := Message{Length: 3000, Segment: 3000}
		m.readControl(b)
		if m.Segment <= 0 {
			t.Fatalf("segments of %d bytes", m.Segment)
		}
		_, _ = parsePathError(b) // must not panic
	})
}
