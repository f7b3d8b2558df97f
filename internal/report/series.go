package report

import (
	"maps"
	"math"
	"slices"

	"github.com/hopbench/hopbench/internal/measurement"
)

// MetricNames are the names of metrics in the order of the catalogue, unknown ones after it.
func MetricNames(m measurement.Metrics) []string {
	var out []string
	for _, known := range measurement.Catalogue() {
		if _, ok := m[known.Name]; ok {
			out = append(out, known.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// MeanRTTs are the means of the round-trip times in each bin of a pair's count, NaN without any.
func MeanRTTs(b measurement.Bins, rtts []measurement.PairRTT) []float64 {
	means, counts := make([]float64, len(b.Bytes)), make([]float64, len(b.Bytes))
	for _, s := range rtts {
		if i := float64(s.At / b.Width); i >= 0 && i < float64(len(means)) {
			means[int(i)] += float64(s.RTT)
			counts[int(i)]++
		}
	}
	for i, n := range counts {
		if means[i] /= n; n == 0 {
			means[i] = math.NaN()
		}
	}
	return means
}
