package analysis

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hopbench/hopbench/internal/measurement"
	histogram "github.com/hopbench/hopbench/internal/probe/latency"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testutil"
)

// counts is a tcp test whose trials count whole segments.
var counts = result.TestInfo{Name: flows1.Name, Spec: measurement.Spec{Kind: measurement.TCP, Flows: 1, Duration: 0.3}}

func withMSS(trials []measurement.Trial, mss int64) []measurement.Trial {
	for i := range trials {
		trials[i].Flows = []measurement.Flow{{Final: &measurement.TCPInfo{MSS: mss}}}
	}
	return trials
}

func TestEqualReadingsHaveAnIntervalOfTheResolution(t *testing.T) {
	steady := func(path string, v float64) []measurement.Trial {
		return withMSS(trialsOf(path, counts.Name, goodput, v, v, v, v, v, v, v, v), 1448)
	}
	c := only(t, analysed(counts, steady("direct", 50e6), steady("hop", 50e6)))
	// 1294.9 segments in each window; two windows; two ends each.
	want := 1.959964 * math.Sqrt(2.0/6) / (50e6 * 0.3 / 8 / 1448)
	if c.Low == nil || !near(*c.Low, 1-want, 1e-6) || !near(*c.High, 1+want, 1e-6) || !near(c.Resolution, want, 1e-6) || c.Verdict != result.NoCost {
		t.Errorf("%+v, want ± %g", c, want)
	}
	// Less than a trial can know is no claim, however well the trials agree; where what
	// matters is as small, only longer trials tell.
	small := slices.Concat(steady("direct", 50e6), steady("hop", 50e6*(1-want/2)))
	for margin, verdict := range map[float64]result.Verdict{0.05: result.NoCost, 0.0005: result.NotResolved} {
		c := only(t, Analyse(small, []result.TestInfo{counts}, pathsNamed("direct", "hop"), Options{Matters: map[string]measurement.Margin{goodput: {Fraction: margin}}}))
		if c.Verdict != verdict || c.BeyondChance || *c.P < 0.05 || c.NeedsLongerTrials != (verdict == result.NotResolved) || c.RepetitionsNeeded > 0 {
			t.Errorf("%+v", c)
		}
		if c.NeedsLongerTrials && !strings.Contains(said(c), "; trials of this length resolve no effect below 0.0874 %: use longer trials; more blocks do not help") {
			t.Error(said(c))
		}
	}
	// Nor do more tell where the path broke a trial.
	broken := slices.Clone(small)
	broken[9].Gate, broken[9].Metrics = measurement.Gate{Broken: true}, nil
	for _, c := range Analyse(broken, []result.TestInfo{counts}, pathsNamed("direct", "hop"), Options{Matters: map[string]measurement.Margin{goodput: {Fraction: 0.0005}}}).Costs {
		if c.Metric == goodput && (!c.NeedsLongerTrials || !strings.Contains(said(c), "; trials of this length resolve no effect below 0.0874 %")) {
			t.Error(said(c))
		}
	}
	// Of noise that is far larger than what a trial can know, more blocks do tell: the estimate
	// may be anything.
	noisy := slices.Concat(withMSS(trialsOf("direct", counts.Name, goodput, around(50e6, 0.3, 8, 0)...), 1448), withMSS(trialsOf("hop", counts.Name, goodput, around(50e6, 0.3, 8, 0)...), 1448))
	for i := range noisy[8:] {
		noisy[8+i].Metrics[goodput] *= []float64{1.3, 1 / 1.3}[i%2] * (1 - want/2)
	}
	c = only(t, Analyse(noisy, []result.TestInfo{counts}, pathsNamed("direct", "hop"), Options{Matters: map[string]measurement.Margin{goodput: {Fraction: 0.0005}}}))
	if c.Verdict != result.NotResolved || c.NeedsLongerTrials || c.RepetitionsNeeded <= 8 {
		t.Errorf("%+v: %s", c, said(c))
	}
	// A larger one is.
	large := slices.Concat(steady("direct", 50e6), steady("hop", 40e6))
	if c := only(t, analysed(counts, large)); c.Verdict != result.Costs {
		t.Errorf("%+v", c)
	}
}

func TestResolutionOnlyWidens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := func(name string) []float64 {
			return rapid.SliceOfN(rapid.Float64Range(1e6, 1e9), 6, 12).Draw(t, name)
		}
		trials := trialsOfTwo(counts.Name, goodput, values("direct"), values("hop"))
		analyse := func(test result.TestInfo) (result.Effect, []result.Cell) {
			a := analysed(test, trials)
			return only(t, a), a.Cells
		}
		without, cells := analyse(flows1)
		with, wider := analyse(counts)
		if without.Resolution != 0 || with.Resolution <= 0 {
			t.Fatalf("resolutions %g and %g", without.Resolution, with.Resolution)
		}
		if *with.Low > *without.Low || *with.High < *without.High || *with.DifferenceLow > *without.DifferenceLow || *with.DifferenceHigh < *without.DifferenceHigh ||
			*with.P < *without.P || *with.PAdjusted < *without.PAdjusted || with.Ratio != without.Ratio || with.Detectable < without.Detectable {
			t.Fatalf("%+v\n%+v", without, with)
		}
		if with.BeyondChance && (math.Abs(math.Log(with.Ratio)) <= with.Resolution/2 || *with.Low <= 1 && 1 <= *with.High) {
			t.Fatalf("claimed below what trials resolve: %+v", with)
		}
		for i, c := range cells {
			if *wider[i].Low > *c.Low || *wider[i].High < *c.High || wider[i].Resolution <= 0 {
				t.Fatalf("%+v\n%+v", c, wider[i])
			}
		}
		// Twice the rate in segments of twice the size is the same count.
		for i := range trials {
			trials[i].Flows = []measurement.Flow{{Final: &measurement.TCPInfo{MSS: 2 * typicalMSS}}}
			trials[i].Metrics = measurement.Metrics{goodput: 2 * trials[i].Metrics[goodput]}
		}
		scaled, _ := analyse(counts)
		if !near(*scaled.Low, *with.Low, 1e-9) || !near(*scaled.High, *with.High, 1e-9) || !near(scaled.Resolution, with.Resolution, 1e-9) || scaled.Verdict != with.Verdict {
			t.Fatalf("%+v\n%+v", with, scaled)
		}
	})
}

func TestResolutionOfEachMetric(t *testing.T) {
	trial := measurement.Trial{Outcome: measurement.Outcome{
		Metrics: measurement.Metrics{"goodput_bits_per_second": 8e6, "received_packets_per_second": 1000, "connections_per_second": 500, "one_way_delay_bound_seconds": 3e-3},
		Latency: &measurement.Distribution{Samples: 100, Resolution: 1e-3}, Source: measurement.End{HostID: "a", CPUTime: 1}, Destination: measurement.End{HostID: "a", CPUTime: 1},
	}}
	many, pairs := trial, trial
	many.Latency = &measurement.Distribution{Samples: 5000}
	pairs.Latency, pairs.Pairs = &measurement.Distribution{Samples: 100}, make([]measurement.Pair, 2)
	for _, c := range []struct {
		name  string
		trial measurement.Trial
		kind  measurement.Kind
		value float64
		want  float64
	}{
		{"goodput_bits_per_second", trial, measurement.TCP, 8e6, 1448 * 8 / 2.0 / math.Sqrt(6)},
		{"goodput_bits_per_second", trial, measurement.UDP, 8e6, 1000 * 8 / 2.0 / math.Sqrt(6)},
		{"goodput_bits_per_second", trial, measurement.FTP, 8e6, 0},
		{"connections_per_second", trial, measurement.CRR, 500, 1 / 2.0 / math.Sqrt(6)},
		{"rtt_p50_seconds", trial, measurement.RR, 0.03, 1e-3 / math.Sqrt(6)},
		{"rtt_p50_seconds", many, measurement.RR, 0.03, 0.03 / 1024 / math.Sqrt(12)},
		{"rtt_p50_seconds", pairs, measurement.RR, 0.03, 0.03 / 1024 / math.Sqrt(12)},
		{"loss_fraction", trial, measurement.RR, 0.01, 0.01 / math.Sqrt(12)},
		{"cpu_seconds_per_byte", trial, measurement.TCP, 1e-9, 1e-9 * 0.01 / math.Sqrt(6)},
		{"one_way_delay_p50_seconds", trial, measurement.UDP, 4e-3, 3e-3 / math.Sqrt(3)},
		{"one_way_delay_bound_seconds", trial, measurement.UDP, 3e-3, 0},
		{"tcp_rtt_mean_seconds", trial, measurement.TCP, 1e-3, 0},
	} {
		got := resolutionOf(c.trial, measurement.Spec{Kind: c.kind, Duration: 2}, measurement.MetricOf(c.name), c.value)
		if math.Abs(got-c.want) > 1e-9*c.want {
			t.Errorf("%s of %s: %g, want %g", c.name, c.kind, got, c.want)
		}
	}
}

// A percentile is exact up to as many times as package latency keeps; of more, and of
// several recorders together, it is off by a bucket at most.
func TestBucketsOfLatency(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	off := func(n int, merged bool) (off float64) {
		r, times := histogram.New(), make([]float64, n)
		for i := range times {
			d := time.Duration(1e6 + 1e7*rng.Float64())
			r.Record(d)
			times[i] = d.Seconds()
		}
		if merged {
			var err error
			r, err = histogram.Merge([]measurement.Distribution{r.Distribution()})
			testutil.OK(t, err)
		}
		m := measurement.Metrics{}
		r.FillMetrics(m, measurement.RR)
		slices.Sort(times)
		low, high := times[(n-1)/2], times[n/2]
		return math.Max(low-m[rttP50], m[rttP50]-high) / high
	}
	if most := off(bucketsFrom-1, false); most > 1e-12 {
		t.Errorf("%d times: off by %g", bucketsFrom-1, most)
	}
	for _, merged := range []bool{false, true} {
		most := 0.0
		for range 20 {
			most = math.Max(most, off(bucketsFrom, merged))
		}
		if most > bucketShare || most < bucketShare/100 {
			t.Errorf("merged %v: off by up to %g of buckets of %g", merged, most, bucketShare)
		}
	}
	if few := off(101, true); few < 1e-12 || few > bucketShare {
		t.Errorf("of few times together: off by %g", few)
	}
}
