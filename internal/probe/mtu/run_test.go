package mtu_test

import (
	"testing"
	"time"

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

// A server that is farther away than the timeout is told from one behind a firewall.
func TestFarServer(t *testing.T) {
	t.Parallel() // it waits for most of its time
	target := servertest.Serve(t, probe.ServerOptions{Token: servertest.Token})
	path := servertest.Path{Delay: 120 * time.Millisecond}
	out, err := probe.Run(servertest.Context(t), probe.Request{Spec: measurement.Spec{Kind: measurement.MTU}, Target: path.Listen(t, target), Token: servertest.Token}, nil)
	testutil.OK(t, err)
	for _, m := range []string{"path_mtu_bytes", "reverse_path_mtu_bytes"} {
		if out.Metrics[m] != 65535 {
			t.Errorf("%s is %v, want %d: %q", m, out.Metrics[m], 65535, out.Facts)
		}
	}
}

// On a path of long round trips that carries less than its ends, the time suffices for the
// reverse direction, too.
func TestFarServerBehindALimit(t *testing.T) {
	t.Parallel() // it waits for most of its time
	target := servertest.Serve(t, probe.ServerOptions{Token: servertest.Token})
	path := servertest.Path{Delay: 150 * time.Millisecond, Lose: func(packet []byte) bool { return len(packet) > 1472 }}
	spec := measurement.Spec{Kind: measurement.MTU, Timeout: 0.001}
	out, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: path.Listen(t, target), Token: servertest.Token}, nil)
	testutil.OK(t, err)
	for _, m := range []string{"path_mtu_bytes", "reverse_path_mtu_bytes"} {
		if out.Metrics[m] != 1500 {
			t.Errorf("%s is %v, want 1500: %q", m, out.Metrics[m], out.Facts)
		}
	}
}
