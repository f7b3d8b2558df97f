package ftp

import (
	"net"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/sockets"
	"github.com/hopbench/hopbench/internal/testutil"
)

// The end that sends has the congestion control of the test, and the one that receives the
// window; the DSCP is that of both.
func TestPreparedDataConnections(t *testing.T) {
	for _, sends := range []bool{true, false} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		testutil.OK(t, err)
		defer ln.Close()
		c, err := net.Dial("tcp", ln.Addr().String())
		testutil.OK(t, err)
		defer c.Close()
		before, err := sockets.Attach(c.(*net.TCPConn))
		testutil.OK(t, err)
		was := before.InForce().CongestionControl
		prepared, err := prepare(c.(*net.TCPConn), measurement.Spec{CongestionControl: "reno", WindowBytes: 64_000, DSCP: 10}, sends)
		testutil.OK(t, err)
		want, window := was, 64_000
		if sends {
			want, window = "reno", 0
		}
		got := before.InForce()
		clamp := 0
		if renewing, ok := prepared.(*clamped); ok {
			clamp = renewing.conn.WindowClamp()
		}
		if got.CongestionControl != want || clamp != window || got.DSCP != 10 {
			t.Errorf("sends %v: congestion control %s, window of %d, DSCP %d", sends, got.CongestionControl, clamp, got.DSCP)
		}
	}
}
