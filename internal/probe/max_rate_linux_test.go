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
			if _, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec.Defaults(), Target: target}, nil); err != nil {
				t.Error(err)
			}
		})
	}
}
