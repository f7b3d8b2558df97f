package mtu_test

import (
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/servertest"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestRunMTU(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{Token: servertest.Token})
	out, err := probe.Run(servertest.Context(t), probe.Request{Spec: measurement.Spec{Kind: measurement.MTU, Timeout: 1}, Target: target, Token: servertest.Token}, nil)
	testutil.OK(t, err)
	// Loopback has an MTU of 65536, and an IP packet has 65535 bytes at most.
	for _, m := range []string{"path_mtu_bytes", "reverse_path_mtu_bytes"} {
		if out.Metrics[m] != 65535 {
			t.Errorf("%s is %v, want %d", m, out.Metrics[m], 65535)
		}
	}
	t.Log(out.Effective, out.Facts)
}
