package main

import (
	"slices"

	"github.com/hopbench/hopbench/internal/analysis/statistics"
)

// interval is an estimate with its bounds. Without enough values for 95 %
// coverage Bounded is false.
type interval struct {
	Median  float64 `json:"median"`
	Low     float64 `json:"low,omitempty"`
	High    float64 `json:"high,omitempty"`
	Bounded bool    `json:"bounded"`
}

// medianOf is the median of values with its distribution-free interval; fewer than six
// values allow none. It panics without a value.
func medianOf(values []float64) interval {
	sorted := slices.Sorted(slices.Values(values))
	bounds, ok := statistics.MedianInterval(sorted, 0.95)
	return interval{Median: statistics.MedianOfSorted(sorted), Low: bounds.Low, High: bounds.High, Bounded: ok}
}

// verdict compares a ratio with a bound that it must reach: from above where
// less is better. The median decides; whether the interval agrees is said.
func verdict(ratio interval, bound float64, lessIsBetter bool) string {
	reached := func(v float64) bool { return v >= bound }
	if lessIsBetter {
		reached = func(v float64) bool { return v <= bound }
	}
	word := "missed"
	if reached(ratio.Median) {
		word = "met"
	}
	if !ratio.Bounded {
		return word + " (too few pairs for an interval)"
	}
	if reached(ratio.Low) != reached(ratio.High) {
		word += " (interval includes the target)"
	}
	return word
}
