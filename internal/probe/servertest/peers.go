package servertest

import (
	"io"
	"net"
	"net/netip"
	"testing"

	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/testutil"
)

// Handshaken is a peer that opens every connection properly and then does
// with it as it likes, until it closes it.
func Handshaken(t *testing.T, then func(net.Conn, protocol.Open)) netip.AddrPort {
	open := func(c net.Conn) (open protocol.Open, err error) {
		if err := protocol.ReadPreface(c); err != nil {
			return open, err
		}
		if _, err := protocol.ServerHandshake(c, ""); err != nil {
			return open, err
		}
		if err := protocol.Expect(c, protocol.TypeOpen, protocol.MaxControl, &open); err != nil {
			return open, err
		}
		if err := protocol.WriteFrame(c, protocol.TypeReady, readyOn(c)); err != nil {
			return open, err
		}
		return open, protocol.Expect(c, protocol.TypeStart, protocol.MaxControl, nil)
	}
	return testutil.Listen(t, func(c net.Conn) {
		asked, err := open(c)
		if err != nil { // a client may give up while another of its flows fails
			t.Logf("peer: %v", err)
			return
		}
		then(c, asked)
	})
}

// readyOn is what a server may say of a connection.
func readyOn(c net.Conn) protocol.Ready {
	return protocol.Ready{
		Client: c.RemoteAddr().String(), Server: c.LocalAddr().String(), Cookie: make([]byte, protocol.CookieBytes),
	}
}

// Garbage answers every connection with the same bytes.
func Garbage(t *testing.T, answer []byte) netip.AddrPort {
	return testutil.Listen(t, func(c net.Conn) {
		_, _ = c.Write(answer) // the client may have gone
		_, _ = io.Copy(io.Discard, io.LimitReader(c, 1<<10))
	})
}
