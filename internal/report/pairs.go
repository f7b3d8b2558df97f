package report

import (
	"cmp"
	"math"
	"slices"

	"github.com/hopbench/hopbench/internal/analysis/statistics"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/words"
)

// MedianTrial is the trial of a test on a path whose result is the median one, of those that
// so many pairs at least did, and of those that count if any does; nil when there is none.
func MedianTrial(r *result.Result, path, test, metric string, pairs int) *measurement.Trial {
	var all, good []*measurement.Trial
	for i := range r.Trials {
		t := &r.Trials[i]
		if t.Test != test || t.Path != path || len(t.Pairs) < pairs {
			continue
		}
		all = append(all, t)
		if t.Gate.Passed {
			good = append(good, t)
		}
	}
	if len(good) > 0 {
		all = good
	}
	return MedianOf(all, metric)
}

// MedianOf is the trial whose metric is the median one, nil of none. Of an even number it is the
// lower of the two in the middle.
func MedianOf(trials []*measurement.Trial, metric string) *measurement.Trial {
	if len(trials) == 0 {
		return nil
	}
	slices.SortStableFunc(trials, func(a, b *measurement.Trial) int { return cmp.Compare(a.Metrics[metric], b.Metrics[metric]) })
	return trials[(len(trials)-1)/2]
}

// pairDetails is a table per test that several pairs did at the same time: what
// the slowest, the median and the fastest pair reached, and how fair that is.
// Values are medians over the trials that count.
func (m *Model) pairDetails() []detail {
	var out []detail
	for _, t := range m.Tests {
		if !t.HasPrimary {
			continue
		}
		columns := []string{"pairs", "slowest pair", "median pair", "fastest pair", "Jain’s fairness index",
			"TCP RTT, lowest pair", "median pair", "highest pair"}
		if !t.Descriptor().FlowRTTs {
			columns = []string{"pairs", "least of a pair", "median pair", "most of a pair"}
		}
		d, found := detail{Test: t.Label + ", pair by pair", Medians: Medians{Of: "path", Columns: columns}}, false
		for _, p := range m.Paths {
			values := m.pairRowOf(t, p, len(columns))
			found = found || values[0] != words.None
			d.Rows = append(d.Rows, medianRow{Name: p.Label, Values: values})
		}
		if found {
			out = append(out, d)
		}
	}
	return out
}

// pairRowOf fills n cells for a path.
func (m *Model) pairRowOf(t Test, p Path, n int) []string {
	out := slices.Repeat([]string{words.None}, n)
	columns := make([][]float64, n)
	for _, trial := range m.Counted(p, t) {
		if len(trial.Pairs) < 2 {
			continue
		}
		brought := 0 // without holes
		var rates, rtts []float64
		for _, pair := range trial.Pairs {
			if pair.Error == "" {
				brought++
			}
			if v, ok := pair.Metrics[t.Primary.Name]; ok {
				rates = append(rates, v)
			}
			if v, ok := pair.Metrics["tcp_rtt_mean_seconds"]; ok {
				rtts = append(rtts, v)
			}
		}
		row := []float64{float64(brought)}
		if len(rates) > 0 {
			row = append(row, slices.Min(rates), statistics.Median(rates), slices.Max(rates))
			if t.Descriptor().FlowRTTs {
				row = append(row, jainIndex(rates))
				if len(rtts) > 0 {
					row = append(row, slices.Min(rtts), statistics.Median(rtts), slices.Max(rtts))
				}
			}
		}
		for i, v := range row {
			columns[i] = append(columns[i], v)
		}
	}
	for i, values := range columns {
		if len(values) == 0 {
			continue
		}
		switch v := statistics.Median(values); {
		case i == 0:
			out[i] = quantity.Number(v, 0)
		case i == 4:
			out[i] = quantity.Number(v, 3)
		case i > 4:
			out[i] = words.Value(v, measurement.SecondsUnit)
		default:
			out[i] = words.Value(v, t.Primary.Unit)
		}
	}
	return out
}

// jainIndex is 1 when all have the same and 1/n when one has everything:
// (Σx)²/(n·Σx²), of R. Jain, D. Chiu and W. Hawe, "A Quantitative Measure of
// Fairness and Discrimination for Resource Allocation in Shared Computer
// Systems", DEC-TR-301, 1984. It is 0 where nobody has anything.
func jainIndex(values []float64) float64 {
	largest := 0.0
	for _, v := range values {
		largest = max(largest, math.Abs(v))
	}
	if largest == 0 {
		return 0
	}
	var sum, squares float64
	for _, v := range values {
		v /= largest // so that no square is infinite
		sum, squares = sum+v, squares+v*v
	}
	return sum * sum / (float64(len(values)) * squares)
}
