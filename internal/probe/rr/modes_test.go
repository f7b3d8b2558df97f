package rr_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/datagram"
	"github.com/hopbench/hopbench/internal/probe/probetest"
	"github.com/hopbench/hopbench/internal/probe/servertest"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestRRModes(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{Token: servertest.Token, Spin: true})
	for _, protocol := range []measurement.Protocol{measurement.OverTCP, measurement.OverUDP} {
		for name, spec := range map[string]measurement.Spec{
			"spinning":               {Spin: true},
			"open loop":              {RequestsPerSecond: 2000},
			"open loop spinning":     {RequestsPerSecond: 2000, Spin: true},
			"in flight":              {InFlight: 8},
			"in flight, large":       {InFlight: 32, RequestBytes: 20_000, ResponseBytes: 30_000},
			"open loop, large":       {RequestsPerSecond: 500, RequestBytes: 9000, ResponseBytes: 20_000},
			"without warm-up":        {MaxWarmup: -1},
			"in flight and spinning": {InFlight: 8, Spin: true},
			"marked":                 {DSCP: 46, MSSBytes: 500},
		} {
			t.Run(fmt.Sprintf("%s %s", protocol, name), func(t *testing.T) {
				spec.Kind, spec.Protocol, spec.Duration, spec.Timeout = measurement.RR, protocol, 0.2, 2
				if spec.MaxWarmup == 0 {
					spec.MaxWarmup = 0.02
				} else {
					spec.MaxWarmup = 1e-6 // zero is the default
				}
				if runtime.GOOS != "linux" {
					spec.DSCP, spec.MSSBytes = 0, 0
				}
				var out measurement.Outcome
				var err error
				for range 5 { // a busy machine may have no time for this process for as long as the test lasts
					out, err = probe.Run(servertest.Context(t), probe.Request{ID: "rr", Spec: spec, Target: target, Token: servertest.Token}, nil)
					if err == nil || !strings.Contains(err.Error(), "was too busy") {
						break
					}
				}
				testutil.OK(t, err)
				said := strings.Contains(strings.Join(out.Facts, "; "), "could not be sent")
				if rate := spec.RequestsPerSecond; rate > 0 && protocol == measurement.OverTCP && !said {
					// Every request that was due has its latency, unless a fact
					// says that this host was too busy.
					if due := rate * float64(spec.Duration); float64(out.Latency.Samples) < due-1 || float64(out.Latency.Samples) > due+1 {
						t.Errorf("%d round trips of %v requests: %v", out.Latency.Samples, due, out.Facts)
					}
				}
				if out.Latency.Samples == 0 || out.Latency.Min <= 0 {
					t.Errorf("%+v", out.Latency)
				}
				checkWaits(t, out, spec)
				if mark := out.Effective["dscp"]; spec.DSCP > 0 != (mark == "46") || spec.DSCP == 0 && mark != "" {
					t.Errorf("packets are marked %q, want %d at both ends", mark, spec.DSCP)
				}
				if mss := out.Effective["mss_bytes"]; spec.MSSBytes > 0 && protocol == measurement.OverTCP != (mss != "") {
					t.Errorf("%s: an MSS of %q", protocol, mss)
				}
			})
		}
	}
}

// A server that was not told that it may spin does not, and says so.
func TestSpinningIsTheServersToAllow(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{})
	for _, protocol := range []measurement.Protocol{measurement.OverTCP, measurement.OverUDP} {
		out, err := probe.Run(servertest.Context(t), probe.Request{Spec: measurement.Spec{Kind: measurement.RR, Protocol: protocol, Duration: 0.1, Spin: true}, Target: target}, nil)
		testutil.OK(t, err)
		if wait := out.Effective["destination_wait"]; wait != measurement.WaitBlocking || !strings.Contains(strings.Join(out.Facts, "; "), "serve --spin") {
			t.Errorf("%s: the destination was %q, facts %q", protocol, wait, out.Facts)
		}
	}
}

// checkWaits compares what was asked of the waiting with what is said of it.
func checkWaits(t *testing.T, out measurement.Outcome, spec measurement.Spec) {
	t.Helper()
	for _, end := range []string{"source", "destination"} {
		said := strings.Contains(strings.Join(out.Facts, "; "), end+" blocked")
		wait := out.Effective[end+"_wait"]
		if want := spec.Spin && !said; wait == measurement.WaitSpin != want || wait != measurement.WaitSpin && wait != measurement.WaitBlocking {
			t.Errorf("the %s was %q, asked to spin: %v; facts %q", end, wait, spec.Spin, out.Facts)
		}
	}
	if spec.Spin && runtime.GOOS == "linux" && runtime.GOMAXPROCS(0) > 1 && out.Effective["source_wait"] != measurement.WaitSpin && out.Effective["destination_wait"] != measurement.WaitSpin {
		t.Error("no end spun although there are CPUs enough")
	}
}

// The wake-up and the rest are the whole round trip.
func TestRRTimeStamps(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skipf("only Linux gives time stamps; this is %s", runtime.GOOS)
	}
	probetest.StampAll(t)
	target := servertest.Serve(t, probe.ServerOptions{Spin: true})
	for _, spec := range []measurement.Spec{
		{Protocol: measurement.OverTCP},
		{Protocol: measurement.OverUDP},
		{Protocol: measurement.OverUDP, Spin: true},
		{Protocol: measurement.OverTCP, Spin: true, ResponseBytes: 100_000},
	} {
		testutil.Longer(t, func(factor float64) string {
			spec.Kind, spec.Duration = measurement.RR, measurement.Seconds(factor)
			out, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: target}, nil)
			testutil.OK(t, err)
			path, wakeup := out.Metrics["path_rtt_p50_seconds"], out.Metrics["wakeup_p50_seconds"]
			if path <= 0 || wakeup <= 0 || path > float64(out.Latency.Max) && path > 0.1 {
				return fmt.Sprintf("%+v: path %v, wake-up %v of round trips of %v to %v; facts %q", spec, path, wakeup, out.Latency.Min, out.Latency.Max, out.Facts)
			}
			return ""
		})
	}
}

// More than the far end can do is said, and does not hang.
func TestOverloadIsSaid(t *testing.T) {
	t.Parallel() // it waits for most of its time
	target := servertest.Serve(t, probe.ServerOptions{})
	p, addr := servertest.StartProxy(t, target, 1<<60, false)
	defer p.Close()
	// A warm-up of one request: what is answered after it counts, however slow all is.
	spec := measurement.Spec{Kind: measurement.RR, Duration: 0.2, MaxWarmup: 1e-6, RequestsPerSecond: 1e6, RequestBytes: 1000, ResponseBytes: 1000}
	out, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: addr}, nil)
	testutil.OK(t, err)
	if facts := strings.Join(out.Facts, "; "); !strings.Contains(facts, "overload") {
		t.Errorf("facts %q", facts)
	}
	// So much that none of the measured requests ever left is no result at all.
	spec.RequestsPerSecond, spec.MaxWarmup = 10e6, 0.1
	_, err = probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: addr}, nil)
	if e, ok := errors.AsType[*probe.Error](err); !ok || !strings.Contains(e.Error(), "overload") {
		t.Errorf("got %v", err)
	}
}

// A far end that vanishes, or falls silent, ends every mode with a reason.
func TestRRModesFaults(t *testing.T) {
	t.Parallel() // it waits for most of its time
	target := servertest.Serve(t, probe.ServerOptions{Token: servertest.Token, Spin: true})
	var wg sync.WaitGroup
	for _, spec := range []measurement.Spec{
		{Spin: true}, {InFlight: 8}, {RequestsPerSecond: 1000}, {InFlight: 4, RequestBytes: 100_000, ResponseBytes: 100_000},
	} {
		spec.Kind, spec.Duration, spec.MaxWarmup = measurement.RR, 0.3, 0.01
		for _, stall := range []bool{false, true} {
			// Rather more than the opening, and less than the test exchanges.
			opening := servertest.BytesOf(t, target, spec)
			wg.Go(func() {
				p, addr := servertest.StartProxy(t, target, opening+200, stall)
				defer p.Close()
				out, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: addr, Token: servertest.Token}, nil)
				if stall && err == nil && spec.RequestsPerSecond > 0 && out.Latency.Unanswered > 0 {
					return // what an open loop measured before counts, with all that was due later
				}
				if e, ok := errors.AsType[*probe.Error](err); !ok || e.Reason != probe.Vanished && e.Reason != probe.TimedOut {
					t.Errorf("%+v, stalled %v: %v", spec, stall, err)
				}
			})
		}
	}
	wg.Wait()
}

func TestRRModesCancelled(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{Spin: true})
	for _, spec := range []measurement.Spec{
		{Kind: measurement.RR, Spin: true},
		{Kind: measurement.RR, InFlight: 8},
		{Kind: measurement.RR, RequestsPerSecond: 100, Protocol: measurement.OverUDP},
		{Kind: measurement.CRR, Flows: 2},
		{Kind: measurement.Load, IdleDuration: 0.1, Flows: 1},
	} {
		servertest.CancelMidway(t, target, spec)
	}
}

// A test that is ended early divides no round trips, and gives no reason of a clock's for that.
func TestEndedEarlyDividesNothing(t *testing.T) {
	target := servertest.Serve(t, probe.ServerOptions{})
	enough, end := context.WithCancel(t.Context())
	defer end()
	out, err := probe.Run(servertest.Context(t), probe.Request{
		Spec: measurement.Spec{Kind: measurement.RR, Duration: 600, MaxWarmup: 1e-6}.Defaults(), Target: target, Hooks: &session.Hooks{Enough: enough},
	}, func(p measurement.Progress) {
		if p.RTT > 0 {
			end()
		}
	})
	if err != nil || out.Metrics["rtt_p50_seconds"] <= 0 {
		t.Fatalf("%v, %+v", err, out.Metrics)
	}
	for _, fact := range out.Facts {
		if strings.Contains(fact, "wake-up") {
			t.Error(fact)
		}
	}
}

// A client that waits for responses for longer than any other test may deliver results finds
// its server still there, and says why nothing came.
func TestLongTimeoutOverUDP(t *testing.T) {
	t.Parallel() // it waits for most of its time
	target := servertest.Serve(t, probe.ServerOptions{})
	path := servertest.Path{Lose: func(packet []byte) bool { return packet[datagram.KindOffset] == datagram.Request }}
	addr := path.Listen(t, target)
	spec := measurement.Spec{Kind: measurement.RR, Protocol: measurement.OverUDP, Duration: 1, MaxWarmup: 0.01, Timeout: 2.8}
	for name, change := range map[string]func(*measurement.Spec){
		"one at a time": func(*measurement.Spec) {},
		"open loop":     func(s *measurement.Spec) { s.RequestsPerSecond, s.Timeout = 200, 5.5 },
		"too many":      func(s *measurement.Spec) { s.RequestsPerSecond, s.Timeout = 20_000, 5.5 },
	} {
		asked := spec
		change(&asked)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := probe.Run(servertest.Context(t), probe.Request{Spec: asked, Target: addr}, nil)
			if e, ok := errors.AsType[*probe.Error](err); !ok || e.Reason != probe.TimedOut || !strings.Contains(e.Error(), "was answered") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// Answers that come after their timeout are no firewall's doing: what is said is that the
// timeout is too short, which is not the path's fault.
func TestAnswersAfterTheirTimeout(t *testing.T) {
	t.Parallel() // it waits for most of its time
	target := servertest.Serve(t, probe.ServerOptions{})
	path := servertest.Path{Delay: 400 * time.Millisecond} // more than a busy host keeps a thread waiting
	addr := path.Listen(t, target)
	spec := measurement.Spec{Kind: measurement.RR, Protocol: measurement.OverUDP, Duration: 1.5, MaxWarmup: 0.01, Timeout: 0.05}
	for name, change := range map[string]func(*measurement.Spec){
		"one at a time": func(*measurement.Spec) {},
		"several":       func(s *measurement.Spec) { s.InFlight = 4 },
		"open loop":     func(s *measurement.Spec) { s.RequestsPerSecond = 100 },
	} {
		asked := spec
		change(&asked)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := probe.Run(servertest.Context(t), probe.Request{Spec: asked, Target: addr}, nil)
			if e, ok := errors.AsType[*probe.Error](err); !ok || e.Reason != probe.Failed || !strings.Contains(e.Error(), "within the timeout of 50ms") || strings.Contains(e.Error(), "firewall") {
				t.Fatalf("got %v", err)
			}
			var requests, answers int
			text := err.Error()[strings.Index(err.Error(), "none of"):]
			if _, err := fmt.Sscanf(text, "none of %d requests was answered within the timeout of 50ms, after which %d answers", &requests, &answers); err != nil || answers > requests {
				t.Errorf("%d requests, %d answers, %v: %s", requests, answers, err, text)
			}
		})
	}
}

// What a path duplicates answers no request that was given up: nothing is said of a timeout
// that all answers kept.
func TestDuplicatesAreNotLate(t *testing.T) {
	t.Parallel() // it waits for most of its time
	target := servertest.Serve(t, probe.ServerOptions{})
	path := servertest.Path{Twice: true}
	addr := path.Listen(t, target)
	for name, spec := range map[string]measurement.Spec{
		"one at a time": {},
		"several":       {InFlight: 4},
		"open loop":     {RequestsPerSecond: 100},
	} {
		spec.Kind, spec.Protocol, spec.Duration, spec.MaxWarmup, spec.Timeout = measurement.RR, measurement.OverUDP, 0.2, 0.01, 10
		t.Run(name, func(t *testing.T) {
			out, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: addr}, nil)
			testutil.OK(t, err)
			if facts := strings.Join(out.Facts, "; "); strings.Contains(facts, "timeout") {
				t.Errorf("%d round trips: %s", out.Latency.Samples, facts)
			}
		})
	}
}

// A closed loop over UDP whose path dies while its connection stays whole lacks few requests, as
// each took the time of many: what says so is that nothing more is answered. Requests that were
// lost by chance are followed by others that are answered.
func TestPathThatDiesDuringAClosedLoop(t *testing.T) {
	t.Parallel() // it waits for most of its time
	target := servertest.Serve(t, probe.ServerOptions{})
	for name, c := range map[string]struct {
		inFlight, lost int
		dead           bool
	}{
		"one at a time": {1, 1 << 30, true},
		"several":       {4, 1 << 30, true},
		"loss":          {1, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const whole = 20 // requests
			seen := 0
			path := servertest.Path{Lose: func(packet []byte) bool {
				if packet[datagram.KindOffset] != datagram.Request {
					return false
				}
				seen++
				return seen > whole && seen <= whole+c.lost
			}}
			addr := path.Listen(t, target)
			spec := measurement.Spec{Kind: measurement.RR, Protocol: measurement.OverUDP, Duration: 1, MaxWarmup: 1e-6, InFlight: c.inFlight, Timeout: 0.4}
			out, err := probe.Run(servertest.Context(t), probe.Request{Spec: spec, Target: addr}, nil)
			if !c.dead {
				testutil.OK(t, err)
				return
			}
			if e, ok := errors.AsType[*probe.Error](err); !ok || e.Reason != probe.TimedOut || !strings.Contains(e.Error(), "no request was answered in the last") {
				t.Errorf("got %v and a loss of %v", err, out.Metrics["loss_fraction"])
			}
		})
	}
}
