package statistics

import (
	"math"
	"slices"
)

// Shifts are the differences of every value of b to every value of a, in
// ascending order: len(a)·len(b) of them. Their median is the estimate of
// Hodges & Lehmann (1963) of how far b lies from a. The difference of equal
// infinities is not known: see withUnknown.
func Shifts(a, b []float64) []float64 {
	out, unknown := make([]float64, 0, len(a)*len(b)+1), 0
	for _, x := range a {
		for _, y := range b {
			if x == y && math.IsInf(x, 0) {
				unknown++
			} else {
				out = append(out, y-x)
			}
		}
	}
	return withUnknown(out, unknown)
}

// withUnknown sorts candidates for an estimate and adds so many of which nothing is
// known. In a test of ranks each is a tie, whatever the hypothesis, and so half of it lies
// on either side: half of them, rounded up, become −∞, and as many +∞, which leaves the
// median alone and moves the limits of the interval outwards.
func withUnknown(candidates []float64, unknown int) []float64 {
	for range (unknown + 1) / 2 {
		candidates = append(candidates, math.Inf(-1), math.Inf(1))
	}
	slices.Sort(candidates)
	return candidates
}

// rankSumDepth says which of the n·m shifts limit the interval: the k-th from
// below and from above. They are the shifts at which the two-sided rank-sum
// test stops rejecting (Moses 1953; Hollander, Wolfe & Chicken 2014, 4.3): k is
// the largest number for which 2·P(U ≤ k − 1) ≤ alpha, with U the statistic of
// Mann & Whitney. k is 0 when n and m are too small for the confidence.
func rankSumDepth(n, m int, confidence float64) (k int, coverage float64) {
	if n+m > maxExact/4 {
		nm := float64(n) * float64(m)
		spread := math.Sqrt(nm * float64(n+m+1) / 12)
		return int(math.Floor(nm/2 - NormalQuantile((1+confidence)/2)*spread)), confidence
	}
	return exactDepth(rankSumDistribution(n, m), confidence)
}

// rankSumDistribution gives the probability of every value of Mann & Whitney's
// U (1947), 0 to n·m, of samples of n and m values without ties from the same
// distribution, by their recursion over which sample the largest value is of.
func rankSumDistribution(n, m int) []float64 {
	// p[j][u] is P(U = u) for i and j values, i growing.
	p := make([][]float64, m+1)
	for j := range p {
		p[j] = make([]float64, n*m+1)
		p[j][0] = 1 // no value of the first sample: U is 0
	}
	for i := 1; i <= n; i++ {
		previous := make([][]float64, m+1)
		for j := range p {
			previous[j] = slices.Clone(p[j])
		}
		for j := 1; j <= m; j++ {
			// The largest of i + j values is of the first sample with i/(i+j):
			// then it exceeds all j of the second.
			first := float64(i) / float64(i+j)
			for u := range p[j] {
				v := (1 - first) * p[j-1][u]
				if u >= j {
					v += first * previous[j][u-j]
				}
				p[j][u] = v
			}
		}
	}
	return p[m]
}

// RankSumInterval inverts the rank-sum test over the shifts of n and m values.
func RankSumInterval(shifts []float64, n, m int, confidence float64) (Interval, bool) {
	k, coverage := rankSumDepth(n, m, confidence)
	return between(shifts, k, coverage)
}

// RankSumP is the two-sample rank-sum test (Wilcoxon 1945; Mann & Whitney
// 1947), two-sided, exact with ties by counting every choice of len(a) of the
// pooled ranks; normal approximation beyond maxExact values.
func RankSumP(a, b []float64) float64 {
	if len(a) == 0 || len(b) == 0 {
		return 1
	}
	n, m := len(a), len(a)+len(b)
	ranks := DoubledMidranks(append(append(make([]float64, 0, m), a...), b...))
	observed, total := 0, 0
	for i, r := range ranks {
		if i < n {
			observed += r
		}
		total += r
	}
	mean := float64(total) * float64(n) / float64(m)
	distance := math.Abs(float64(observed) - mean)
	if m > maxExact/4 {
		variance := 0.0
		for _, r := range ranks {
			d := float64(r) - float64(total)/float64(m)
			variance += d * d
		}
		variance *= float64(n) * float64(m-n) / (float64(m) * float64(m-1))
		if variance == 0 {
			return 1
		}
		return NormalTwoSided(math.Max(0, distance-1) / math.Sqrt(variance))
	}
	// ways[k][s]: choices of k ranks that add to s.
	ways := make([][]float64, n+1)
	for k := range ways {
		ways[k] = make([]float64, total+1)
	}
	ways[0][0] = 1
	for _, r := range ranks {
		for k := n; k >= 1; k-- {
			for s := total; s >= r; s-- {
				ways[k][s] += ways[k-1][s-r]
			}
		}
	}
	var extreme, all float64
	for s, w := range ways[n] {
		all += w
		// Sums are whole and the mean a multiple of 1/m: half of that is slack
		// enough for rounding.
		if math.Abs(float64(s)-mean) >= distance-0.5/float64(m) {
			extreme += w
		}
	}
	return extreme / all
}
