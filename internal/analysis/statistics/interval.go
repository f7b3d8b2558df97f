package statistics

// Interval is an estimate with its limits and the coverage they attain.
type Interval struct {
	Low, High float64
	// Coverage is the probability, exact for a continuous distribution, that
	// the limits hold the true value; at least what was asked for.
	Coverage float64
}

// ExcludesZero says that there are limits, both on the same side of zero.
func (i *Interval) ExcludesZero() bool { return i != nil && (i.Low > 0 || i.High < 0) }

// exactDepth is the largest k for which 2·P(S ≤ k − 1) ≤ 1 − confidence, with the chances
// of the values 0, 1, … of a test's statistic S, and the coverage of the interval between
// the k-th candidates from below and from above: there the two-sided test stops rejecting.
func exactDepth(chances []float64, confidence float64) (k int, coverage float64) {
	tail := 0.0
	for _, p := range chances {
		// A relative hair, so that 2·0.025 = 0.05 is not lost to rounding.
		if 2*(tail+p) > (1-confidence)*(1+1e-9) {
			break
		}
		tail += p
		k++
	}
	return k, 1 - 2*tail
}

// between is the interval between the k-th of sorted candidates from below and from above.
func between(sorted []float64, k int, coverage float64) (i Interval, ok bool) {
	if k < 1 {
		return Interval{}, false
	}
	return Interval{Low: sorted[k-1], High: sorted[len(sorted)-k], Coverage: coverage}, true
}
