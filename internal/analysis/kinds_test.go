package analysis

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// addMetric gives every trial a further metric; NaN leaves a trial without it.
func addMetric(trials []measurement.Trial, metric string, values ...float64) []measurement.Trial {
	for i := range trials {
		if !math.IsNaN(values[i]) {
			trials[i].Metrics[metric] = values[i]
		}
	}
	return trials
}

func testOf(spec measurement.Spec) result.TestInfo {
	return result.TestInfo{Name: "it", Spec: spec.Defaults()}
}

func costOf(t failer, a Analysis, metric string) result.Effect {
	t.Helper()
	i := slices.IndexFunc(a.Costs, func(c result.Effect) bool { return c.Metric == metric })
	if i < 0 {
		t.Fatalf("no cost of %s among %+v", metric, a.Costs)
	}
	return a.Costs[i]
}

// Every compared metric of every kind gets a cost with a verdict that its
// direction asks for, and a sentence in its unit.
func TestComparedMetricsOfEveryKind(t *testing.T) {
	typical := map[measurement.Unit]float64{measurement.BitsPerSecond: 1e9, measurement.SecondsUnit: 1e-3, measurement.Count: 5e4,
		measurement.SecondsPerByte: 0.5e-9, measurement.SecondsPerPacket: 1e-6, measurement.Fraction: 0.01}
	units := map[measurement.Unit]string{measurement.BitsPerSecond: "%", measurement.SecondsUnit: "ms", measurement.Count: "%", measurement.SecondsPerByte: "%", measurement.Fraction: "percentage points"}
	for _, kind := range measurement.Kinds() {
		for _, m := range measurement.ComparedOf(kind) {
			base := typical[m.Unit]
			a := analysed(testOf(measurement.Spec{Kind: kind}), trialsOfTwo("it", m.Name, around(base, 0.01, 10, 0), around(2*base, 0.01, 10, 4)))
			c := costOf(t, a, m.Name)
			want := result.Costs
			if m.HigherIsBetter {
				want = result.Gains
			}
			if c.Verdict != want || math.Abs(c.Ratio-2) > 0.05 || c.Primary != m.PrimaryIn(kind) || !strings.Contains(said(c), units[m.Unit]) {
				t.Errorf("%s of %s: %s, ratio %.3g, %q", m.Name, kind, c.Verdict, c.Ratio, said(c))
			}
		}
	}
}

// However many secondary metrics a kind compares, the primary cost stays the
// only one of its family.
func TestSecondaryMetricsLeaveThePrimaryAlone(t *testing.T) {
	trials := trialsOfTwo("it", "connections_per_second", around(1000, 0.01, 6, 0), around(800, 0.01, 6, 4))
	analyse := func() result.Effect {
		return costOf(t, analysed(testOf(measurement.Spec{Kind: measurement.CRR}), trials), "connections_per_second")
	}
	alone := analyse()
	addMetric(trials, "connect_p50_seconds", append(around(1e-3, 0.01, 6, 0), around(2e-3, 0.01, 6, 4)...)...)
	beside := analyse()
	if alone.Verdict != result.Costs || *alone.P != *alone.PHolm {
		t.Errorf("alone: %s, p %v, corrected %v", alone.Verdict, *alone.P, *alone.PHolm)
	}
	if *beside.PHolm != *alone.PHolm || beside.Verdict != alone.Verdict {
		t.Errorf("beside a secondary metric the corrected p is %v, alone %v", *beside.PHolm, *alone.PHolm)
	}
	second := costOf(t, analysed(testOf(measurement.Spec{Kind: measurement.CRR}), trials), "connect_p50_seconds")
	if second.Primary || *second.PHolm != 2**second.P {
		t.Errorf("the secondary p %v is corrected to %v, want twice", *second.P, *second.PHolm)
	}
}

// A metric that some trials lack is compared over the blocks that have it at
// both paths, and the others are compared over all.
func TestMetricMissingInSomeTrials(t *testing.T) {
	nan := math.NaN()
	trials := trialsOfTwo("it", goodput, around(1e9, 0.01, 8, 0), around(1e9, 0.01, 8, 4))
	addMetric(trials, "cpu_seconds_per_byte",
		1e-9, nan, 1e-9, 1e-9, 1.01e-9, 1e-9, 1.02e-9, 0.99e-9,
		1.5e-9, 1.5e-9, nan, 1.52e-9, 1.5e-9, 1.5e-9, 1.49e-9, 1.5e-9)
	a := analysed(testOf(measurement.Spec{Kind: measurement.TCP}), trials)
	if c := costOf(t, a, "cpu_seconds_per_byte"); c.N != 6 || c.Low == nil || c.Ratio < 1.4 || c.Ratio > 1.6 {
		t.Errorf("CPU: %+v", c)
	}
	if c := costOf(t, a, goodput); c.N != 8 {
		t.Errorf("goodput: %d pairs", c.N)
	}
	if text := notesText(a.Notes); strings.Contains(text, "CPU") {
		t.Errorf("a secondary metric that is missing is noted: %s", text)
	}
}

// A metric that is 0 in every trial is shown as 0, makes no claim and breaks
// nothing; so is a primary one. Of a share nobody knows what was looked at.
func TestZeroInAllTrials(t *testing.T) {
	zeros := make([]float64, 10)
	for _, c := range []struct {
		spec   measurement.Spec
		metric string
		costs  int
	}{
		{measurement.Spec{Kind: measurement.UDP}, "loss_fraction", 2}, // and the primary's hole
		{measurement.Spec{Kind: measurement.PPS}, "packets_per_second", 1},
		{measurement.Spec{Kind: measurement.TCP}, "cpu_seconds_per_byte", 1},
		{measurement.Spec{Kind: measurement.MTU}, "path_mtu_bytes", 0},
	} {
		a := analysed(testOf(c.spec), trialsOfTwo("it", c.metric, zeros, zeros))
		if len(a.Costs) != c.costs {
			t.Errorf("%s: %d costs, want %d", c.metric, len(a.Costs), c.costs)
		}
		for _, cell := range a.Cells {
			if cell.Median != 0 || *cell.Low != 0 || *cell.High > cell.Resolution || len(cell.Outliers) > 0 {
				t.Errorf("%s: cell %+v", c.metric, cell)
			}
		}
		for _, cost := range a.Costs {
			if cost.Verdict != result.NotResolved || cost.Ratio != 0 || cost.Difference != 0 || strings.Contains(said(cost), "NaN") {
				t.Errorf("%s: %+v", c.metric, cost)
			}
		}
	}
}
