package statistics

import (
	"math"
)

// WalshAverages are the means of all pairs of values, each value with itself
// included, in ascending order: n(n+1)/2 of them. The mean of opposite infinities
// is not known: see withUnknown.
func WalshAverages(values []float64) []float64 {
	n, unknown := len(values), 0
	out := make([]float64, 0, n*(n+1)/2+1)
	for i, a := range values {
		for _, b := range values[i:] {
			if a == -b && math.IsInf(a, 0) {
				unknown++
			} else {
				out = append(out, midpoint(a, b))
			}
		}
	}
	return withUnknown(out, unknown)
}

// signedRankDepth says how many of the n(n+1)/2 Walsh averages lie beyond each
// limit of the interval, plus one: the k-th from below and from above are the
// limits. k is 0 when n is too small for the confidence asked.
//
// The limits are the points at which the two-sided signed-rank test stops
// rejecting (Hodges & Lehmann 1963; Hollander, Wolfe & Chicken 2014, 3.3): an
// interval that excludes zero and a p below 1 − confidence say the same.
func signedRankDepth(n int, confidence float64) (k int, coverage float64) {
	if n > maxExact {
		f := float64(n)
		spread := math.Sqrt(f * (f + 1) * (2*f + 1) / 24)
		return int(math.Floor(f*(f+1)/4 - NormalQuantile((1+confidence)/2)*spread)), confidence
	}
	ranks := make([]int, n)
	for i := range ranks {
		ranks[i] = i + 1
	}
	return exactDepth(SignedRankDistribution(ranks), confidence)
}

// HodgesLehmann is the median of the Walsh averages (Hodges & Lehmann 1963), NaN where
// it is not known.
func HodgesLehmann(values []float64) float64 {
	if median, known := Centre(WalshAverages(values)); known {
		return median
	}
	return math.NaN()
}

// SignedRankInterval inverts the exact signed-rank test over walsh, the Walsh
// averages of n values.
func SignedRankInterval(walsh []float64, n int, confidence float64) (Interval, bool) {
	k, coverage := signedRankDepth(n, confidence)
	return between(walsh, k, coverage)
}

// SignedRankDistribution gives the probability of every sum of the ranks that
// carry a positive sign, when each sign is a fair coin. It is the exact
// permutation distribution, ties or not, by convolution over the ranks.
func SignedRankDistribution(ranks []int) []float64 {
	total := 0
	for _, r := range ranks {
		total += r
	}
	p := make([]float64, total+1)
	p[0] = 1
	reached := 0
	for _, r := range ranks {
		reached += r
		for s := reached; s >= 0; s-- {
			half := p[s] / 2
			if s >= r {
				half += p[s-r] / 2
			}
			p[s] = half
		}
	}
	return p
}

// SignedRankP is Wilcoxon's signed-rank test (1945), two-sided, of a symmetric
// distribution around zero. Zeros are ranked and then left out (Pratt 1959),
// tied magnitudes share their mean rank. Exact up to maxExact values. Without
// any value other than zero it is 1.
func SignedRankP(values []float64) float64 {
	magnitudes := make([]float64, len(values))
	for i, v := range values {
		magnitudes[i] = math.Abs(v)
	}
	all := DoubledMidranks(magnitudes)
	var ranks []int
	positive, total := 0, 0
	for i, v := range values {
		if v == 0 {
			continue
		}
		ranks = append(ranks, all[i])
		total += all[i]
		if v > 0 {
			positive += all[i]
		}
	}
	if len(ranks) == 0 {
		return 1
	}
	lower := min(positive, total-positive)
	if len(ranks) > maxExact {
		variance := 0.0
		for _, r := range ranks {
			variance += float64(r) * float64(r) / 4
		}
		// Half a rank of continuity correction is 1 on doubled ranks.
		distance := math.Max(0, float64(total)/2-float64(lower)-1)
		return NormalTwoSided(distance / math.Sqrt(variance))
	}
	tail := 0.0
	for _, p := range SignedRankDistribution(ranks)[:lower+1] {
		tail += p
	}
	return math.Min(1, 2*tail)
}
