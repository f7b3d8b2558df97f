package probe_test

import (
	"fmt"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/servertest"
)

// A server does not end as too fast what its own kernel paces to its bound, however much the
// buffers of many flows take at once.
func TestServerAllowsWhatItPaces(t *testing.T) {
	for _, spec := range []measurement.Spec{
		{Kind: measurement.TCP, Direction: measurement.Receive, Flows: 16, Duration: 3, MaxWarmup: 0.5},
		{Kind: measurement.TCP, Direction: measurement.Receive, Flows: 64, Duration: 3, MaxWarmup: 0.5},
		{Kind: measurement.FTP, Direction: measurement.Receive, Flows: 1, FileBytes: 50e6},
	} {
		t.Run(fmt.Sprintf("%s %s with %d flows", spec.Kind, spec.Direction, spec.Flows), func(t *testing.T) {
			t.Parallel() // it waits for most of its time
			target := servertest.Serve(t, probe.ServerOptions{Limits: probe.Limits{MaxRateBitsPerSecond: 100e6}})
			out, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec.Defaults(), Target: target}, nil)
			if err != nil {
				t.Error(err)
			}
			want := fmt.Sprint(100_000_000 / spec.Flows)
			if spec.Kind == measurement.FTP { // which a server paces by what it writes
				want = ""
			}
			if out.Effective["pacing_bits_per_second"] != want {
				t.Errorf("each flow is said to be paced at %q", out.Effective["pacing_bits_per_second"])
			}
		})
	}
}
