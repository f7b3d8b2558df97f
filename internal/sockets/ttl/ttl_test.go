package ttl

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// windowsControl is a control message of WSARecvMsg, as the C compiler of a
// system with pointers of that size lays it out.
func windowsControl(pointerBytes int, level, typ uint32, value []byte) []byte {
	le := binary.LittleEndian
	length := pointerBytes + 8 + len(value)
	b := le.AppendUint32(nil, uint32(length))
	b = append(b, make([]byte, pointerBytes-4)...)
	b = le.AppendUint32(b, level)
	b = le.AppendUint32(b, typ)
	b = append(b, value...)
	for len(b)%pointerBytes != 0 {
		b = append(b, 0)
	}
	return b
}

func TestWindowsReceivedTTL(t *testing.T) {
	value := binary.NativeEndian.AppendUint32(nil, 57)
	for _, pointerBytes := range []int{4, 8} {
		packetInfo := windowsControl(pointerBytes, windowsIP, 19, make([]byte, 9))
		for name, c := range map[string]struct {
			control []byte
			want    int
		}{
			"IPv4":              {windowsControl(pointerBytes, windowsIP, windowsHopLimit, value), 57},
			"IPv6":              {windowsControl(pointerBytes, windowsIPv6, windowsHopLimit, value), 57},
			"after another":     {append(bytes.Clone(packetInfo), windowsControl(pointerBytes, windowsIP, windowsHopLimit, value)...), 57},
			"another alone":     {packetInfo, 0},
			"another level's":   {windowsControl(pointerBytes, 0xffff, windowsHopLimit, value), 0},
			"cut short":         {windowsControl(pointerBytes, windowsIP, windowsHopLimit, value)[:pointerBytes+9], 0},
			"more than is sent": {windowsControl(pointerBytes, windowsIP, windowsHopLimit, []byte{0, 1, 0, 0}), 0},
			"nothing":           {nil, 0},
		} {
			if got := windowsReceivedTTL(c.control, pointerBytes); got != c.want {
				t.Errorf("pointers of %d bytes, %s: %d, want %d", pointerBytes, name, got, c.want)
			}
		}
	}
}

func TestTTLOfByte(t *testing.T) {
	if got := ttlOf([]byte{200}); got != 200 {
		t.Errorf("a byte of 200 is read as %d", got)
	}
}

func FuzzWindowsReceivedTTL(f *testing.F) {
	f.Add(windowsControl(8, windowsIP, windowsHopLimit, []byte{57, 0, 0, 0}), true)
	f.Add(windowsControl(4, windowsIPv6, windowsHopLimit, []byte{57}), false)
	f.Fuzz(func(t *testing.T, control []byte, wide bool) {
		pointerBytes := 4
		if wide {
			pointerBytes = 8
		}
		if ttl := windowsReceivedTTL(control, pointerBytes); ttl < 0 || ttl > 255 {
			t.Errorf("a time to live of %d", ttl)
		}
	})
}
