package probe_test

import (
	"net"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/servertest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// Clients that reset their connection before the server has accepted it, or
// right then, harm nobody else.
func TestServerOutlivesClientsThatResetAtOnce(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{})
	for range 300 {
		c, err := net.DialTimeout("tcp", target.String(), 5*time.Second)
		testutil.OK(t, err)
		testutil.OK(t, c.(*net.TCPConn).SetLinger(0))
		testutil.OK(t, c.Close())
	}
	req := probe.Request{Target: target, Spec: measurement.Spec{Kind: measurement.RR, Duration: 0.05, MaxWarmup: 0.01}}
	if _, err := probe.Run(t.Context(), req, nil); err != nil {
		t.Errorf("the next client: %v", err)
	}
}
