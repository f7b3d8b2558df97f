package linkem

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// packetOf builds the start of a packet behind an Ethernet header.
func packetOf(etherType []byte, packet ...[]byte) []byte {
	return append(ethernet(etherType...), bytes.Join(packet, nil)...)
}

var (
	typeIPv4 = []byte{0x08, 0x00}
	typeIPv6 = []byte{0x86, 0xdd}
	tagged   = []byte{0x81, 0x00, 0, 7, 0x08, 0x00}
)

// ipv4 is a header from 10.0.0.source to 10.0.0.destination.
func ipv4(protocol, source, destination byte, change map[int]byte) []byte {
	h := header(20, map[int]byte{0: 0x45, 8: 64, 9: protocol, 12: 10, 15: source, 16: 10, 19: destination})
	for i, v := range change {
		h[i] = v
	}
	return h
}

func ipv6(next, source, destination byte) []byte {
	return header(40, map[int]byte{0: 0x60, 6: next, 7: 64, 8: 0xfd, 23: source, 24: 0xfd, 39: destination})
}

func ports(source, destination byte, rest ...byte) []byte {
	return append([]byte{0, source, 0, destination}, rest...)
}

func TestFlowOf(t *testing.T) {
	tcp := packetOf(typeIPv4, ipv4(6, 1, 2, nil), ports(1, 2, make([]byte, 16)...))
	tcp6 := packetOf(typeIPv6, ipv6(6, 1, 2), ports(1, 2, make([]byte, 16)...))
	first := packetOf(typeIPv4, ipv4(17, 1, 2, map[int]byte{6: 0x20}), ports(1, 2))
	for name, c := range map[string]struct {
		a, b []byte
		same bool
	}{
		"another payload":              {tcp, packetOf(typeIPv4, ipv4(6, 1, 2, map[int]byte{3: 99, 4: 1, 8: 3}), ports(1, 2, 9, 9, 9, 9)), true},
		"behind a VLAN tag":            {tcp, packetOf(tagged, ipv4(6, 1, 2, nil), ports(1, 2, make([]byte, 16)...)), true},
		"behind IP options":            {tcp, packetOf(typeIPv4, ipv4(6, 1, 2, map[int]byte{0: 0x46}), make([]byte, 4), ports(1, 2)), true},
		"cut behind the ports":         {tcp, tcp[:14+20+4], true},
		"another source port":          {tcp, packetOf(typeIPv4, ipv4(6, 1, 2, nil), ports(3, 2)), false},
		"another destination port":     {tcp, packetOf(typeIPv4, ipv4(6, 1, 2, nil), ports(1, 3)), false},
		"the ports exchanged":          {tcp, packetOf(typeIPv4, ipv4(6, 1, 2, nil), ports(2, 1)), false},
		"the other direction":          {tcp, packetOf(typeIPv4, ipv4(6, 2, 1, nil), ports(2, 1)), false},
		"another source":               {tcp, packetOf(typeIPv4, ipv4(6, 3, 2, nil), ports(1, 2)), false},
		"another destination":          {tcp, packetOf(typeIPv4, ipv4(6, 1, 3, nil), ports(1, 2)), false},
		"another protocol":             {tcp, packetOf(typeIPv4, ipv4(17, 1, 2, nil), ports(1, 2)), false},
		"IPv6":                         {tcp, tcp6, false},
		"IPv6, another port":           {tcp6, packetOf(typeIPv6, ipv6(6, 1, 2), ports(9, 2)), false},
		"IPv6, another source":         {tcp6, packetOf(typeIPv6, ipv6(6, 9, 2), ports(1, 2)), false},
		"IPv6, another destination":    {tcp6, packetOf(typeIPv6, ipv6(6, 1, 9), ports(1, 2)), false},
		"IPv6, behind extensions":      {tcp6, packetOf(typeIPv6, ipv6(60, 1, 2), header(8, map[int]byte{0: 6}), ports(1, 2)), true},
		"IPv6, another flow label":     {tcp6, func() []byte { p := bytes.Clone(tcp6); p[14+3] = 8; return p }(), true},
		"an atomic fragment has ports": {tcp6, packetOf(typeIPv6, ipv6(44, 1, 2), header(8, map[int]byte{0: 6}), ports(1, 2)), true},
		"echo requests are one flow":   {packetOf(typeIPv4, ipv4(1, 1, 2, nil), []byte{8, 0, 1, 1, 1, 1}), packetOf(typeIPv4, ipv4(1, 1, 2, nil), []byte{8, 0, 2, 2, 2, 2}), true},
		"fragments are one flow":       {first, packetOf(typeIPv4, ipv4(17, 1, 2, map[int]byte{7: 0xb9}), []byte("middle of it")), true},
		"a fragment has no ports":      {first, packetOf(typeIPv4, ipv4(17, 1, 2, nil), ports(1, 2)), false},
		"do not fragment is no matter": {tcp, packetOf(typeIPv4, ipv4(6, 1, 2, map[int]byte{6: 0x40}), ports(1, 2)), true},
		"IPv6 fragments are one flow":  {packetOf(typeIPv6, ipv6(44, 1, 2), header(8, map[int]byte{0: 17, 3: 1}), ports(1, 2)), packetOf(typeIPv6, ipv6(44, 1, 2), header(8, map[int]byte{0: 17, 2: 5}), ports(7, 8)), true},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := flowOf(c.a, 7), flowOf(c.b, 7)
			if a == 0 || b == 0 || (a == b) != c.same {
				t.Errorf("flows %x and %x, same should be %v", a, b, c.same)
			}
		})
	}
	for name, packet := range map[string][]byte{
		"ARP":                 packetOf([]byte{0x08, 0x06}, make([]byte, 28)),
		"nothing":             nil,
		"no IP header":        packetOf(typeIPv4),
		"half an IP header":   packetOf(typeIPv4, ipv4(6, 1, 2, nil)[:12]),
		"half an IPv6 header": packetOf(typeIPv6, ipv6(6, 1, 2)[:39]),
		"not IPv4 at all":     packetOf(typeIPv4, ipv4(6, 1, 2, map[int]byte{0: 0x65})),
		"a short header":      packetOf(typeIPv4, ipv4(6, 1, 2, map[int]byte{0: 0x41})),
		"a cut VLAN tag":      packetOf(tagged[:4]),
	} {
		if flow := flowOf(packet, 7); flow != 0 {
			t.Errorf("%s is flow %x, want none", name, flow)
		}
	}
}

// Different flows have different keys, and spread over the sets of a table.
func TestFlowsSpread(t *testing.T) {
	const n = 60_000
	seen := make(map[flowKey]bool, n)
	var sets [flowSets]int
	most := 0
	for i := range n {
		key := flowOf(packetOf(typeIPv4, ipv4(6, 1, 2, nil), []byte{byte(i >> 8), byte(i), 0x14, 0x51}), 3)
		if seen[key] {
			t.Fatalf("port %d has the key of another", i)
		}
		seen[key] = true
		sets[uint64(key)%flowSets]++
		most = max(most, sets[uint64(key)%flowSets])
	}
	// 60 000 balls in 8192 bins: the fullest has some 21; a hash that does not
	// spread ports has thousands.
	if most > 40 {
		t.Errorf("one set of the table has %d of %d flows", most, n)
	}
}

func FuzzFlowOf(f *testing.F) {
	f.Add(packetOf(typeIPv4, ipv4(6, 1, 2, nil), ports(1, 2)), uint64(0))
	f.Add(packetOf(tagged, ipv4(17, 1, 2, map[int]byte{6: 0x20}), ports(1, 2)), uint64(1))
	f.Add(packetOf(typeIPv6, ipv6(0, 1, 2), header(8, map[int]byte{0: 44}), header(8, map[int]byte{0: 17}), ports(1, 2)), uint64(2))
	f.Add([]byte{}, uint64(3))
	f.Fuzz(func(t *testing.T, packet []byte, seed uint64) {
		key := flowOf(packet, seed)
		if key != flowOf(bytes.Clone(packet), seed) {
			t.Fatal("the same packet is of two flows")
		}
		etherType, at := networkOffset(packet)
		ip := etherType == etherTypeIPv4 && len(packet) >= at+20 && packet[at]>>4 == 4 && packet[at]&15 >= 5 ||
			etherType == etherTypeIPv6 && len(packet) >= at+40 && packet[at]>>4 == 6
		if !ip && key != 0 {
			t.Fatalf("what is not IP is flow %x", key)
		}
		if etherType == etherTypeIPv4 && ip {
			if key == 0 {
				t.Fatal("an IPv4 packet is of no flow")
			}
			// The time to live, the identification and the checksum change on the way.
			other := bytes.Clone(packet)
			other[at+4], other[at+5], other[at+8], other[at+10], other[at+11] = 1, 2, 3, 4, 5
			if flowOf(other, seed) != key {
				t.Fatal("the flow depends on what changes on the way")
			}
		}
	})
}

// A packet cut short anywhere behind its ports stays of its flow.
func TestFlowOfNeedsTheHeadersOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		packet := packetOf(typeIPv4,
			ipv4(rapid.SampledFrom([]byte{6, 17, 33, 132, 136}).Draw(t, "protocol"), rapid.Byte().Draw(t, "source"), rapid.Byte().Draw(t, "destination"), nil),
			rapid.SliceOfN(rapid.Byte(), 4, 100).Draw(t, "rest"))
		cut := rapid.IntRange(14+20+4, len(packet)).Draw(t, "length")
		if flowOf(packet, 1) != flowOf(packet[:cut], 1) {
			t.Fatalf("%d of %d bytes are of another flow", cut, len(packet))
		}
	})
}
