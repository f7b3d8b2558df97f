package statistics

import (
	"math"
	"slices"
)

// Interval is an estimate with its limits and the coverage they attain.
type Interval struct {
	Low, High float64
	// Coverage is the probability, exact for a continuous distribution, that
	// the limits hold the true value; at least what was asked for.
	Coverage float64
}

// ExcludesZero says that there are limits, both on the same side of zero.
func (i *Interval) ExcludesZero() bool { return i != nil && (i.Low > 0 || i.High < 0) }

// WalshAverages are the means of all pairs of values, each value with itself
// included, in ascending order: n(n+1)/2 of them.
func WalshAverages(values []float64) []float64 {
	n := len(values)
	out := make([]float64, 0, n*(n+1)/2)
	for i, a := range values {
		for _, b := range values[i:] {
			out = append(out, midpoint(a, b))
		}
	}
	slices.Sort(out)
	return out
}

// signedRankDepth says how many of the n(n+1)/2 Walsh averages lie beyond each
// limit of the interval, plus one: the k-th from below and from above are the
// limits. ok is false when n is too small for the confidence asked.
//
// The limits are the points at which the two-sided signed-rank test stops
// rejecting (Hodges & Lehmann 1963; Hollander, Wolfe & Chicken 2014, 3.3): an
// interval that excludes zero and a p below 1 − confidence say the same.
func signedRankDepth(n int, confidence float64) (k int, coverage float64, ok bool) {
	alpha := 1 - confidence
	if n > maxExact {
		f := float64(n)
		spread := math.Sqrt(f * (f + 1) * (2*f + 1) / 24)
		k = int(math.Floor(f*(f+1)/4 - NormalQuantile(1-alpha/2)*spread))
		return k, confidence, k >= 1
	}
	ranks := make([]int, n)
	for i := range ranks {
		ranks[i] = i + 1
	}
	tail := 0.0
	for w, p := range SignedRankDistribution(ranks) {
		// A relative hair, so that 2·0.025 = 0.05 is not lost to rounding.
		if 2*(tail+p) > alpha*(1+1e-9) {
			k, coverage = w, 1-2*tail
			break
		}
		tail += p
	}
	return k, coverage, k >= 1
}

// HodgesLehmann is the median of the Walsh averages (Hodges & Lehmann 1963).
func HodgesLehmann(walsh []float64) float64 { return MedianOfSorted(walsh) }

// SignedRankInterval inverts the exact signed-rank test over walsh, the Walsh
// averages of n values.
func SignedRankInterval(walsh []float64, n int, confidence float64) (Interval, bool) {
	k, coverage, ok := signedRankDepth(n, confidence)
	if !ok {
		return Interval{}, false
	}
	return Interval{Low: walsh[k-1], High: walsh[len(walsh)-k], Coverage: coverage}, true
}

// MedianInterval is the interval between two order statistics that holds the
// median with at least the confidence asked, exactly by the binomial
// distribution (Hollander, Wolfe & Chicken 2014, 3.6). s is sorted.
func MedianInterval(s []float64, confidence float64) (Interval, bool) {
	n := len(s)
	alpha := 1 - confidence
	logHalf := -float64(n) * math.Ln2
	lgN, _ := math.Lgamma(float64(n) + 1)
	tail, k := 0.0, 0
	for i := 0; i < n; i++ {
		a, _ := math.Lgamma(float64(i) + 1)
		b, _ := math.Lgamma(float64(n-i) + 1)
		p := math.Exp(lgN - a - b + logHalf)
		if 2*(tail+p) > alpha*(1+1e-9) {
			break
		}
		tail += p
		k = i + 1
	}
	if k == 0 {
		return Interval{}, false
	}
	return Interval{Low: s[k-1], High: s[n-k], Coverage: 1 - 2*tail}, true
}
