package analysis

import (
	"maps"
	"math"
	"slices"

	"github.com/hopbench/hopbench/internal/analysis/statistics"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// madToSigma makes the median absolute deviation of a normal distribution its
// standard deviation: 1/Φ⁻¹(3/4).
const madToSigma = 1.4826

// outlierDeviations is how many scaled median absolute deviations from the
// median flag a trial.
const outlierDeviations = 3

// cells summarises every metric that any trial brought back, by path and test
// in their order, metrics in the catalogue's order, then others by name.
func cells(set *dataset, confidence float64) []result.Cell {
	var out []result.Cell
	for _, p := range set.paths {
		for _, t := range set.tests {
			trials := set.cells[cellKey{p.Name, t.Name}]
			for _, metric := range metricsSeen(trials) {
				if c, ok := cell(trials, t.Spec, metric, confidence); ok {
					c.Path, c.Test, c.Broken = p.Name, t.Name, len(set.broken[cellKey{p.Name, t.Name}])
					out = append(out, c)
				}
			}
		}
	}
	return out
}

func metricsSeen(trials []measurement.Trial) []string {
	seen := map[string]bool{}
	for _, t := range trials {
		for name := range t.Metrics {
			seen[name] = true
		}
	}
	var out []string
	for _, m := range measurement.Catalogue() {
		if seen[m.Name] {
			out = append(out, m.Name)
			delete(seen, m.Name)
		}
	}
	return append(out, slices.Sorted(maps.Keys(seen))...)
}

func cell(trials []measurement.Trial, spec measurement.Spec, metric string, confidence float64) (result.Cell, bool) {
	var values []float64
	var ids []string
	for _, t := range trials {
		if v, ok := t.Metrics[metric]; ok && statistics.Finite(v) {
			values = append(values, v)
			ids = append(ids, t.ID)
		}
	}
	if len(values) == 0 {
		return result.Cell{}, false
	}
	s := slices.Sorted(slices.Values(values))
	c := result.Cell{Metric: metric, N: len(values), Median: statistics.MedianOfSorted(s)}
	if i, ok := statistics.MedianInterval(s, confidence); ok && len(s) >= minBlocks {
		c.Resolution = expanded(resolutionOfTrials(trials, spec, measurement.MetricOf(metric)).amount, confidence)
		least := i.Low
		if i = widened(i, c.Median, c.Resolution); least >= 0 {
			i.Low = math.Max(0, i.Low) // no metric is below nothing
		}
		c.Low, c.High, c.Coverage = &i.Low, &i.High, i.Coverage
	}
	for _, i := range outliers(values) {
		c.Outliers = append(c.Outliers, ids[i])
	}
	return c, true
}

// outliers are the indices of values further than three scaled median absolute
// deviations from the median (Leys et al. 2013). Where more than half of the
// values are the same the deviation is zero and says nothing: none is flagged.
func outliers(values []float64) []int {
	if len(values) < minBlocks {
		return nil
	}
	centre, deviation := robustSpread(values)
	if deviation == 0 {
		return nil
	}
	var out []int
	for i, v := range values {
		if math.Abs(v-centre) > outlierDeviations*deviation {
			out = append(out, i)
		}
	}
	return out
}

// robustSpread is the median of values, and their scaled median absolute deviation from it.
func robustSpread(values []float64) (centre, deviation float64) {
	centre = statistics.Median(values)
	deviations := make([]float64, len(values))
	for i, v := range values {
		deviations[i] = math.Abs(v - centre)
	}
	return centre, madToSigma * statistics.Median(deviations)
}
