package datagram

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
)

// The server connects to an address only when its hello has the cookie, comes
// from the client's address, and names a flow that waits.
func TestFirstPacketOfAFlow(t *testing.T) {
	client := netip.MustParseAddrPort("192.0.2.1:1000")
	test := &session.Test{Client: client.Addr(), Cookie: [protocol.CookieBytes]byte{1}}
	flows := NewFlows()
	number, from, forget := flows.expect(test)
	hello := func(cookie []byte, number uint32) []byte {
		p := make([]byte, HeaderBytes)
		PutHeader(p, cookie, Hello)
		binary.BigEndian.PutUint32(p[SequenceOffset:], number)
		return p
	}
	came := func() bool {
		select {
		case <-from:
			return true
		default:
			return false
		}
	}
	flows.Arrived(hello(make([]byte, protocol.CookieBytes), number), client)
	flows.Arrived(hello(test.Cookie[:], number+1), client)
	flows.Arrived(hello(test.Cookie[:], number), netip.MustParseAddrPort("192.0.2.2:1000"))
	if came() {
		t.Error("a hello that should not count did")
	}
	flows.Arrived(hello(test.Cookie[:], number), client)
	flows.Arrived(hello(test.Cookie[:], number), client) // a copy must not block
	if !came() || came() {
		t.Error("the hello did not count once")
	}
	forget()
	flows.Arrived(hello(test.Cookie[:], number), client)
	if came() {
		t.Error("a flow that no longer waits was told")
	}
}
