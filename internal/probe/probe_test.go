package probe

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"net"
	"net/netip"
	"runtime"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Parallel tests of this package wait for most of their time; there may be
	// more of them than CPUs.
	if err := flag.Set("test.parallel", "24"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

const testToken = "a shared secret"

// freePorts is the first of n local ports that were free a moment ago.
func freePorts(t testing.TB, n int) int {
	t.Helper()
	first, err := testutil.FreePorts(n)
	testutil.OK(t, err)
	return int(first)
}

// serve runs a server on a free port of loopback for the length of the test.
func serve(t testing.TB, o ServerOptions) netip.AddrPort {
	t.Helper()
	ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", freePorts(t, 1)))
	for errors.Is(err, syscall.EADDRINUSE) { // a test beside this one drew the same
		ln, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", freePorts(t, 1)))
	}
	testutil.OK(t, err)
	return serveListener(t, o, ln)
}

// serveListener runs a server on ln for the length of the test.
func serveListener(t testing.TB, o ServerOptions, ln net.Listener) netip.AddrPort {
	t.Helper()
	s, err := NewServer(o)
	testutil.OK(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Serve: %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Error("the server did not end")
		}
	})
	return ln.Addr().(*net.TCPAddr).AddrPort()
}

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestRunTCP(t *testing.T) {
	target := serve(t, ServerOptions{Token: testToken})
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
		spec.Kind, spec.Duration, spec.MaxWarmup = measurement.TCP, 0.25, 0.1
		t.Run(fmt.Sprintf("%s %d copied %v", spec.Direction, spec.Flows, spec.CopyPayload), func(t *testing.T) {
			var out measurement.Outcome
			testutil.Longer(t, func(factor float64) string {
				spec.Duration = measurement.Seconds(0.25 * factor)
				var err error
				out, err = Run(testContext(t), Request{ID: "t", Spec: spec, Target: target, Token: testToken}, nil)
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

func TestRunRR(t *testing.T) {
	target := serve(t, ServerOptions{Token: testToken})
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
				out, err = Run(testContext(t), Request{ID: "rr", Spec: spec, Target: target, Token: testToken}, nil)
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

func TestOverIPv6(t *testing.T) {
	ln, err := net.Listen("tcp", "[::1]:0")
	testutil.Need(t, err == nil, "IPv6 on loopback")
	s, err := NewServer(ServerOptions{})
	testutil.OK(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, ln) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	target := ln.Addr().(*net.TCPAddr).AddrPort()
	for _, spec := range []measurement.Spec{
		{Kind: measurement.TCP, Duration: 0.1, MaxWarmup: 0.02},
		{Kind: measurement.RR, Protocol: measurement.OverUDP, Duration: 0.05},
	} {
		usual := spec.Duration
		testutil.Longer(t, func(factor float64) string {
			spec.Duration = usual * measurement.Seconds(factor)
			out, err := Run(testContext(t), Request{Spec: spec, Target: target, Source: netip.MustParseAddr("::1")}, nil)
			testutil.OK(t, err)
			if runtime.GOOS == "linux" && (out.Source.ReceivedTTL == 0 || out.Destination.ReceivedTTL == 0) {
				return fmt.Sprintf("hop limits %d and %d", out.Source.ReceivedTTL, out.Destination.ReceivedTTL)
			}
			return ""
		})
	}
}

// Progress comes while a test runs, and never after it.
func TestProgress(t *testing.T) {
	target := serve(t, ServerOptions{})
	for _, kind := range []measurement.Kind{measurement.TCP, measurement.RR} {
		var signs int // no lock: the race detector shows a call from elsewhere
		_, err := Run(testContext(t), Request{Spec: measurement.Spec{Kind: kind, Duration: 0.3, MaxWarmup: 0.05}, Target: target},
			func(measurement.Progress) { signs++ })
		if err != nil || signs == 0 {
			t.Errorf("%s: %d signs of life, %v", kind, signs, err)
		}
	}
}

func TestManyClientsAtOnce(t *testing.T) {
	target := serve(t, ServerOptions{Token: testToken})
	const clients = 20
	var group errgroup.Group
	for i := range clients {
		spec := measurement.Spec{Kind: measurement.TCP, Flows: 2, Duration: 0.4, MaxWarmup: 0.1}
		switch i % 4 {
		case 1:
			spec.Direction = measurement.Receive
		case 2:
			spec = measurement.Spec{Kind: measurement.RR, Duration: 0.4}
		case 3:
			spec = measurement.Spec{Kind: measurement.RR, Duration: 0.4, Protocol: measurement.OverUDP}
		}
		group.Go(func() error {
			// All use the same trial id, as two runs of one experiment would.
			out, err := Run(testContext(t), Request{ID: "b01-direct", Spec: spec, Target: target, Token: testToken}, nil)
			if err == nil && len(out.Metrics) == 0 {
				err = errors.New("no metrics")
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

func TestServeRefusesToServeOthersWithoutToken(t *testing.T) {
	ln, err := net.Listen("tcp", "0.0.0.0:0")
	testutil.OK(t, err)
	s, err := NewServer(ServerOptions{})
	testutil.OK(t, err)
	if err := s.Serve(testContext(t), ln); err == nil {
		t.Error("served everyone without a token")
	}
	if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Error("the listener stayed open")
	}
}

func TestReasons(t *testing.T) {
	limited := serve(t, ServerOptions{Token: testToken, Limits: Limits{MaxFlows: 2, MaxDuration: time.Second}})
	ok := measurement.Spec{Kind: measurement.TCP, Duration: 0.05, MaxWarmup: 0.01}
	with := func(change func(*measurement.Spec)) measurement.Spec {
		s := ok
		change(&s)
		return s
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	free := serve(t, ServerOptions{Token: testToken, MaxConnections: 1})
	for _, c := range []struct {
		name string
		ctx  context.Context
		req  Request
		want Reason
	}{
		{"wrong token", nil, Request{Target: limited, Token: "another", Spec: ok}, Unauthorized},
		{"no token", nil, Request{Target: limited, Spec: ok}, Unauthorized},
		{"nobody listens", nil, Request{Target: netip.MustParseAddrPort("127.0.0.1:1"), Spec: ok}, Refused},
		{"not our address", nil, Request{Target: limited, Source: netip.MustParseAddr("192.0.2.1"), Spec: ok}, Local},
		{"too many flows", nil, Request{Target: limited, Token: testToken, Spec: with(func(s *measurement.Spec) { s.Flows = 3 })}, Limit},
		{"too long", nil, Request{Target: limited, Token: testToken, Spec: with(func(s *measurement.Spec) { s.Duration = 2 })}, Limit},
		{"too many connections", nil, Request{Target: free, Token: testToken, Spec: with(func(s *measurement.Spec) { s.Flows = 2 })}, Limit},
		{"no such congestion control", nil, Request{Target: limited, Token: testToken, Spec: with(func(s *measurement.Spec) { s.CongestionControl = "none" })}, Unsupported},
		{"nor at the server", nil, Request{Target: limited, Token: testToken, Spec: with(func(s *measurement.Spec) { s.CongestionControl, s.Direction = "none", measurement.Receive })}, Unsupported},
		{"no target", nil, Request{Spec: ok}, Failed},
		{"unknown kind", nil, Request{Target: limited, Spec: measurement.Spec{Kind: "guess"}}, Failed},
		{"not a number", nil, Request{Target: limited, Spec: with(func(s *measurement.Spec) { s.Duration = measurement.Seconds(math.NaN()) })}, Failed},
		{"cancelled", cancelled, Request{Target: limited, Token: testToken, Spec: ok}, Cancelled},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.ctx == nil {
				c.ctx = testContext(t)
			}
			_, err := Run(c.ctx, c.req, nil)
			if e, ok := errors.AsType[*Error](err); !ok || e.Reason != c.want {
				t.Errorf("got %v, want reason %s", err, c.want)
			}
		})
	}
}

func TestCancelMidway(t *testing.T) {
	target := serve(t, ServerOptions{})
	for _, spec := range []measurement.Spec{
		{Kind: measurement.TCP, Flows: 3},
		{Kind: measurement.TCP, Direction: measurement.Receive},
		{Kind: measurement.RR},
		{Kind: measurement.RR, Protocol: measurement.OverUDP},
	} {
		spec.Duration = 600
		ctx, cancel := context.WithCancel(testContext(t))
		_, err := Run(ctx, Request{Spec: spec, Target: target}, func(measurement.Progress) { cancel() })
		if e, ok := errors.AsType[*Error](err); !ok || e.Reason != Cancelled {
			t.Errorf("%v: got %v", spec, err)
		}
		cancel()
	}
}
