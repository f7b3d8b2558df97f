package iphelper

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/testutil"
)

// captured is what IcmpSendEcho2Ex of Wine 8 left in a buffer at this address
// for a request to 127.0.0.1 with a payload of 19 bytes.
const (
	captured = "7f000001 00000000 01000000 1300 0000 286002c3b10b0000 40 00 00 00 02000000 286002c3b10b0000" +
		"68656c6c6f20686f7062656e63682031323334 00000000"
	capturedAt = 0x0bb1c3026000
)

func fromHex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	testutil.OK(t, err)
	return b
}

func TestCapturedReply(t *testing.T) {
	r, err := parse4(fromHex(t, captured), capturedAt, 8)
	testutil.OK(t, err)
	if r.From != netip.MustParseAddr("127.0.0.1") || r.Status != Success || r.TTL != 64 || string(r.Payload) != "hello hopbench 1234" {
		t.Errorf("read as %+v", r)
	}
}

// reply4 lays an ICMP_ECHO_REPLY out as the C compiler of a system with
// pointers of that size does, with its payload behind it.
func reply4(from string, status Status, ttl uint8, payload string, at uint64, pointerBytes int) []byte {
	le := binary.LittleEndian
	b := netip.MustParseAddr(from).AsSlice()
	b = le.AppendUint32(b, uint32(status))
	b = le.AppendUint32(b, 7)
	b = le.AppendUint16(b, uint16(len(payload)))
	b = append(b, 0, 0)
	data := at + uint64(16+3*pointerBytes)
	if pointerBytes == 4 {
		b = le.AppendUint32(b, uint32(data))
		b = append(b, ttl, 0, 0, 0, 0, 0, 0, 0)
	} else {
		b = le.AppendUint64(b, data)
		b = append(b, ttl, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	}
	return append(b, payload...)
}

func TestReply4(t *testing.T) {
	for _, pointerBytes := range []int{4, 8} {
		b := reply4("192.0.2.7", Success, 57, "payload", 0x1000, pointerBytes)
		r, err := parse4(b, 0x1000, pointerBytes)
		testutil.OK(t, err)
		if r.From.String() != "192.0.2.7" || r.TTL != 57 || string(r.Payload) != "payload" {
			t.Errorf("pointers of %d bytes: read as %+v", pointerBytes, r)
		}
		// The data may not lie before the buffer, nor reach past its end.
		for _, address := range []uint64{0x1001 + uint64(len(b)), 0xfff, 0} {
			if r, err := parse4(b, address, pointerBytes); err == nil {
				t.Errorf("data outside a buffer at %#x was read as %+v", address, r)
			}
		}
		if _, err := parse4(b[:reply4Bytes(pointerBytes)-1], 0x1000, pointerBytes); err == nil {
			t.Error("a reply that was cut short was read")
		}
		b = reply4("192.0.2.7", 11013, 57, "quoted", 0x1000, pointerBytes)
		r, err = parse4(b, 0x1000, pointerBytes)
		testutil.OK(t, err)
		if r.Status != 11013 || r.TTL != 0 || r.Payload != nil {
			t.Errorf("an ICMP error was read as %+v", r)
		}
	}
}

func TestReply6(t *testing.T) {
	b := fromHex(t, "0000 00000000 20010db8000000000000000000000007 00000000 0000"+"052b0000"+"02000000"+"7061796c6f6164")
	r, err := parse6(b)
	testutil.OK(t, err)
	if r.From.String() != "2001:db8::7" || r.Status != 11013 || string(r.Payload) != "payload" {
		t.Errorf("read as %+v", r)
	}
	if _, err := parse6(b[:reply6Bytes-1]); err == nil {
		t.Error("a reply that was cut short was read")
	}
}

func TestStatus(t *testing.T) {
	for _, c := range []struct {
		status    Status
		v6        bool
		typ, code uint8
		ok        bool
	}{
		{11013, false, 11, 0, true},
		{11013, true, 3, 0, true},
		{11005, false, 3, 3, true},
		{11005, true, 1, 4, true},
		{11009, false, 3, 4, true},
		{11009, true, 2, 0, true},
		{11040, false, 0, 0, false}, // of ICMPv6 alone
		{11016, true, 0, 0, false},  // of ICMP alone
		{TimedOut, false, 0, 0, false},
		{Success, true, 0, 0, false},
	} {
		typ, code, ok := c.status.ICMP(c.v6)
		if ok != c.ok || ok && (typ != c.typ || code != c.code) {
			t.Errorf("%v, IPv6 %v: type %d code %d, %v", c.status, c.v6, typ, code, ok)
		}
	}
}

func FuzzReply(f *testing.F) {
	f.Add(fromHex(f, captured), uint64(capturedAt), true)
	f.Add(reply4("192.0.2.7", Success, 57, "payload", 0x1000, 4), uint64(0x1000), false)
	f.Add(reply4("192.0.2.7", Success, 57, "payload", ^uint64(0)-50, 8), ^uint64(0)-50, true)
	f.Fuzz(func(t *testing.T, b []byte, address uint64, wide bool) {
		pointerBytes := 4
		if wide {
			pointerBytes = 8
		}
		r, err := parse4(b, address, pointerBytes)
		if err == nil && (len(r.Payload) > len(b) || r.Status != Success && r.Payload != nil) {
			t.Errorf("read as %+v", r)
		}
		if r, err = parse6(b); err == nil && len(r.Payload) > len(b)-reply6Bytes {
			t.Errorf("read as %+v", r)
		}
		for _, v6 := range []bool{false, true} {
			r.Status.ICMP(v6)
		}
	})
}
