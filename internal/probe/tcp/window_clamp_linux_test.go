package tcp_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/servertest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// The window that the sender sees stays at the clamp; where it does not, the
// outcome says so.
func TestWindowClamp(t *testing.T) {
	const tolerance = 1.05 // for the rounding of the window's scale
	target := servertest.Serve(t, probe.ServerOptions{})
	for _, direction := range []measurement.Direction{measurement.Send, measurement.Receive} {
		for _, window := range []int64{64 << 10, 133_000, 1_330_000} {
			out, err := probe.Run(servertest.Context(t), probe.Request{Target: target, Spec: measurement.Spec{
				Kind: measurement.TCP, Direction: direction, WindowBytes: window, Duration: 0.4, MaxWarmup: 0.2,
			}}, nil)
			testutil.OK(t, err)
			var seen []int64
			for _, i := range out.Flows[0].Info {
				seen = append(seen, i.SendWindow)
			}
			slices.Sort(seen)
			if middle := seen[len(seen)/2]; float64(middle) > tolerance*float64(window) {
				t.Errorf("%s: the sender mostly saw a window of %d bytes, clamped to %d", direction, middle, window)
			}
			from, to := float64(out.Warmup), float64(out.Warmup)+0.4
			var largest int64
			for _, i := range out.Flows[0].Info {
				if at := float64(i.At); at >= from && at <= to {
					largest = max(largest, i.SendWindow)
				}
			}
			over := float64(largest) > tolerance*float64(window)
			told := slices.ContainsFunc(out.Facts, func(f string) bool { return strings.HasPrefix(f, "the receive window reached") })
			if over != told {
				t.Errorf("%s: window exceeded: %v, facts: %v", direction, over, out.Facts)
			}
		}
	}
}
