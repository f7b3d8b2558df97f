package servertest

import (
	"os/exec"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/testutil"
)

// NeedIPerf3 is Debian's iperf3, without which t is skipped.
func NeedIPerf3(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("iperf3")
	testutil.Need(t, err == nil, "the program iperf3 (Debian's package iperf3)")
	return path
}

// AtOnce calls f for 0 to n-1, many at a time: tests with iperf3 mostly wait.
func AtOnce(n int, f func(i int)) {
	var group errgroup.Group
	group.SetLimit(8)
	for i := range n {
		group.Go(func() error { f(i); return nil })
	}
	_ = group.Wait()
}

// IPerf3Specs are tests of an iperf3 server, of every kind and direction.
func IPerf3Specs() []measurement.Spec {
	// Paced, because many run at once and each must have its share.
	tcp := measurement.Spec{Kind: measurement.TCP, Tool: measurement.IPerf3, Duration: 1, MaxWarmup: 1, PacingBitsPerSecond: 100e6}
	udp := measurement.Spec{Kind: measurement.UDP, Tool: measurement.IPerf3, Duration: 0.7, RateBitsPerSecond: 20e6, PacketBytes: 1400}
	var specs []measurement.Spec
	for _, change := range []func(*measurement.Spec){
		func(s *measurement.Spec) { s.Direction = measurement.Send },
		func(s *measurement.Spec) { s.Direction = measurement.Receive },
		func(s *measurement.Spec) { s.Direction, s.Flows = measurement.Send, 4 },
		func(s *measurement.Spec) { s.Direction, s.Flows = measurement.Receive, 4 },
		func(s *measurement.Spec) {
			s.Direction, s.Flows, s.CongestionControl = measurement.Both, 2, "reno"
		},
		func(s *measurement.Spec) {
			s.DSCP = 8
			if s.Kind == measurement.TCP {
				s.CongestionControl, s.MSSBytes = "cubic", 1000
			}
		},
	} {
		for _, spec := range []measurement.Spec{tcp, udp} {
			if change(&spec); spec.Kind == measurement.UDP && spec.Direction == measurement.Both {
				continue
			}
			specs = append(specs, spec)
		}
	}
	return specs
}
