package probe_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/servertest"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestMain(m *testing.M) { servertest.Main(m) }

func TestOverIPv6(t *testing.T) {
	ln, err := net.Listen("tcp", "[::1]:0")
	testutil.Need(t, err == nil, "IPv6 on loopback")
	target := servertest.ServeListener(t, probe.ServerOptions{}, ln)
	for _, spec := range []measurement.Spec{
		{Kind: measurement.TCP, Duration: 0.1, MaxWarmup: 0.02},
		{Kind: measurement.RR, Protocol: measurement.OverUDP, Duration: 0.05},
	} {
		usual := spec.Duration
		testutil.Longer(t, func(factor float64) string {
			spec.Duration = usual * measurement.Seconds(factor)
			out, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: target, Source: netip.MustParseAddr("::1")}, nil)
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
	target := servertest.Serve(t, probe.ServerOptions{})
	for _, kind := range []measurement.Kind{measurement.TCP, measurement.RR} {
		var signs int // no lock: the race detector shows a call from elsewhere
		_, err := probe.Run(servertest.Context(t), probe.Request{Spec: measurement.Spec{Kind: kind, Duration: 0.3, MaxWarmup: 0.05}, Target: target},
			func(measurement.Progress) { signs++ })
		if err != nil || signs == 0 {
			t.Errorf("%s: %d signs of life, %v", kind, signs, err)
		}
	}
}

func TestManyClientsAtOnce(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{Token: servertest.Token})
	const clients = 20
	testutil.Longer(t, func(factor float64) string {
		length := measurement.Seconds(0.4 * factor)
		var group errgroup.Group
		for i := range clients {
			spec := measurement.Spec{Kind: measurement.TCP, Flows: 2, Duration: length, MaxWarmup: 0.1}
			switch i % 4 {
			case 1:
				spec.Direction = measurement.Receive
			case 2:
				spec = measurement.Spec{Kind: measurement.RR, Duration: length}
			case 3:
				spec = measurement.Spec{Kind: measurement.RR, Duration: length, Protocol: measurement.OverUDP}
			}
			group.Go(func() error {
				// All use the same trial id, as two runs of one experiment would.
				out, err := probe.Run(servertest.Context(t), probe.Request{ID: "b01-direct", Spec: spec, Target: target, Token: servertest.Token}, nil)
				if err == nil && len(out.Metrics) == 0 {
					err = errors.New("no metrics")
				}
				return err
			})
		}
		err := group.Wait()
		if failed := new(probe.Error); errors.As(err, &failed) && failed.Reason == probe.TimedOut {
			return err.Error() // a server without CPU time answers no request over UDP
		}
		testutil.OK(t, err)
		return ""
	})
}

func TestServeRefusesToServeOthersWithoutToken(t *testing.T) {
	ln, err := net.Listen("tcp", "0.0.0.0:0")
	testutil.OK(t, err)
	s, err := probe.NewServer(probe.ServerOptions{})
	testutil.OK(t, err)
	if err := s.Serve(servertest.Context(t), ln); err == nil {
		t.Error("served everyone without a token")
	}
	if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Error("the listener stayed open")
	}
}

func TestReasons(t *testing.T) {
	limited := servertest.Serve(t, probe.ServerOptions{Token: servertest.Token, Limits: probe.Limits{MaxFlows: 2, MaxDuration: time.Second}})
	ok := measurement.Spec{Kind: measurement.TCP, Duration: 0.05, MaxWarmup: 0.01}
	with := func(change func(*measurement.Spec)) measurement.Spec {
		s := ok
		change(&s)
		return s
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	free := servertest.Serve(t, probe.ServerOptions{Token: servertest.Token, MaxConnections: 1})
	for _, c := range []struct {
		name string
		ctx  context.Context
		req  probe.Request
		want probe.Reason
	}{
		{"wrong token", nil, probe.Request{Target: limited, Token: "another", Spec: ok}, probe.Unauthorized},
		{"no token", nil, probe.Request{Target: limited, Spec: ok}, probe.Unauthorized},
		{"nobody listens", nil, probe.Request{Target: netip.MustParseAddrPort("127.0.0.1:1"), Spec: ok}, probe.Refused},
		{"not our address", nil, probe.Request{Target: limited, Source: netip.MustParseAddr("192.0.2.1"), Spec: ok}, probe.Local},
		{"too many flows", nil, probe.Request{Target: limited, Token: servertest.Token, Spec: with(func(s *measurement.Spec) { s.Flows = 3 })}, probe.Limit},
		{"too long", nil, probe.Request{Target: limited, Token: servertest.Token, Spec: with(func(s *measurement.Spec) { s.Duration = 2 })}, probe.Limit},
		{"too many connections", nil, probe.Request{Target: free, Token: servertest.Token, Spec: with(func(s *measurement.Spec) { s.Flows = 2 })}, probe.Limit},
		{"no such congestion control", nil, probe.Request{Target: limited, Token: servertest.Token, Spec: with(func(s *measurement.Spec) { s.CongestionControl = "none" })}, probe.Unsupported},
		{"nor at the server", nil, probe.Request{Target: limited, Token: servertest.Token, Spec: with(func(s *measurement.Spec) { s.CongestionControl, s.Direction = "none", measurement.Receive })}, probe.Unsupported},
		{"no target", nil, probe.Request{Spec: ok}, probe.Failed},
		{"unknown kind", nil, probe.Request{Target: limited, Spec: measurement.Spec{Kind: "guess"}}, probe.Failed},
		{"not a number", nil, probe.Request{Target: limited, Spec: with(func(s *measurement.Spec) { s.Duration = measurement.Seconds(math.NaN()) })}, probe.Failed},
		{"cancelled", cancelled, probe.Request{Target: limited, Token: servertest.Token, Spec: ok}, probe.Cancelled},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.ctx == nil {
				c.ctx = servertest.Context(t)
			}
			_, err := probe.Run(c.ctx, c.req, nil)
			if e, ok := errors.AsType[*probe.Error](err); !ok || e.Reason != c.want {
				t.Errorf("got %v, want reason %s", err, c.want)
			}
		})
	}
}

func TestCancelMidway(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{})
	for _, spec := range []measurement.Spec{
		{Kind: measurement.TCP, Flows: 3},
		{Kind: measurement.TCP, Direction: measurement.Receive},
		{Kind: measurement.RR},
		{Kind: measurement.RR, Protocol: measurement.OverUDP},
	} {
		servertest.CancelMidway(t, target, spec)
	}
}
