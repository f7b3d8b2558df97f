package watch

import (
	"math"
	"slices"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

func TestPointsOfTrials(t *testing.T) {
	passed := measurement.Gate{Passed: true}
	trial := func(test string, metrics measurement.Metrics, gate measurement.Gate) measurement.Trial {
		return measurement.Trial{Test: test, Gate: gate, Outcome: measurement.Outcome{Metrics: metrics, Warmup: 1}}
	}
	var r Round
	udp := measurement.Spec{Kind: measurement.UDP, Duration: 2, MaxWarmup: 1, PacketBytes: 200, RateBitsPerSecond: 4e6}
	r.AddTrial(trial("datagrams", measurement.Metrics{"loss_fraction": 0, "received_packets_per_second": 2500, "sent_bits_per_second": 4e6}, passed), udp)
	tcp := measurement.Spec{Kind: measurement.TCP, Duration: 2, MaxWarmup: 1}
	r.AddTrial(trial("send", measurement.Metrics{"goodput_bits_per_second": 8e8, "tcp_efficiency_fraction": 1}, passed), tcp)
	r.AddTrial(trial("receive", measurement.Metrics{"goodput_bits_per_second": 4e8}, measurement.Gate{Findings: []measurement.Finding{{Code: measurement.FoundText}}}), tcp)
	r.AddTrial(trial("odd", measurement.Metrics{"goodput_bits_per_second": math.NaN()}, passed), tcp)
	route := trial("route", nil, passed)
	route.Hops = []measurement.TraceHop{{Address: "10.0.0.1"}, {}, {Address: "10.0.9.1", Varies: true}, {Address: "10.0.2.1", Reached: true}}
	r.AddTrial(route, measurement.Spec{Kind: measurement.Trace})
	want := []Point{
		{Series: Series{Test: "datagrams", Metric: "loss_fraction"}, Least: 0.001},
		{Series: Series{Test: "send", Metric: "goodput_bits_per_second"}, Value: 8e8},
	}
	if !slices.Equal(r.Points, want) {
		t.Errorf("points %+v", r.Points)
	}
	if !slices.Equal(r.Route, []string{"10.0.0.1", "", "", "10.0.2.1"}) {
		t.Errorf("route %q", r.Route)
	}
	if len(r.Failed) != 1 || r.Failed[0].Test != "receive" || len(r.Failed[0].Findings) != 1 {
		t.Errorf("failed %+v", r.Failed)
	}
	// What does not count was moved all the same.
	if p := r.Payload; p["send"] != 300e6 || p["receive"] != 150e6 || p["datagrams"] != 1.5e6 {
		t.Errorf("payload %v", p)
	}
}

func TestPayloadOfKinds(t *testing.T) {
	for _, c := range []struct {
		spec    measurement.Spec
		metrics measurement.Metrics
		warmup  measurement.Seconds
		want    int64
	}{
		{measurement.Spec{Kind: measurement.FTP, FileBytes: 5e6}, measurement.Metrics{"goodput_bits_per_second": 2e7, "transfer_seconds": 2, "file_bytes": 5e6}, 0, 5e6},
		{measurement.Spec{Kind: measurement.PPS, Duration: 2}, measurement.Metrics{"packets_per_second": 1000, "sent_bits_per_second": 8e6}, 0.5, 2.5e6},
		{measurement.Spec{Kind: measurement.RR, Duration: 2, RequestBytes: 64, ResponseBytes: 1000}, measurement.Metrics{"transactions_per_second": 500}, 0, 1.064e6},
		{measurement.Spec{Kind: measurement.CRR, Duration: 2, RequestBytes: 1, ResponseBytes: 1}, measurement.Metrics{"connections_per_second": 500}, 0, 2000},
		{measurement.Spec{Kind: measurement.Load, Duration: 2, IdleDuration: 1}, measurement.Metrics{"load_bits_per_second": 8e8}, 1, 300e6},
		{measurement.Spec{Kind: measurement.Ping, Count: 20, PayloadBytes: 56}, measurement.Metrics{"rtt_p50_seconds": 1e-3}, 0, 2240},
		{measurement.Spec{Kind: measurement.TCP, Duration: 2}, nil, 0, 0},
	} {
		if got := payload(measurement.Outcome{Metrics: c.metrics, Warmup: c.warmup}, c.spec); got != c.want {
			t.Errorf("%s: %d bytes, want %d", c.spec.Kind, got, c.want)
		}
	}
}

func TestBoundedTests(t *testing.T) {
	names, bytes := Bounded([]result.TestInfo{
		{Name: "route", Spec: measurement.Spec{Kind: measurement.Trace}},
		{Name: "latency", Spec: measurement.Spec{Kind: measurement.RR, RequestsPerSecond: 500, RequestBytes: 64, ResponseBytes: 64, Duration: 2}},
		{Name: "closed", Spec: measurement.Spec{Kind: measurement.RR, Duration: 2}},
		{Name: "datagrams", Spec: measurement.Spec{Kind: measurement.UDP, RateBitsPerSecond: 8e6, Duration: 1}},
		{Name: "send", Spec: measurement.Spec{Kind: measurement.TCP, Duration: 2}},
		{Name: "load", Spec: measurement.Spec{Kind: measurement.Load, RequestsPerSecond: 500, RequestBytes: 64, ResponseBytes: 64, Duration: 2}},
		{Name: "ping", Spec: measurement.Spec{Kind: measurement.Ping, Count: 20, PayloadBytes: 50}},
	})
	if !slices.Equal(names, []string{"route", "latency", "datagrams", "ping"}) || bytes != 128e3+1e6+2e3 {
		t.Errorf("%v, %v bytes", names, bytes)
	}
}

func TestPointsOfEffects(t *testing.T) {
	goodput := result.Effect{Path: "fw", Baseline: "direct", Test: "flows", Metric: "goodput_bits_per_second", N: 10, ReferenceMedian: 1e9, Ratio: 0.8, Primary: true}
	delay := result.Effect{Path: "fw", Baseline: "direct", Test: "latency", Metric: "rtt_p50_seconds", N: 10, ReferenceMedian: 1e-3, Ratio: 1.1, Difference: -2e-6, Primary: true}
	other, broken, beside := goodput, delay, goodput
	other.Path, other.Ratio = "nat", 0.9 // the same baseline
	broken.Path, broken.Broken = "gone", 10
	beside.Metric, beside.Primary = "cpu_seconds_per_byte", false
	var r Round
	r.AddRun("run", &result.Result{Costs: []result.Effect{goodput, delay, other, broken, beside}})
	want := []Point{
		{Series: Series{Path: "direct", Test: "flows", Metric: "goodput_bits_per_second"}, Value: 1e9},
		{Series: Series{Path: "fw", Baseline: "direct", Test: "flows", Metric: "goodput_bits_per_second"}, Value: 0.8},
		{Series: Series{Path: "direct", Test: "latency", Metric: "rtt_p50_seconds"}, Value: 1e-3},
		{Series: Series{Path: "fw", Baseline: "direct", Test: "latency", Metric: "rtt_p50_seconds"}, Value: -2e-6},
		{Series: Series{Path: "nat", Baseline: "direct", Test: "flows", Metric: "goodput_bits_per_second"}, Value: 0.9},
	}
	if !slices.Equal(r.Points, want) {
		t.Errorf("%+v", r.Points)
	}
}

// A test of a path none of whose trials counts has failed, and for what it did; what it moved
// is moved.
func TestTestsOfARunThatFail(t *testing.T) {
	busy := measurement.Gate{Findings: []measurement.Finding{{Name: "cpu"}}}
	trial := func(path string, gate measurement.Gate) measurement.Trial {
		return measurement.Trial{Path: path, Test: "flows", Gate: gate, Outcome: measurement.Outcome{Metrics: map[string]float64{"goodput_bits_per_second": 8e6}}}
	}
	run := &result.Result{
		Tests:  []result.TestInfo{{Name: "flows", Spec: measurement.Spec{Kind: measurement.TCP, Duration: 1}}},
		Trials: []measurement.Trial{trial("direct", busy), trial("fw", busy), trial("direct", measurement.Gate{Passed: true}), trial("fw", busy)},
	}
	var r Round
	r.AddRun("run", run)
	if len(r.Failed) != 1 || r.Failed[0].Path != "fw" || r.Failed[0].Test != "flows" || r.Failed[0].Findings[0].Name != "cpu" {
		t.Errorf("%+v", r.Failed)
	}
	if r.Payload["run"] != 4e6 {
		t.Errorf("payload %v", r.Payload)
	}
}

// An effect without bound has a number that nobody measured, as has a baseline all of whose
// trials broke: neither is a point.
func TestUnboundedEffectsAreNoPoints(t *testing.T) {
	broke := result.Effect{Path: "fw", Baseline: "direct", Test: "latency", Metric: "rtt_p50_seconds", N: 10, Broken: 5, ReferenceMedian: 1e-3, Median: 3e-3, EstimateUnbounded: true, Primary: true}
	lost := result.Effect{Path: "fw", Baseline: "direct", Test: "udp", Metric: "loss_fraction", N: 10, ReferenceBroken: 10, Median: 0.01, EstimateUnbounded: true, Primary: true}
	var r Round
	r.AddRun("run", &result.Result{Costs: []result.Effect{broke, lost}})
	if want := []Point{{Series: Series{Path: "direct", Test: "latency", Metric: "rtt_p50_seconds"}, Value: 1e-3}}; !slices.Equal(r.Points, want) {
		t.Errorf("%+v", r.Points)
	}
}

// Nor has an effect a point where both sides lost in all blocks what a median is of, and no
// time is 0.
func TestEffectsOfNothingAreNoPoints(t *testing.T) {
	run := &result.Result{Costs: []result.Effect{{Path: "fw", Baseline: "direct", Test: "latency", Metric: "rtt_p50_seconds", N: 10, WithoutValue: 10, Primary: true}}}
	var r Round
	for block := range 10 {
		for _, path := range []string{"direct", "fw"} {
			run.Trials = append(run.Trials, measurement.Trial{Block: block + 1, Path: path, Test: "latency", Gate: measurement.Gate{Passed: true}, Outcome: measurement.Outcome{Metrics: measurement.Metrics{"loss_fraction": 0.7}}})
		}
	}
	if r.AddRun("run", run); len(r.Points) != 0 {
		t.Errorf("of nothing: %+v", r.Points)
	}
	for i := range run.Trials {
		if run.Trials[i].Block > 2 {
			run.Trials[i].Metrics["rtt_p50_seconds"] = 1e-3
		}
	}
	run.Costs[0].WithoutValue, run.Costs[0].ReferenceMedian, run.Costs[0].Difference = 2, 1e-3, 2e-6
	want := []Point{
		{Series: Series{Path: "direct", Test: "latency", Metric: "rtt_p50_seconds"}, Value: 1e-3},
		{Series: Series{Path: "fw", Baseline: "direct", Test: "latency", Metric: "rtt_p50_seconds"}, Value: 2e-6},
	}
	var most Round
	if most.AddRun("run", run); !slices.Equal(most.Points, want) {
		t.Errorf("of most blocks: %+v", most.Points)
	}
}

// A test that counts and has no point is known to have worked, once.
func TestTestsThatWorkWithoutAPoint(t *testing.T) {
	passed := measurement.Gate{Passed: true}
	trace, tcp := measurement.Spec{Kind: measurement.Trace}, measurement.Spec{Kind: measurement.TCP, Duration: 1}
	var host Round
	host.AddTrial(measurement.Trial{Test: "route", Gate: passed}, trace)
	host.AddTrial(measurement.Trial{Test: "bulk", Gate: passed, Outcome: measurement.Outcome{Metrics: measurement.Metrics{"goodput_bits_per_second": 1e9}}}, tcp)
	host.AddTrial(measurement.Trial{Test: "other", Gate: measurement.Gate{}}, trace)
	if want := []TestOf{{Test: "route"}}; !slices.Equal(host.Worked, want) {
		t.Errorf("of a host: %+v", host.Worked)
	}
	var run Round
	run.AddRun("run", &result.Result{
		Tests:  []result.TestInfo{{Name: "route", Spec: trace}, {Name: "flows", Spec: tcp}},
		Trials: []measurement.Trial{{Path: "fw", Test: "route", Gate: passed}, {Path: "fw", Test: "route", Gate: passed}, {Path: "fw", Test: "flows", Gate: passed}},
		Costs:  []result.Effect{{Path: "fw", Baseline: "direct", Test: "flows", Metric: "goodput_bits_per_second", N: 10, ReferenceMedian: 1e9, Ratio: 0.8, Primary: true}},
	})
	if want := []TestOf{{Path: "fw", Test: "route"}}; !slices.Equal(run.Worked, want) {
		t.Errorf("of an experiment: %+v", run.Worked)
	}
}
