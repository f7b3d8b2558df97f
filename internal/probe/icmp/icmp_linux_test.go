package icmp

import (
	"context"
	"errors"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/icmp/chaintest"
	"github.com/hopbench/hopbench/internal/testutil"
)

func families(t *testing.T, f func(t *testing.T, v6 bool)) {
	for name, v6 := range map[string]bool{"IPv4": false, "IPv6": true} {
		t.Run(name, func(t *testing.T) { f(t, v6) })
	}
}

// from runs a ping at the source of the chain.
func from(t *testing.T, c *chaintest.Chain, spec measurement.Spec, target netip.Addr) measurement.Outcome {
	t.Helper()
	var o measurement.Outcome
	var err error
	c.Source().Do(t, func() { o, err = Run(context.Background(), Request{Spec: spec, Target: target}, nil) })
	testutil.OK(t, err)
	return o
}

var short = measurement.Spec{Count: 100, Interval: 0.002, Timeout: 1}

func TestAgainstPing(t *testing.T) {
	c := chaintest.New(t, 2)
	families(t, func(t *testing.T, v6 bool) {
		target := c.Target(v6)
		o := from(t, c, short, target)
		out, err := c.Source().Output(t, "ping", "-n", "-q", "-c", "100", "-i", "0.002", target.String())
		if err != nil {
			t.Fatalf("ping: %v\n%s", err, out)
		}
		m := regexp.MustCompile(`= ([0-9.]+)/([0-9.]+)/`).FindStringSubmatch(out)
		if m == nil {
			t.Fatalf("ping printed %q", out)
		}
		theirs, err := strconv.ParseFloat(m[1], 64)
		testutil.OK(t, err)
		ours := o.Metrics["rtt_min_seconds"] * 1e3
		t.Logf("smallest round trip: ours %.3f ms, ping's %.3f ms; mean ours %.3f ms, ping's %s ms",
			ours, theirs, o.Metrics["rtt_mean_seconds"]*1e3, m[2])
		// Same path, same order of magnitude, with room for a busy machine: a
		// wrong unit or clock shows.
		if ours <= 0 || ours > 10*theirs+1 || ours < theirs/10 {
			t.Errorf("smallest round trip %v ms, ping says %v ms", ours, theirs)
		}
		if o.Metrics["loss_fraction"] != 0 {
			t.Errorf("loss %v on a path without loss; facts %q", o.Metrics["loss_fraction"], o.Facts)
		}
		if o.Source.ReceivedTTL != 62 {
			t.Errorf("received TTL %d after two routers, want 62", o.Source.ReceivedTTL)
		}
		if o.Effective["ping_socket"] != "raw" || o.Effective["ping_timestamps"] != "kernel" {
			t.Errorf("effective %v", o.Effective)
		}
		for _, metric := range measurement.MetricsOf(measurement.Ping) {
			if _, ok := o.Metrics[metric.Name]; !ok {
				t.Errorf("%s is missing", metric.Name)
			}
		}
	})
}

func TestDatagramSocket(t *testing.T) {
	c := chaintest.New(t, 1)
	c.Source().Sysctl(t, "net.ipv4.ping_group_range", "0 0")
	families(t, func(t *testing.T, v6 bool) {
		var o measurement.Outcome
		var err error
		c.Source().DoUnprivileged(t, func() {
			o, err = Run(context.Background(), Request{Spec: short, Target: c.Target(v6)}, nil)
		})
		testutil.OK(t, err)
		if o.Effective["ping_socket"] != "datagram" || o.Effective["ping_timestamps"] != "kernel" {
			t.Errorf("effective %v", o.Effective)
		}
		if o.Metrics["loss_fraction"] != 0 || o.Source.ReceivedTTL != 63 {
			t.Errorf("loss %v, received TTL %d; facts %q", o.Metrics["loss_fraction"], o.Source.ReceivedTTL, o.Facts)
		}
	})
	t.Run("errors", func(t *testing.T) {
		nowhere := netip.MustParseAddr("203.0.113.1")
		c.Router(1).AddRoute(t, netip.PrefixFrom(nowhere, 32), netip.Addr{}, unix.RTN_UNREACHABLE)
		var o measurement.Outcome
		var err error
		c.Source().DoUnprivileged(t, func() {
			o, err = Run(context.Background(), Request{Spec: short, Target: nowhere}, nil)
		})
		if err != nil || !hasFact(o, " ICMP errors from "+c.Hop(1, false).String(), "host unreachable") {
			t.Errorf("error %v, facts %q", err, o.Facts)
		}
	})
}

func TestNotAllowed(t *testing.T) {
	c := chaintest.New(t, 0)
	var err error
	c.Source().DoUnprivileged(t, func() {
		_, err = Run(context.Background(), Request{Target: c.Target(false)}, nil)
	})
	if !errors.Is(err, unix.EPERM) {
		t.Fatalf("error %v, want EPERM", err)
	}
	for _, part := range []string{"ping_group_range", "rr test", c.Target(false).String()} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

// A path that refuses or swallows everything loses exactly everything, and an
// error is told by its sender. Routers limit their rate (Linux: a burst of five
// per address, net/ipv4/route.c ip_error), so the errors are not counted here.
func TestPlantedLoss(t *testing.T) {
	c := chaintest.New(t, 2)
	families(t, func(t *testing.T, v6 bool) {
		refused, swallowed, bits := netip.MustParseAddr("203.0.113.1"), netip.MustParseAddr("203.0.113.2"), 32
		says := "host unreachable"
		if v6 {
			refused, swallowed, bits = netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2"), 128
			says = "no route"
		}
		c.Router(2).AddRoute(t, netip.PrefixFrom(refused, bits), netip.Addr{}, unix.RTN_UNREACHABLE)
		c.Router(2).AddRoute(t, netip.PrefixFrom(swallowed, bits), netip.Addr{}, unix.RTN_BLACKHOLE)
		spec := measurement.Spec{Count: 30, Interval: 0.001, Timeout: 0.05}

		o := from(t, c, spec, refused)
		if o.Metrics["loss_fraction"] != 1 || !hasFact(o, " ICMP errors from "+c.Hop(2, v6).String(), says) {
			t.Errorf("refused: %v, facts %q", o.Metrics, o.Facts)
		}
		o = from(t, c, spec, swallowed)
		if o.Metrics["loss_fraction"] != 1 || len(o.Metrics) != 1 {
			t.Errorf("swallowed: %v, facts %q", o.Metrics, o.Facts)
		}
	})
}

func TestNoRoute(t *testing.T) {
	c := chaintest.New(t, 1)
	nowhere := netip.MustParseAddr("203.0.113.9")
	c.Source().AddRoute(t, netip.PrefixFrom(nowhere, 32), netip.Addr{}, unix.RTN_UNREACHABLE)
	var err error
	c.Source().Do(t, func() { _, err = Run(context.Background(), Request{Target: nowhere}, nil) })
	if !errors.Is(err, unix.EHOSTUNREACH) || !strings.Contains(err.Error(), nowhere.String()) {
		t.Errorf("error %v, want EHOSTUNREACH of %v", err, nowhere)
	}
}

func TestNarrowLinkIsAFact(t *testing.T) {
	c := chaintest.New(t, 1)
	c.Router(1).MTU(t, "right", 1300)
	c.Destination().MTU(t, "left", 1300)
	families(t, func(t *testing.T, v6 bool) {
		spec := measurement.Spec{Count: 10, Interval: 0.02, PayloadBytes: 1400, Timeout: 0.5}
		o := from(t, c, spec, c.Target(v6))
		if !hasFact(o, c.Hop(1, v6).String(), "(path MTU 1300 bytes)") {
			t.Errorf("facts %q", o.Facts)
		}
		// The kernel learns and fragments what comes after.
		if loss := o.Metrics["loss_fraction"]; loss <= 0 || loss >= 1 {
			t.Errorf("loss %v", loss)
		}
	})
}

func TestCancelKeepsWhatWasMeasured(t *testing.T) {
	c := chaintest.New(t, 0)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var o measurement.Outcome
	var err error
	c.Source().Do(t, func() {
		o, err = Run(ctx, Request{Spec: measurement.Spec{Count: 100000, Interval: 0.005}, Target: c.Target(false)},
			func(p measurement.Progress) {
				if p.RTT > 0 {
					cancel()
				}
			})
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	if o.Metrics["rtt_min_seconds"] <= 0 || o.Metrics["loss_fraction"] >= 0.5 {
		t.Errorf("metrics %v", o.Metrics)
	}
}

func TestSourceAddress(t *testing.T) {
	c := chaintest.New(t, 0)
	target := c.Target(false)
	var errGood, errBad error
	var o measurement.Outcome
	c.Source().Do(t, func() {
		spec := measurement.Spec{Count: 3, Interval: 0.001}
		o, errGood = Run(context.Background(), Request{Spec: spec, Target: target, Source: target.Prev()}, nil)
		_, errBad = Run(context.Background(), Request{Spec: spec, Target: target, Source: netip.MustParseAddr("192.0.2.77")}, nil)
	})
	if errGood != nil || o.Metrics["loss_fraction"] != 0 {
		t.Errorf("own source address: %v, %v", errGood, o.Metrics)
	}
	if errBad == nil || !strings.Contains(errBad.Error(), "192.0.2.77") {
		t.Errorf("foreign source address: %v", errBad)
	}
}

// Two pings of the same target at once, in one namespace, do not take each
// other's answers.
func TestTwoAtOnce(t *testing.T) {
	c := chaintest.New(t, 0)
	type result struct {
		o   measurement.Outcome
		err error
	}
	results := make(chan result)
	for i := range 2 {
		go func() {
			var r result
			c.Source().Do(t, func() {
				spec := measurement.Spec{Count: 200, Interval: 0.001, PayloadBytes: 56 + i, Timeout: 1}
				r.o, r.err = Run(context.Background(), Request{Spec: spec, Target: c.Target(false)}, nil)
			})
			results <- r
		}()
	}
	for range 2 {
		r := <-results
		if r.err != nil || r.o.Metrics["loss_fraction"] != 0 || hasFact(r.o, "duplicates") {
			t.Errorf("%v, %v, %q", r.err, r.o.Metrics, r.o.Facts)
		}
	}
}
