package wire

import (
	"bytes"
	"net/netip"
	"testing"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"

	"github.com/hopbench/hopbench/internal/testutil"
)

// The echo request is byte for byte what golang.org/x/net/icmp builds.
func TestEchoAgainstLibrary(t *testing.T) {
	for size := range 70 {
		payload := bytes.Repeat([]byte{0xa5, 0xff, 0x01}, size)[:size]
		m := icmp.Message{Type: ipv4.ICMPTypeEcho, Body: &icmp.Echo{ID: 0xbeef, Seq: 513, Data: payload}}
		want, err := m.Marshal(nil)
		testutil.OK(t, err)
		got := AppendEchoRequest(nil, false, 0xbeef, 513, payload)
		if !bytes.Equal(got, want) {
			t.Fatalf("payload of %d bytes: %x, want %x", size, got, want)
		}
		echo, ok := ParseEcho(got)
		if !ok || echo.ID != 0xbeef || echo.Sequence != 513 || !bytes.Equal(echo.Payload, payload) {
			t.Fatalf("payload of %d bytes: parsed %+v, %v", size, echo, ok)
		}
	}
}

// RFC 1071 §3 has an example.
func TestChecksum(t *testing.T) {
	b := []byte{0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7}
	if got := Checksum(0, b); got != ^uint16(0xddf2) {
		t.Errorf("checksum %#x, want %#x", got, ^uint16(0xddf2))
	}
	if got := Checksum(Sum(0, b[:4]), b[4:]); got != ^uint16(0xddf2) {
		t.Errorf("checksum in two parts %#x", got)
	}
	if got := Checksum(0xffff, bytes.Repeat([]byte{0xff}, 1<<16)); got != 0 {
		t.Errorf("checksum of all ones %#x, want 0", got)
	}
}

func TestDescribe(t *testing.T) {
	for _, tc := range []struct {
		v6        bool
		typ, code uint8
		want      string
	}{
		{false, 3, 1, "host unreachable"},
		{false, 3, 13, "communication administratively prohibited"},
		{false, 3, 99, "ICMP type 3 code 99"},
		{false, 11, 0, "time to live exceeded"},
		{false, 11, 1, "ICMP type 11 code 1"},
		{true, 1, 4, "port unreachable"},
		{true, 1, 200, "ICMPv6 type 1 code 200"},
		{true, 2, 0, "packet too big"},
		{true, 3, 0, "time to live exceeded"},
	} {
		if got := Describe(tc.v6, tc.typ, tc.code); got != tc.want {
			t.Errorf("Describe(%v, %d, %d) = %q, want %q", tc.v6, tc.typ, tc.code, got, tc.want)
		}
	}
}

func FuzzSplitIPv4(f *testing.F) {
	f.Add([]byte{0x45, 0, 0, 20, 0, 0, 0, 0, 64, 1, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1})
	f.Add([]byte{0x4f})
	f.Fuzz(func(t *testing.T, b []byte) {
		ttl, payload, ok := SplitIPv4(b)
		if ok && (ttl != int(b[8]) || len(payload) > len(b)-20) {
			t.Errorf("SplitIPv4(%x) = %d, %x", b, ttl, payload)
		}
		ParseEcho(payload)
	})
}

func TestParseError(t *testing.T) {
	quoted4 := append([]byte{0x45, 0, 0, 36, 0, 0, 0, 0, 1, protocolICMP, 0, 0, 192, 0, 2, 1, 198, 51, 100, 2}, "probe"...)
	quoted6 := append([]byte{0x60, 0, 0, 0, 0, 8, protocolICMPv6, 1}, make([]byte, 32)...)
	copy(quoted6[24:], netip.MustParseAddr("2001:db8::2").AsSlice())
	quoted6 = append(quoted6, "probe"...)
	for name, c := range map[string]struct {
		b    []byte
		v6   bool
		want Error
		ok   bool
	}{
		"time exceeded":   {append([]byte{11, 0, 0, 0, 0, 0, 0, 0}, quoted4...), false, Error{Type: 11, To: netip.MustParseAddr("198.51.100.2"), Quote: []byte("probe")}, true},
		"too big":         {append([]byte{3, 4, 0, 0, 0, 0, 5, 220}, quoted4...), false, Error{Type: 3, Code: 4, MTU: 1500, To: netip.MustParseAddr("198.51.100.2"), Quote: []byte("probe")}, true},
		"too big, IPv6":   {append([]byte{2, 0, 0, 0, 0, 0, 5, 0}, quoted6...), true, Error{Type: 2, MTU: 1280, To: netip.MustParseAddr("2001:db8::2"), Quote: []byte("probe")}, true},
		"no error":        {append([]byte{0, 0, 0, 0, 0, 0, 0, 0}, quoted4...), false, Error{}, false},
		"no error, IPv6":  {append([]byte{129, 0, 0, 0, 0, 0, 0, 0}, quoted6...), true, Error{}, false},
		"of TCP":          {append([]byte{11, 0, 0, 0, 0, 0, 0, 0}, bytes.Replace(quoted4, []byte{1, protocolICMP}, []byte{1, 6}, 1)...), false, Error{}, false},
		"cut short":       {append([]byte{11, 0, 0, 0, 0, 0, 0, 0}, quoted4[:19]...), false, Error{}, false},
		"cut short, IPv6": {append([]byte{3, 0, 0, 0, 0, 0, 0, 0}, quoted6[:39]...), true, Error{}, false},
	} {
		got, ok := ParseError(c.b, c.v6)
		if ok != c.ok || ok && (got.Type != c.want.Type || got.Code != c.want.Code || got.MTU != c.want.MTU || got.To != c.want.To || string(got.Quote) != string(c.want.Quote)) {
			t.Errorf("%s: %+v, %v", name, got, ok)
		}
	}
}

func FuzzParseError(f *testing.F) {
	f.Add([]byte{11, 0, 0, 0, 0, 0, 0, 0, 0x45, 0, 0, 36, 0, 0, 0, 0, 1, 1, 0, 0, 192, 0, 2, 1, 198, 51, 100, 2, 8, 0}, false)
	f.Add(append([]byte{3, 0, 0, 0, 0, 0, 0, 0, 0x60, 0, 0, 0, 0, 8, 58, 1}, make([]byte, 40)...), true)
	f.Fuzz(func(t *testing.T, b []byte, v6 bool) {
		e, ok := ParseError(b, v6)
		if ok && (!e.To.IsValid() || e.To.Is6() != v6 || len(e.Quote) > len(b)-EchoHeaderBytes-20) {
			t.Errorf("ParseError(%x) = %+v", b, e)
		}
		ParseEcho(e.Quote)
	})
}
