package tcp_test

import (
	"fmt"
	"math"
	"runtime"
	"testing"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/servertest"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestRunTCP(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{Token: servertest.Token})
	for _, spec := range []measurement.Spec{
		{Direction: measurement.Send, Flows: 1},
		{Direction: measurement.Send, Flows: 5},
		{Direction: measurement.Send, Flows: 2, CopyPayload: true},
		{Direction: measurement.Receive, Flows: 1},
		{Direction: measurement.Receive, Flows: 5, CongestionControl: "reno"},
		{Direction: measurement.Receive, Flows: 2, CopyPayload: true},
		{Direction: measurement.Both, Flows: 2},
		{Direction: measurement.Both, Flows: 40, CopyPayload: true},
		{Direction: measurement.Send, Flows: 65},
		{Direction: measurement.Receive, Flows: 300},
	} {
		if runtime.GOOS != "linux" {
			spec.CongestionControl = ""
		}
		spec.Kind, spec.Duration, spec.MaxWarmup = measurement.TCP, 0.15, 0.05
		t.Run(fmt.Sprintf("%s %d copied %v", spec.Direction, spec.Flows, spec.CopyPayload), func(t *testing.T) {
			var out measurement.Outcome
			testutil.Longer(t, func(factor float64) string {
				spec.Duration = measurement.Seconds(0.15 * factor)
				var err error
				out, err = probe.Run(servertest.Context(t), probe.Request{ID: "t", Spec: spec, Target: target, Token: servertest.Token}, nil)
				testutil.OK(t, err)
				if _, sampled := out.Metrics["tcp_rtt_mean_seconds"]; runtime.GOOS == "linux" && !sampled || out.Metrics["goodput_bits_per_second"] == 0 {
					return fmt.Sprintf("too little was sent or sampled: %v", out.Metrics)
				}
				return ""
			})
			checkTCP(t, out, spec)
		})
	}
}

// checkTCP compares an outcome with what its own parts say.
func checkTCP(t *testing.T, out measurement.Outcome, spec measurement.Spec) {
	t.Helper()
	if want := kind.Connections(spec); len(out.Flows) != want {
		t.Fatalf("%d flows, want %d", len(out.Flows), want)
	}
	var received, sent int64
	for _, f := range out.Flows {
		received, sent = received+f.ReceivedBytes, sent+f.SentBytes
		// On a busy host, not every flow gets its turn within so short a window.
		if f.ReceivedBytes < 0 || f.ReceivedBytes > f.SentBytes {
			t.Errorf("received %d of %d sent bytes", f.ReceivedBytes, f.SentBytes)
		}
	}
	if received == 0 {
		t.Error("nothing was received")
	}
	want := float64(received) * 8 / float64(spec.Duration)
	if got := out.Metrics["goodput_bits_per_second"]; math.Abs(got-want) > 1e-6*want {
		t.Errorf("goodput %g, want %g", got, want)
	}
	if out.Warmup < 0 || out.Warmup > spec.MaxWarmup {
		t.Errorf("warm-up of %v s, at most %v s", out.Warmup, spec.MaxWarmup)
	}
	first := int(math.Round(float64(out.Warmup / out.Throughput.Width)))
	var sum float64
	for _, b := range out.Throughput.Bytes[first : first+int(math.Round(float64(spec.Duration/out.Throughput.Width)))] {
		sum += b
	}
	if sum != float64(received) {
		t.Errorf("the series holds %g bytes in the window, the flows %d", sum, received)
	}
	if runtime.GOOS != "linux" {
		return
	}
	for _, m := range measurement.MetricsOf(measurement.TCP) {
		v, ok := out.Metrics[m.Name]
		if !ok && optionalInTCP(m.Name, spec) {
			continue
		}
		// The delay that buffers add may well be many times that of the path.
		if !ok || v < 0 || m.Unit == measurement.Fraction && v > 1 && m.Name != "buffer_delay_fraction" {
			t.Errorf("metric %s is %v (present: %v)", m.Name, v, ok)
		}
	}
	for name, end := range map[string]measurement.End{"source": out.Source, "destination": out.Destination} {
		if end.CPUs == 0 || end.ReceivedTTL != 64 {
			t.Errorf("%s: %d CPUs, time to live %d, want 64 on loopback", name, end.CPUs, end.ReceivedTTL)
		}
	}
	if spec.CongestionControl != "" && out.Effective["congestion_control"] != spec.CongestionControl {
		t.Errorf("congestion control is %q", out.Effective["congestion_control"])
	}
	for _, key := range []string{"send_method", "receive_method", "mss_bytes", "receive_buffer_bytes"} {
		if out.Effective[key] == "" {
			t.Errorf("effective %s is missing: %v", key, out.Effective)
		}
	}
}

// optionalInTCP says which metrics not every tcp test brings back: those of both
// directions, and those of hosts that cannot say what they spent.
func optionalInTCP(name string, spec measurement.Spec) bool {
	switch name {
	case "forward_goodput_bits_per_second", "reverse_goodput_bits_per_second":
		return spec.Direction != measurement.Both
	case "cpu_seconds_per_byte", "context_switches_per_second", "dropped_packets_count":
		return true
	}
	return false
}
