package rr_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/servertest"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestRunRR(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{Token: servertest.Token})
	for _, spec := range []measurement.Spec{
		{Protocol: measurement.OverTCP},
		{Protocol: measurement.OverTCP, RequestBytes: 3000, ResponseBytes: 1 << 20},
		{Protocol: measurement.OverUDP},
		{Protocol: measurement.OverUDP, RequestBytes: 100, ResponseBytes: 9000},
	} {
		spec.Kind, spec.Duration, spec.MaxWarmup = measurement.RR, 0.2, 0.02
		t.Run(fmt.Sprintf("%s %d %d", spec.Protocol, spec.RequestBytes, spec.ResponseBytes), func(t *testing.T) {
			var out measurement.Outcome
			testutil.Longer(t, func(factor float64) string {
				spec.Duration = measurement.Seconds(0.2 * factor)
				var err error
				out, err = probe.Run(servertest.Context(t), probe.Request{ID: "rr", Spec: spec, Target: target, Token: servertest.Token}, nil)
				testutil.OK(t, err)
				if out.Latency.Samples < 10 {
					return fmt.Sprintf("%d samples", out.Latency.Samples)
				}
				return ""
			})
			for _, m := range measurement.MetricsOf(measurement.RR) {
				v, ok := out.Metrics[m.Name]
				switch m.Name {
				case "path_rtt_p50_seconds", "wakeup_p50_seconds", "context_switches_per_second":
					if !ok {
						continue // where the kernel does not say
					}
				}
				if !ok && m.Name == "rtt_p99_seconds" && out.Latency.Samples < 1000 {
					continue
				}
				if !ok || v < 0 || v == 0 && m.Name != "loss_fraction" {
					t.Errorf("metric %s is %v (present: %v)", m.Name, v, ok)
				}
			}
			if runtime.GOOS == "linux" && (out.Source.ReceivedTTL != 64 || out.Destination.ReceivedTTL != 64) {
				t.Errorf("times to live %d and %d", out.Source.ReceivedTTL, out.Destination.ReceivedTTL)
			}
		})
	}
}
