package main

import (
	"math"
	"slices"
)

// interval is an estimate with its bounds. Without enough values for 95 %
// coverage Bounded is false.
type interval struct {
	Median  float64 `json:"median"`
	Low     float64 `json:"low,omitempty"`
	High    float64 `json:"high,omitempty"`
	Bounded bool    `json:"bounded"`
}

// medianOf is the median of values with its distribution-free interval between
// two order statistics, whose binomial coverage is at least 95 %; fewer than
// six values allow none. It panics without a value.
func medianOf(values []float64) interval {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	out := interval{Median: (sorted[(n-1)/2] + sorted[n/2]) / 2}
	tail, best := 0.0, -1
	for k := range n / 2 {
		tail += math.Exp(logChoose(n, k) - float64(n)*math.Ln2)
		if 2*tail > 0.05 {
			break
		}
		best = k
	}
	if best >= 0 {
		out.Low, out.High, out.Bounded = sorted[best], sorted[n-1-best], true
	}
	return out
}

func logChoose(n, k int) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return a - b - c
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
