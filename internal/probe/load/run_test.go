package load_test

import (
	"errors"
	"math"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/servertest"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestRunLoad(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{Token: servertest.Token})
	for _, spec := range []measurement.Spec{
		{Protocol: measurement.OverUDP, Flows: 2},
		{Protocol: measurement.OverTCP, Flows: 1, Direction: measurement.Receive},
	} {
		t.Run(string(spec.Protocol), func(t *testing.T) {
			spec.Kind, spec.Duration, spec.MaxWarmup, spec.IdleDuration = measurement.Load, 0.4, 0.1, 0.3
			var signs, loaded int // no lock: the race detector shows a call from elsewhere
			var last measurement.Seconds
			out, err := probe.Run(servertest.Context(t), probe.Request{ID: "load", Spec: spec, Target: target, Token: servertest.Token}, func(p measurement.Progress) {
				signs++
				if p.Throughput > 0 {
					loaded++
				}
				if p.Elapsed < last {
					t.Errorf("%v s have passed after %v", p.Elapsed, last)
				}
				last = p.Elapsed
			})
			testutil.OK(t, err)
			if signs == 0 || loaded == 0 {
				t.Errorf("%d signs of life, %d of the load", signs, loaded)
			}
			for _, m := range measurement.MetricsOf(measurement.Load) {
				v, ok := out.Metrics[m.Name]
				if !ok && m.Name == "loaded_rtt_p99_seconds" && out.Latency.Samples < 1000 {
					continue
				}
				if !ok || math.IsNaN(v) || math.IsInf(v, 0) || v <= 0 && m.Name != "loss_fraction" && m.Name != "rtt_increase_seconds" {
					t.Errorf("metric %s is %v (present: %v)", m.Name, v, ok)
				}
			}
			if got, want := out.Metrics["rtt_increase_seconds"], out.Metrics["loaded_rtt_p50_seconds"]-out.Metrics["idle_rtt_p50_seconds"]; got != want {
				t.Errorf("increase %v, want %v", got, want)
			}
			// 500 requests a second were due in exactly the load's window.
			lost := out.Metrics["loss_fraction"]
			if due := float64(out.Latency.Samples) / (1 - lost); math.Abs(due-200) > 1 {
				t.Errorf("%v requests in the window, want 200", due)
			}
			if out.IdleLatency == nil || out.IdleLatency.Samples == 0 || len(out.Flows) != spec.Flows || out.Throughput == nil {
				t.Errorf("parts are missing: %+v", out)
			}
			if runtime.GOOS == "linux" && out.Destination.CPUs == 0 {
				t.Error("the destination's CPU time is missing")
			}
		})
	}
}

// A firewall that lets only TCP pass is named, with the way around it.
func TestLoadWithoutUDP(t *testing.T) {
	t.Parallel() // it waits for most of its time
	target := servertest.Serve(t, probe.ServerOptions{})
	p, addr := servertest.StartProxy(t, target, 1<<60, false)
	defer p.Close()
	hole, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(addr)) // takes packets and is silent
	if err != nil {
		t.Skipf("the UDP port of the proxy is taken: %v", err)
	}
	defer hole.Close()
	spec := measurement.Spec{Kind: measurement.Load, Duration: 0.1, MaxWarmup: 0.02, IdleDuration: 0.05, Timeout: 0.05}
	_, err = probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: addr}, nil)
	if e, ok := errors.AsType[*probe.Error](err); !ok || e.Reason != probe.TimedOut {
		t.Errorf("got %v", err)
	}
	spec.Protocol = measurement.OverTCP
	// On a busy machine too few of the requests may leave in time; they left over TCP all the same.
	if _, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: addr}, nil); err != nil && !strings.Contains(err.Error(), "overload") {
		t.Errorf("over TCP: %v", err)
	}
}
