package datagram

import (
	"net"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/probe/probetest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// The answer to an earlier packet keeps no hello from leaving.
func TestHelloAfterOneThatWasRejected(t *testing.T) {
	far, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	testutil.OK(t, err)
	address := far.LocalAddr().(*net.UDPAddr)
	conn := probetest.UDPSocket(t, address.AddrPort())
	testutil.OK(t, far.Close())
	_, err = conn.Write([]byte("rejected"))
	testutil.OK(t, err)
	far, err = net.ListenUDP("udp", address)
	testutil.OK(t, err)
	defer far.Close()
	testutil.OK(t, sendHello(conn, []byte("hello")))
	b := make([]byte, 100)
	testutil.OK(t, far.SetReadDeadline(time.Now().Add(10*time.Second))) // for one that never comes
	if n, err := far.Read(b); string(b[:n]) != "hello" {
		t.Errorf("%q, %v", b[:n], err)
	}
}
