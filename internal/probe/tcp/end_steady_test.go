package tcp_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/servertest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// A test that may end early measures for as long as was asked for, and does not use up
// the longest warm-up, whoever sends.
func TestTCPEndsEarly(t *testing.T) {
	t.Parallel() // it waits for most of its time
	target := servertest.Serve(t, probe.ServerOptions{Token: servertest.Token})
	for _, flows := range servertest.FewAndMany {
		for _, direction := range []measurement.Direction{measurement.Send, measurement.Receive, measurement.Both} {
			if runtime.GOOS != "linux" && direction != measurement.Receive {
				continue // what was acknowledged is not known
			}
			testutil.Longer(t, func(factor float64) string {
				spec := measurement.Spec{
					Kind: measurement.TCP, Flows: flows, Direction: direction, PacingBitsPerSecond: 20e6,
					Duration: measurement.Seconds(0.2 * factor), MaxWarmup: measurement.Seconds(4 * factor),
				}.Defaults()
				out, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: target, Token: servertest.Token, EndSteady: true}, nil)
				if err != nil {
					return fmt.Sprintf("%d flows %s: %v", flows, direction, err)
				}
				whole := out.Throughput.Width * measurement.Seconds(len(out.Throughput.Bytes))
				if !out.WarmupSteady || whole >= spec.MaxWarmup {
					return fmt.Sprintf("%d flows %s: steady is %v, sent for %v", flows, direction, out.WarmupSteady, whole)
				}
				if out.Warmup < spec.MaxWarmup/10 || whole < out.Warmup+spec.Duration-1e-9 {
					t.Errorf("%d flows %s: %v of %v are warm-up, with %v to be measured", flows, direction, out.Warmup, whole, spec.Duration)
				}
				rate := out.Metrics["goodput_bits_per_second"]
				if want := spec.PacingBitsPerSecond * float64(len(out.Flows)); rate < want/4 || rate > 2*want {
					return fmt.Sprintf("%d flows %s: %v bit/s, want about %v", flows, direction, rate, want)
				}
				return ""
			})
		}
	}
}
