// Package statistics is ranks, their tests, and what follows from them: arithmetic on
// numbers that stand for anything. docs/methodology.md states every formula with its source.
package statistics

import "math"

// maxExact bounds the exact null distributions; beyond it the normal
// approximation's error is far below anything a verdict turns on.
const maxExact = 200

// NormalQuantile is the standard normal's inverse distribution function.
func NormalQuantile(p float64) float64 { return -math.Sqrt2 * math.Erfcinv(2*p) }

// NormalTwoSided is P(|Z| ≥ |z|).
func NormalTwoSided(z float64) float64 { return math.Erfc(math.Abs(z) / math.Sqrt2) }

// StudentTwoSided is P(|T| ≥ |t|) for Student's t with a whole number of
// degrees of freedom: the finite series of Abramowitz & Stegun 26.7.3 and
// 26.7.4.
func StudentTwoSided(t float64, degrees int) float64 {
	theta := math.Atan(math.Abs(t) / math.Sqrt(float64(degrees)))
	sin, cos := math.Sin(theta), math.Cos(theta)
	var inside float64
	if degrees%2 == 1 {
		sum, term := 0.0, cos
		for k := 1; k <= degrees-2; k += 2 {
			sum += term
			term *= cos * cos * float64(k+1) / float64(k+2)
		}
		inside = 2 / math.Pi * (theta + sin*sum)
	} else {
		sum, term := 0.0, 1.0
		for k := 0; k <= degrees-2; k += 2 {
			sum += term
			term *= cos * cos * float64(k+1) / float64(k+2)
		}
		inside = sin * sum
	}
	return math.Max(0, math.Min(1, 1-inside))
}

// StudentQuantile is the inverse distribution function of Student's t for p of
// one half and more, by bisection.
func StudentQuantile(p float64, degrees int) float64 {
	low, high := 0.0, 1.0
	for StudentTwoSided(high, degrees) > 2*(1-p) && high < 1e12 {
		low, high = high, 2*high
	}
	for range 50 {
		if middle := (low + high) / 2; StudentTwoSided(middle, degrees) > 2*(1-p) {
			low = middle
		} else {
			high = middle
		}
	}
	return (low + high) / 2
}

// ChiSquareQuantile approximates that of χ² (Wilson & Hilferty 1931).
func ChiSquareQuantile(p, degrees float64) float64 {
	v := 2 / (9 * degrees)
	root := 1 - v + NormalQuantile(p)*math.Sqrt(v)
	return degrees * math.Max(1e-3, root*root*root)
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

// Holm corrects the p values of a family by Holm's step-down method (1979).
// size is the family's size; it may exceed len(p) when members without a p
// belong to the family.
func Holm(p []float64, size int) []float64 {
	out := make([]float64, len(p))
	running := 0.0
	for step, i := range Ascending(p) {
		running = math.Max(running, math.Min(1, float64(size-step)*p[i]))
		out[i] = running
	}
	return out
}
