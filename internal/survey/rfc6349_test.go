package survey

import (
	"math"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// The worked examples of RFC 6349; the section is each case's name.
func TestWorkedExamplesOfRFC6349(t *testing.T) {
	const t3, ppp = 44.21e6, 4 + 2 + 2 // section 4.1.1: PPP, flags and CRC16 on a T3
	for _, c := range []struct {
		name      string
		got, want float64
		within    float64 // the RFC prints rounded figures
	}{
		{"4.1.1: T3", maximumGoodput(t3, 1500, 1460, ppp), 42.8e6, 0.05e6},
		{"4.1.1: T3, its frames", maximumGoodput(t3, 1500, 1460, ppp) / (1460 * 8), 3664, 1},
		{"4.1.1: 100 Mbit/s Ethernet", maximumGoodput(100e6, 1500, 1460, ethernetOverheadBytes), 94.9e6, 0.05e6},
		{"4.1.1: 100 Mbit/s Ethernet, its frames", maximumGoodput(100e6, 1500, 1460, ethernetOverheadBytes) / (1460 * 8), 8127, 1},
		{"4.1.1: Gigabit Ethernet, its frames", maximumGoodput(1e9, 1500, 1460, ethernetOverheadBytes) / (1460 * 8), 81274, 1},
		{"4.1.1: 10 Gigabit Ethernet, its frames", maximumGoodput(10e9, 1500, 1460, ethernetOverheadBytes) / (1460 * 8), 812743, 1},
		{"4.1.2: 5 × 100 MB at 500 Mbit/s", float64(transferTime(500e6, 500e6)), 8, 1e-9},
		{"4.1.2: ratio", transferTimeRatio(12, transferTime(500e6, 500e6)), 1.5, 1e-9},
		{"4.2.1", 100 * tcpEfficiency(102_000, 2_000), 98.03, 0.01},
		{"4.3.1", 100 * relativeDelay(0.032, 0.025), 28, 1e-9},
	} {
		if math.Abs(c.got-c.want) > c.within {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
}

func tcpStep(name string, direction measurement.Direction, goodput float64) Step {
	s := Step{Test: result.TestInfo{Name: name, Spec: measurement.Spec{Kind: measurement.TCP, Direction: direction}}}
	s.Trial.Gate.Passed = true
	s.Trial.Metrics = measurement.Metrics{goodputName: goodput}
	return s
}

func TestRatingsAgainstTheLargestGoodput(t *testing.T) {
	slow, fast, back := tcpStep("one", measurement.Send, 400e6), tcpStep("four", measurement.Send, 900e6), tcpStep("back", measurement.Receive, 100e6)
	lost := tcpStep("lost", measurement.Send, 5e9)
	lost.Trial.Gate.Passed = false
	latency := Step{Test: result.TestInfo{Name: "latency", Spec: measurement.Spec{Kind: measurement.RR}}}
	latency.Trial.Gate.Passed = true
	latency.Trial.Metrics = measurement.Metrics{"rtt_p50_seconds": 0.025}
	slow.Trial.Metrics["tcp_rtt_mean_seconds"] = 0.032
	slow.Trial.Metrics["buffer_delay_fraction"] = 50 // over the smallest of the transfer: not that of the path
	slow.Trial.Flows = []measurement.Flow{{SentBytes: 100_000, Final: &measurement.TCPInfo{MSS: 1000, Retransmits: 2}}}
	fast.Trial.Metrics["tcp_efficiency_fraction"], fast.Trial.Metrics["buffer_delay_fraction"] = 0.5, 0.25

	got := Ratings(0, []Step{latency, slow, fast, lost, back})
	if len(got) != 3 {
		t.Fatalf("%d tests are rated, want the 3 that count: %+v", len(got), got)
	}
	one, four, alone := got[0], got[1], got[2]
	if one.Test != "one" || one.Ideal != 900e6 || one.IdealSource != result.IdealMeasured || !near(one.TransferTimeRatio, 2.25) {
		t.Errorf("one flow: %+v", one)
	}
	// Sections 4.2.1 and 4.3.1 again, from what the kernel and the latency test said.
	if !near(one.TCPEfficiency, 100.0/102) || !near(one.BufferDelay, 0.28) {
		t.Errorf("one flow: efficiency %v, buffer delay %v", *one.TCPEfficiency, *one.BufferDelay)
	}
	if !near(four.TransferTimeRatio, 1) || !near(four.TCPEfficiency, 0.5) || !near(four.BufferDelay, 0.25) {
		t.Errorf("four flows, whose metrics the test brought itself: %+v", four)
	}
	if alone.TransferTimeRatio != nil || alone.BufferDelay != nil {
		t.Errorf("a test alone in its direction is rated against itself: %+v", alone)
	}
}

// A test that explains another is not rated, and no other is rated against it: the largest of
// those that are is 1 by definition, and one that is alone has no ratio.
func TestRatingsDoNotMindWhatExplains(t *testing.T) {
	one, four := tcpStep("flows-1", measurement.Send, 400e6), tcpStep("flows-4", measurement.Send, 410e6)
	slower, twice := tcpStep("flows-1-slower", measurement.Send, 360e6), tcpStep("flows-1-twice-flows", measurement.Send, 430e6)
	slower.Test.Explains, twice.Test.Explains = "flows-1", "flows-1"
	if got := Ratings(0, []Step{one, slower}); len(got) != 1 || got[0].TransferTimeRatio != nil {
		t.Errorf("one flow alone: %+v", got)
	}
	if got := Ratings(0, []Step{one, four, slower, twice}); len(got) != 2 || !near(got[1].TransferTimeRatio, 1) {
		t.Errorf("the largest: %+v", got)
	}
}

func TestRatingsAgainstAGivenRate(t *testing.T) {
	plain, known := tcpStep("plain", measurement.Send, 40e6), tcpStep("known", measurement.Receive, 40e6)
	known.Trial.Flows = []measurement.Flow{{Final: &measurement.TCPInfo{MSS: 1348, PathMTU: 1400}}}
	both := tcpStep("both", measurement.Both, 40e6)
	for i, want := range []float64{
		100e6 * 1460 / 1538,
		100e6 * 1348 / 1438,
	} {
		got := Ratings(100e6, []Step{plain, known, both})
		if len(got) != 2 {
			t.Fatalf("%d ratings, want 2: a test of both directions has no one ideal", len(got))
		}
		if r := got[i]; math.Abs(r.Ideal-want) > 1 || r.IdealSource != result.IdealGiven || !near(r.TransferTimeRatio, want/40e6) {
			t.Errorf("%s: %+v, want an ideal of %v", r.Test, r, want)
		}
	}
	mtu := Step{Test: result.TestInfo{Name: "mtu", Spec: measurement.Spec{Kind: measurement.MTU}}}
	mtu.Trial.Gate.Passed = true
	mtu.Trial.Metrics = measurement.Metrics{"path_mtu_bytes": 9000}
	if got, want := Ratings(100e6, []Step{mtu, plain})[0].Ideal, 100e6*8960.0/9038; math.Abs(got-want) > 1 {
		t.Errorf("over a path MTU of 9000: ideal %v, want %v", got, want)
	}
}

// Where segments are bounded, by this end since the reverse direction carries less, or by the
// far end, the packets that carry them are smaller than the path MTU: a link that they fill is
// ideal.
func TestRatingsOfBoundedSegments(t *testing.T) {
	for _, reverse := range []int{1400, 1500} {
		for ipHeader, mss := range map[int]int64{20: 1348, 40: 1328} {
			done := take(t, Options{}, perFlow(1e9, 3e9).withMTU(1500, reverse, ipHeader, measurement.MTUSearch))
			for i := range done {
				if done[i].Test.Spec.Kind == measurement.TCP {
					done[i].Trial.Flows = []measurement.Flow{{Final: &measurement.TCPInfo{MSS: mss, PathMTU: 1500}}}
				}
			}
			ratings := Ratings(100e6, done)
			if len(ratings) == 0 {
				t.Fatal("nothing is rated")
			}
			for _, r := range ratings {
				if want := 100e6 * float64(mss) / 1438; math.Abs(r.Ideal-want) > 1 {
					t.Errorf("%s, a header of %d bytes, %d in reverse: an ideal of %v, want %v", r.Test, ipHeader, reverse, r.Ideal, want)
				}
			}
		}
	}
	// Where the version of IP is not known, whole packets are.
	for _, mss := range []int64{1448, 1428} {
		whole := tcpStep("whole", measurement.Send, 40e6)
		whole.Trial.Flows = []measurement.Flow{{Final: &measurement.TCPInfo{MSS: mss, PathMTU: 1500}}}
		if got, want := Ratings(100e6, []Step{whole})[0].Ideal, 100e6*float64(mss)/1538; math.Abs(got-want) > 1 {
			t.Errorf("segments of %d bytes: an ideal of %v, want %v", mss, got, want)
		}
	}
}

// Whatever comes back, no rating is a number that JSON cannot carry.
func TestRatingsAreFinite(t *testing.T) {
	for _, v := range []float64{0, -1, math.NaN(), math.Inf(1), math.SmallestNonzeroFloat64, math.MaxFloat64} {
		s := tcpStep("x", measurement.Send, v)
		s.Trial.Metrics["tcp_rtt_mean_seconds"], s.Trial.Metrics["tcp_efficiency_fraction"] = v, v
		s.Trial.Metrics["path_mtu_bytes"] = v
		s.Trial.Flows = []measurement.Flow{{}}
		for _, rate := range []float64{0, 1, 1e12} {
			for _, r := range Ratings(rate, []Step{s, tcpStep("y", measurement.Send, 1)}) {
				for _, p := range []*float64{r.TransferTimeRatio, r.TCPEfficiency, r.BufferDelay} {
					if p != nil && (math.IsNaN(*p) || math.IsInf(*p, 0)) {
						t.Errorf("metrics of %v, rate %v: %v", v, rate, *p)
					}
				}
			}
		}
	}
}

func near(got *float64, want float64) bool { return got != nil && math.Abs(*got-want) < 1e-9 }

// The idle round trip of two ends on one CPU is not the path's.
func TestIdleRoundTrip(t *testing.T) {
	step := func(kind measurement.Kind, placement string, rtt float64) Step {
		s := Step{Test: result.TestInfo{Name: string(kind), Spec: measurement.Spec{Kind: kind}}}
		s.Trial.Gate.Passed = true
		s.Trial.Metrics = measurement.Metrics{"rtt_p50_seconds": rtt}
		s.Trial.Effective = map[string]string{"placement": placement}
		return s
	}
	shared, apart, ping := step(measurement.RR, measurement.PlacementSame, 11e-6), step(measurement.RR, measurement.PlacementSeparate, 132e-6), step(measurement.Ping, "", 50e-6)
	for _, c := range []struct {
		done []Step
		want measurement.Seconds
	}{{nil, 0}, {[]Step{shared}, 0}, {[]Step{shared, ping}, 50e-6}, {[]Step{apart, ping}, 132e-6}} {
		if got := idleRTT(c.done); got != c.want {
			t.Errorf("of %d tests: %v s, want %v s", len(c.done), got, c.want)
		}
	}
}
