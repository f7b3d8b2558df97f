package mtu

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/probe/datagram"
	"github.com/hopbench/hopbench/internal/probe/probetest"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/testutil"
)

// An answer that comes when its round is over tells that its size passed.
func TestAnswersToEarlierRounds(t *testing.T) {
	far, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	testutil.OK(t, err)
	defer far.Close()
	conn := probetest.UDPSocket(t, far.LocalAddr().(*net.UDPAddr).AddrPort())
	testutil.OK(t, conn.SetReadTick(readTick))
	x := &test{
		conn: conn, cookie: make([]byte, protocol.CookieBytes), headers: 28, in: make([]byte, datagram.MaxBytes+1),
		timeout: time.Millisecond, rtt: 1, until: time.Now(), // so that no answer is waited for
	}
	passed, err := x.round(t.Context(), datagram.Probe, []int{1400, 1200})
	testutil.OK(t, err)
	if len(passed) > 0 {
		t.Fatalf("nothing answered, and %v passed", passed)
	}
	answer := make([]byte, datagram.HeaderBytes)
	datagram.PutHeader(answer, x.cookie, datagram.Probe)
	for _, sequence := range []uint32{2, 3} { // the second size of the first round, and one of this
		binary.BigEndian.PutUint32(answer[datagram.SequenceOffset:], sequence)
		_, err = far.WriteToUDPAddrPort(answer, netip.MustParseAddrPort(conn.LocalAddr()))
		testutil.OK(t, err)
	}
	x.timeout = time.Hour
	passed, err = x.round(t.Context(), datagram.Probe, []int{1000})
	testutil.OK(t, err)
	if len(passed) != 2 || !passed[1200] || !passed[1000] {
		t.Errorf("%v passed", passed)
	}
}

// Waits grow with the round trip and end before the server's time does.
func TestWaitForAnswers(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct{ rtt, left, want time.Duration }{
		{0, time.Minute, firstAnswer},
		{0, 1000 * ms, 500 * ms},
		{ms, time.Minute, 200 * ms},
		{300 * ms, time.Minute, 700 * ms},
		{300 * ms, 1000 * ms, 500 * ms},
		{300 * ms, -time.Second, 200 * ms},
	} {
		x := test{timeout: 200 * ms, rtt: c.rtt}
		if got := x.wait(c.left); got != c.want {
			t.Errorf("a round trip of %v and %v left: %v, want %v", c.rtt, c.left, got, c.want)
		}
	}
}
