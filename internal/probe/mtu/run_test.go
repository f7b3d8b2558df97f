package mtu_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/datagram"
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

// A path that carries less than its ends, and loses all packets for a while or from some moment on,
// loses those that it carries as well: these are no limit.
func TestLossOfAllIsNoLimit(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{})
	for name, c := range map[string]struct {
		kind  byte // of the packets that begin it
		whole int  // so many of those come before
		lost  int  // packets that the path would carry
	}{
		"there, for a while": {datagram.Probe, 3, 60},
		"back, for a while":  {datagram.Mirror, 0, 60},
		"there":              {datagram.Probe, 3, 1 << 30},
		"back":               {datagram.Mirror, 0, 1 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it waits for most of its time
			seen, lost := 0, 0
			path := servertest.Path{Lose: func(packet []byte) bool {
				if len(packet) > 1472 {
					return true
				}
				if packet[datagram.KindOffset] == c.kind {
					seen++
				}
				if seen > c.whole {
					lost++
				}
				return lost > 0 && lost <= c.lost
			}}
			spec := measurement.Spec{Kind: measurement.MTU, Timeout: 0.001}
			out, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: path.Listen(t, target)}, nil)
			if c.lost < 1<<30 {
				testutil.OK(t, err)
				if there, back := out.Metrics["path_mtu_bytes"], out.Metrics["reverse_path_mtu_bytes"]; there != 1500 || back != 1500 {
					t.Errorf("%v bytes there and %v back, want 1500: %q", there, back, out.Facts)
				}
			} else if e, ok := errors.AsType[*probe.Error](err); !ok || e.Reason != probe.TimedOut || !strings.Contains(e.Error(), "not answered any more") {
				t.Errorf("got %v, %v and %q", err, out.Metrics, out.Facts)
			}
		})
	}
}
