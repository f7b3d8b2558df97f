package figure

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/report/reporttest"
	"github.com/hopbench/hopbench/internal/result"
)

func TestFigureOfHops(t *testing.T) {
	m := report.New(reporttest.Watched(t))
	figures := HopFigures(m)
	if len(figures) != 4 { // 2 tests on 2 paths
		t.Fatalf("%d figures", len(figures))
	}
	trial := m.WatchedTrials(m.Paths[2], m.Tests[2])[0]
	lines, more := hopLines(trial, report.Framing{Headers: 66})
	if len(lines) != 2 || more != 0 || len(lines[0].points) < 10 {
		t.Fatalf("%d lines of %d points, %d more", len(lines), len(lines[0].points), more)
	}
	for i, p := range lines[0].points {
		if q := lines[1].points[i]; q.x != p.x || math.Abs(q.y-1.08*p.y) > 1e-6*p.y {
			t.Errorf("at %v s the hop has %v, the receivers %v", p.x, q, p)
		}
	}
	for range 7 {
		trial.HopSeries = append(trial.HopSeries, trial.HopSeries[0])
		trial.HopSeries[len(trial.HopSeries)-1].Name += strings.Repeat("x", len(trial.HopSeries))
	}
	if lines, more := hopLines(trial, report.Framing{Headers: 66}); len(lines) != 1+maxHopLines || more != 3 {
		t.Errorf("8 hops: %d lines, %d more", len(lines), more)
	}
}

// The names stand where the lines end, also where a long trial has more samples than its
// line has points.
func TestNamesOfHopsInALongTrial(t *testing.T) {
	m := report.New(reporttest.Watched(t))
	trial := m.WatchedTrials(m.Paths[2], m.Tests[2])[0]
	trial.Throughput = &measurement.Bins{Width: 0.1, Bytes: slices.Repeat([]float64{12.5e6}, 1800)}
	trial.HopSeries = []measurement.HopSeries{reporttest.Counting("appliance", 0, trial.Throughput, 1)}
	lines, _ := hopLines(trial, report.Framing{Headers: 66})
	p := newPanel("x", "", "", nil, panelHeight)
	p.x, p.y = axis{high: 180, from: p.left, to: p.right}, axis{high: 2e9, from: p.bottom, to: p.top}
	for _, l := range p.hopLines(lines) {
		if want := p.y.at(1e9); math.Abs(l.y-want) > 1 {
			t.Errorf("%s of 1 Gbit/s is named at %v, want %v", l.label, l.y, want)
		}
	}
}

// Of many trials a median and a band are drawn, which hold what most of them were; each has its
// line under the pointer. Of few, each has its line.
func TestBandOfTrials(t *testing.T) {
	for blocks, wantBand := range map[int]bool{fewestInBand - 1: false, 10: true} {
		m := report.New(reporttest.Run(t, blocks))
		drawn := string(ThroughputFigures(m)[0].SVG)
		counted := 0
		for _, trial := range m.Run.Trials {
			if trial.Test == m.Tests[0].Name && trial.Gate.Passed && trial.Throughput != nil {
				counted++
			}
		}
		bands, hidden := strings.Count(drawn, " range\""), strings.Count(drawn, " trial\"")
		if wantBand && (bands != len(m.Paths) || hidden == 0) || !wantBand && (bands != 0 || hidden != 0) {
			t.Errorf("%d blocks: %d bands and %d lines under the pointer, of %d trials that count", blocks, bands, hidden, counted)
		}
		if curves := strings.Count(drawn, " curve\""); curves != bands {
			t.Errorf("%d blocks: %d medians of %d bands", blocks, curves, bands)
		}
	}
	trial := func(y float64) series {
		return series{trial: &measurement.Trial{Gate: measurement.Gate{Passed: true}}, points: []point{{0.25, y}, {0.75, y}}}
	}
	var of []series
	for i := range 20 {
		of = append(of, trial(float64(i)))
	}
	of = append(of, trial(1e6))
	of[len(of)-1].trial.Gate.Passed = false
	b := bandOf(0, of, 1)
	if !slices.Equal(b, band{{0.25, 2, 9.5, 17}, {0.75, 2, 9.5, 17}}) {
		t.Errorf("the band of 20 trials is %+v", b)
	}
	if b := bandOf(0, of[:4], 1); b.drawn() {
		t.Errorf("four trials have the band %+v", b)
	}
}

// A name has its words, in two lines where one has no room.
func TestNamesOfPathsAreWhole(t *testing.T) {
	p := newPanel("p", "", "", []report.Path{{Label: "alert and deny, 1000 rules"}}, panelHeight)
	p.endLabels([]endLabel{{0, "alert and deny, 1000 rules", 100}, {1, "direct", 104}})
	drawn := string(p.end())
	for _, want := range []string{">alert and deny,<", ">1000 rules<", ">direct<"} {
		if !strings.Contains(drawn, want) {
			t.Errorf("%s is not in %s", want, drawn)
		}
	}
}

func FuzzHistogram(f *testing.F) {
	for _, trial := range reporttest.Run(f, 1).Trials {
		if trial.Latency != nil {
			f.Add(trial.Latency.HDR)
		}
	}
	f.Add([]byte{0x1c, 0x84, 0x93, 0x14, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := decodeHistogram(b); err == nil && h.ByteSize() > 8<<20 {
			t.Errorf("a histogram of %d bytes was accepted", h.ByteSize())
		}
	})
}

func TestAxisTicks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low := rapid.Float64Range(1e-9, 1e9).Draw(t, "low")
		high := low * rapid.Float64Range(1.0001, 1e9).Draw(t, "factor")
		for _, a := range []axis{logAxis([]float64{low, high}, 0, 100), linearAxis([]float64{low, high}, true, 0, 100, 4)} {
			ticks := a.ticks(8, one)
			if len(ticks) > 12 {
				t.Fatalf("%d ticks on %+v", len(ticks), a)
			}
			for i, k := range ticks {
				if k.value < a.low*(1-1e-6) || k.value > a.high*(1+1e-6) || (i > 0 && k.value <= ticks[i-1].value) {
					t.Fatalf("tick %v of %+v is outside or out of order", k, a)
				}
			}
			if p := a.at(low); p < -1e-6 || p > 100+1e-6 {
				t.Fatalf("%v lies at %v", low, p)
			}
		}
	})
}

// TestMinMax holds that a reduced line keeps the extremes of every slice.
// Where all is zero the axis is one of the unit, not of what rounding leaves of nothing.
func TestAxisOfZeros(t *testing.T) {
	for _, u := range []measurement.Unit{measurement.BitsPerSecond, measurement.SecondsUnit, measurement.Fraction} {
		a := linearAxis([]float64{0, 0, 0}, true, 0, 100, 4)
		if a.low != 0 || a.high != 1 {
			t.Errorf("%s: from %v to %v", u, a.low, a.high)
		}
		for _, tick := range a.ticks(4, a.unitOf(u)) {
			if len(tick.label) > 4 {
				t.Errorf("%s: the tick %q", u, tick.label)
			}
		}
	}
}

func TestMinMax(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(-1e6, 1e6), 1, 500).Draw(t, "values")
		n := rapid.IntRange(1, 60).Draw(t, "slices")
		points := make([]point, len(values))
		for i, v := range values {
			points[i] = point{float64(i), v}
		}
		out := minMax(points, n)
		if len(out) > max(2*n, 0) && len(out) != len(points) {
			t.Fatalf("%d points for %d slices", len(out), n)
		}
		low, high := span(values)
		var kept []float64
		for i, p := range out {
			kept = append(kept, p.y)
			if i > 0 && p.x <= out[i-1].x {
				t.Fatal("points are out of order")
			}
		}
		if l, h := span(kept); l != low || h != high {
			t.Fatalf("extremes %v, %v became %v, %v", low, high, l, h)
		}
	})
}

// TestLatencyMerge holds that merging the trials' histograms counts every
// sample of the trials that count.
func TestLatencyMerge(t *testing.T) {
	r := reporttest.Run(t, 6)
	m := report.New(r)
	want := int64(0)
	for _, trial := range r.Trials {
		if trial.Path == "direct" && trial.Test == "latency" && trial.Gate.Passed {
			want += trial.Latency.Samples
		}
	}
	got, errs := mergeLatency(m, m.Tests[0], 0, m.Tests[0].Descriptor().Latencies[0])
	if len(errs) > 0 || got.total != want {
		t.Fatalf("%d samples, errors %v; want %d", got.total, errs, want)
	}
	curve := got.curve()
	for i := 1; i < len(curve); i++ {
		if curve[i].x < curve[i-1].x || curve[i].y < curve[i-1].y {
			t.Fatalf("the curve falls at point %d: %v after %v", i, curve[i], curve[i-1])
		}
	}
	if last := curve[len(curve)-1].x; last > tail(1-10/float64(want))+1e-9 {
		t.Errorf("the curve goes on to %v with %d samples", last, want)
	}
}

// Pairs whose senders told no round-trip time have no row of it.
func TestPairsWithoutRoundTrips(t *testing.T) {
	r := reporttest.Pairs(t, 6, 3)
	if figures := PairFigures(report.New(r)); !strings.Contains(string(figures[0].SVG), "TCP RTT of each pair") {
		t.Error("there is no row of round-trip times")
	}
	for i := range r.Trials {
		for k := range r.Trials[i].Pairs {
			r.Trials[i].Pairs[k].RTT = nil
		}
	}
	if drawn := string(PairFigures(report.New(r))[0].SVG); strings.Contains(drawn, "RTT") || strings.Contains(drawn, "round-trip") || !strings.Contains(drawn, "seconds since the first start") {
		t.Error("of no round-trip times there is a row, or the axis is missing")
	}
}

// The shaded band of costs is what is judged as too small to matter: of a rate from the loss to
// the gain that undoes it.
func TestBandOfCosts(t *testing.T) {
	for _, c := range []struct {
		metric    string
		margin    measurement.Margin
		low, high float64
	}{
		{"goodput_bits_per_second", measurement.Margin{Fraction: 0.5}, 0.5, 2},
		{"goodput_bits_per_second", measurement.Margin{}, 1, 1},
		{"rtt_p50_seconds", measurement.Margin{Amount: 0.001}, 0.75, 1.25},
		{"rtt_p50_seconds", measurement.Margin{Amount: 0.004}, 1, 1},
	} {
		rows := []costRow{{test: 1, cost: &result.Effect{Metric: c.metric, Margin: c.margin, ReferenceMedian: 0.004}}, {test: 0, cost: &result.Effect{Metric: c.metric, Margin: measurement.Margin{Fraction: 0.9, Amount: 0.0036}, ReferenceMedian: 0.004}}}
		if low, high := tooSmall(rows, 1); low != c.low || high != c.high {
			t.Errorf("%s, %+v: %g to %g, want %g to %g", c.metric, c.margin, low, high, c.low, c.high)
		}
	}
}
