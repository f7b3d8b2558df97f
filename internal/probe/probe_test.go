package probe

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hopbench/hopbench/internal/measurement"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testToken = "a shared secret"

// serve runs a server on a free port of loopback for the length of the test.
func serve(t testing.TB, o ServerOptions) netip.AddrPort {
	t.Helper()
	s, err := NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	var ln net.Listener
	// A TCP port that is free may be taken for UDP: ask for both.
	for range 100 {
		if ln, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		u, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: ln.Addr().(*net.TCPAddr).Port})
		if err == nil {
			_ = u.Close()
			break
		}
		_ = ln.Close()
	}
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
	for _, direction := range []measurement.Direction{measurement.Send, measurement.Receive} {
		for _, flows := range []int{1, 3} {
			for _, copied := range []bool{false, true} {
				name := string(direction)
				spec := measurement.Spec{Kind: measurement.TCP, Direction: direction, Flows: flows, CopyPayload: copied, Duration: 0.3, MaxWarmup: 0.1}
				out, err := Run(testContext(t), Request{ID: name, Spec: spec, Target: target, Token: testToken}, nil)
				if err != nil {
					t.Fatalf("%s %d flows: %v", name, flows, err)
				}
				t.Logf("%s %d copied=%v: %.2f Gbit/s warm-up %v steady %v\n%v\n%v\n%+v %+v\nfacts %v", name, flows, copied,
					out.Metrics["goodput_bits_per_second"]/1e9, out.Warmup, out.WarmupSteady, out.Metrics, out.Effective, out.Source, out.Destination, out.Facts)
			}
		}
	}
}

func TestRunRR(t *testing.T) {
	target := serve(t, ServerOptions{Token: testToken})
	for _, proto := range []measurement.Protocol{measurement.OverTCP, measurement.OverUDP} {
		spec := measurement.Spec{Kind: measurement.RR, Protocol: proto, Duration: 0.3, MaxWarmup: 0.1}
		out, err := Run(testContext(t), Request{ID: "rr", Spec: spec, Target: target, Token: testToken}, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %v\n%v\n%+v %+v\n%v", proto, out.Metrics, out.Effective, out.Source, out.Destination, out.Facts)
	}
}
