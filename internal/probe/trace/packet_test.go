package trace

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/icmp/wire"
)

var protocols = []measurement.Protocol{measurement.OverTCP, measurement.OverUDP, measurement.OverICMP}

func testCodec(protocol measurement.Protocol, v6 bool, base uint32) codec {
	local, target := netip.MustParseAddrPort("192.0.2.1:4242"), netip.MustParseAddrPort("198.51.100.2:443")
	if v6 {
		local, target = netip.MustParseAddrPort("[2001:db8::1]:4242"), netip.MustParseAddrPort("[2001:db8::2]:443")
	}
	return newCodec(protocol, local, target, 0xbeef, base)
}

// Eight bytes of a quote are enough to tell every probe of a trace from every
// other, wherever its numbers start.
func TestQuoteOfEightBytes(t *testing.T) {
	for _, protocol := range protocols {
		for _, v6 := range []bool{false, true} {
			for _, base := range []uint32{0, 0xfffffff0, 0x1234fffe} {
				c := testCodec(protocol, v6, base)
				for id := range maxProbes {
					probe := c.encode(id)
					for _, n := range []int{8, len(probe)} {
						if got, ok := c.quote(probe[:n]); !ok || got != id {
							t.Fatalf("%s from %#x: quote of %d bytes of probe %d read as %d, %v", protocol, base, n, id, got, ok)
						}
					}
					if _, ok := c.quote(probe[:7]); ok {
						t.Fatalf("%s: a quote of 7 bytes was taken", protocol)
					}
				}
			}
		}
	}
}

// What routers hash to balance load is the same for all probes of a trace.
func TestOneFlow(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		tcp, udp, icmp := testCodec(measurement.OverTCP, v6, 7), testCodec(measurement.OverUDP, v6, 7), testCodec(measurement.OverICMP, v6, 0xfffe)
		for id := range maxProbes {
			for name, c := range map[string]codec{"tcp": tcp, "udp": udp} {
				if string(c.encode(id)[:4]) != string(c.encode(0)[:4]) {
					t.Fatalf("%s: the ports of probe %d differ", name, id)
				}
			}
			// The kernel adds a constant pseudo header to an ICMPv6 checksum.
			first, this := icmp.encode(0), icmp.encode(id)
			if wire.Checksum(0, first) != wire.Checksum(0, this) || string(first[:6]) != string(this[:6]) {
				t.Fatalf("icmp: type, code, checksum or identifier of probe %d differ", id)
			}
		}
	}
}

// A checksum over a packet that includes a right checksum is zero.
func TestChecksums(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		for id := range maxProbes {
			tcp := testCodec(measurement.OverTCP, v6, 99).(tcpCodec)
			b := tcp.encode(id)
			if sum := wire.Checksum(pseudoSum(tcp.local.Addr(), tcp.target.Addr(), protocolTCP, len(b)), b); sum != 0 {
				t.Fatalf("TCP checksum of probe %d is off by %#x", id, sum)
			}
			udp := testCodec(measurement.OverUDP, v6, 99).(udpCodec)
			b = udp.encode(id)
			if sum := wire.Checksum(pseudoSum(udp.local.Addr(), udp.target.Addr(), protocolUDP, len(b)), b); sum != 0 {
				t.Fatalf("UDP checksum of probe %d is off by %#x", id, sum)
			}
		}
	}
}

func tcpAnswer(c tcpCodec, flags byte, ack uint32, options []byte) []byte {
	b := make([]byte, 20, 60)
	binary.BigEndian.PutUint16(b, c.target.Port())
	binary.BigEndian.PutUint16(b[2:], c.local.Port())
	binary.BigEndian.PutUint32(b[8:], ack)
	b[12], b[13] = byte(20+len(options))/4<<4, flags
	return append(b, options...)
}

func TestTCPReplies(t *testing.T) {
	c := testCodec(measurement.OverTCP, false, 0xfffffffe).(tcpCodec)
	for name, flags := range map[string]byte{"SYN-ACK": 0x12, "RST-ACK": 0x14, "challenge": 0x10} {
		for _, id := range []int{0, 1, 5} {
			if r, ok := c.reply(tcpAnswer(c, flags, c.base+uint32(id)+1, nil)); !ok || r.id != id {
				t.Errorf("%s of probe %d read as %+v, %v", name, id, r, ok)
			}
		}
	}
	if _, ok := c.reply(tcpAnswer(c, 0x12, c.base, nil)); ok {
		t.Error("an answer to another SYN was taken")
	}
	if _, ok := c.reply(tcpAnswer(c, 0x04, c.base+1, nil)); ok {
		t.Error("an answer that acknowledges nothing was taken")
	}
	stranger := tcpAnswer(c, 0x12, c.base+1, nil)
	stranger[1]++
	if _, ok := c.reply(stranger); ok {
		t.Error("an answer from another port was taken")
	}
}

func TestMaximumSegment(t *testing.T) {
	for _, tc := range []struct {
		options []byte
		want    int
	}{
		{nil, 0},
		{[]byte{2, 4, 0x05, 0xb4}, 1460},
		{[]byte{1, 1, 4, 2, 2, 4, 0x05, 0x14}, 1300},
		{[]byte{0, 2, 4, 0x05, 0xb4}, 0},
		{[]byte{2, 4, 5}, 0},
		{[]byte{8, 0, 2, 4}, 0},
		{[]byte{8}, 0},
	} {
		if got := maximumSegment(tc.options); got != tc.want {
			t.Errorf("options %x: %d, want %d", tc.options, got, tc.want)
		}
	}
}

func FuzzAnswers(f *testing.F) {
	for _, protocol := range protocols {
		f.Add(testCodec(protocol, false, 7).encode(3))
	}
	c := testCodec(measurement.OverTCP, false, 7).(tcpCodec)
	f.Add(tcpAnswer(c, 0x12, 8, []byte{1, 1, 2, 4, 5, 0x14, 0, 0}))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, protocol := range protocols {
			for _, v6 := range []bool{false, true} {
				c := testCodec(protocol, v6, 7)
				if id, ok := c.quote(b); ok && (id < 0 || id >= maxProbes) {
					t.Errorf("%s: quote of probe %d", protocol, id)
				}
				if r, ok := c.reply(b); ok && (r.id < 0 || r.id >= maxProbes) {
					t.Errorf("%s: reply to probe %d", protocol, r.id)
				}
			}
		}
	})
}
