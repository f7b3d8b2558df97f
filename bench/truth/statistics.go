package main

import (
	"fmt"
	"math"
	"slices"
)

// proportion is k of n.
type proportion struct{ k, n int }

func (p *proportion) count(hit bool) {
	p.n++
	if hit {
		p.k++
	}
}

// interval is the 95 % interval of Clopper and Pearson (Biometrika 26, 1934):
// the shares for which k or more, or k or fewer, of n have a chance above 2.5 %.
func (p proportion) interval() (low, high float64) {
	if p.n == 0 {
		return 0, 1
	}
	const tail = 0.025
	high = 1
	if p.k < p.n {
		high = bisect(func(share float64) bool { return binomialCDF(p.k, p.n, share) > tail })
	}
	if p.k > 0 {
		low = bisect(func(share float64) bool { return 1-binomialCDF(p.k-1, p.n, share) < tail })
	}
	return low, high
}

// String is "13 of 304, 4.3 % [2.3, 7.2]".
func (p proportion) String() string {
	if p.n == 0 {
		return "none"
	}
	low, high := p.interval()
	return fmt.Sprintf("%d of %d, %s %% [%s, %s]", p.k, p.n, percent(float64(p.k)/float64(p.n)), percent(low), percent(high))
}

func percent(share float64) string {
	if share > 0 && share < 0.01 {
		return fmt.Sprintf("%.2f", 100*share)
	}
	return fmt.Sprintf("%.1f", 100*share)
}

// bisect finds in [0, 1] where holds, true at first, becomes false.
func bisect(holds func(float64) bool) float64 {
	low, high := 0.0, 1.0
	for range 60 {
		if middle := (low + high) / 2; holds(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return (low + high) / 2
}

// binomialCDF is the chance of k or fewer hits in n draws of probability p.
func binomialCDF(k, n int, p float64) float64 {
	switch {
	case k < 0:
		return 0
	case k >= n || p <= 0:
		return 1
	case p >= 1:
		return 0
	}
	logN, _ := math.Lgamma(float64(n) + 1)
	sum := 0.0
	for i := range k + 1 {
		a, _ := math.Lgamma(float64(i) + 1)
		b, _ := math.Lgamma(float64(n-i) + 1)
		sum += math.Exp(logN - a - b + float64(i)*math.Log(p) + float64(n-i)*math.Log1p(-p))
	}
	return math.Min(sum, 1)
}

// binomialRange are the fewest and the most hits that n draws of probability p
// have in the central 95 % of cases.
func binomialRange(n int, p float64) (low, high int) {
	for binomialCDF(low, n, p) <= 0.025 {
		low++
	}
	for high = low; binomialCDF(high, n, p) < 0.975; high++ {
	}
	return low, high
}

// attained are the values that the two-sided p of a signed-rank test of n pairs
// without ties can take, in ascending order, with the chance of a p no larger.
func attained(n int) []float64 {
	counts := []float64{1} // of the subsets of the ranks up to r with each sum
	for r := 1; r <= n; r++ {
		next := make([]float64, len(counts)+r)
		for sum, count := range counts {
			next[sum] += count
			next[sum+r] += count
		}
		counts = next
	}
	var all []float64
	below, total := 0.0, math.Pow(2, float64(n))
	for _, count := range counts {
		below += count
		p := math.Min(1, 2*below/total)
		all = append(all, p)
		if p == 1 {
			break
		}
	}
	return all
}

// levelOf is the chance that a signed-rank test of n pairs has a p below alpha.
func levelOf(n int, alpha float64) (level float64) {
	for _, p := range attained(n) {
		if p < alpha {
			level = p
		}
	}
	return level
}

// spread draws a p that only takes the values of attained uniformly from the gap
// that ends at it, so that it is uniform if the hypothesis holds.
func spread(p float64, n int, uniform float64) float64 {
	values := attained(n)
	i, found := slices.BinarySearchFunc(values, p, func(v, p float64) int {
		switch {
		case math.Abs(v-p) < 1e-9:
			return 0
		case v < p:
			return -1
		}
		return 1
	})
	if !found {
		return p // of a sample with ties
	}
	below := 0.0
	if i > 0 {
		below = values[i-1]
	}
	return below + uniform*(p-below)
}

// cramerVonMises is the statistic n·ω² of values that should be uniform on [0, 1]
// (Anderson: On the distribution of the two-sample Cramér–von Mises criterion,
// 1962). Above 0.461 it has a chance of 5 %.
func cramerVonMises(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := float64(len(sorted))
	w := 1 / (12 * n)
	for i, v := range sorted {
		d := (2*float64(i)+1)/(2*n) - v
		w += d * d
	}
	return w
}

// meanAndError are the mean of values and its standard error.
func meanAndError(values []float64) (mean, standardError float64) {
	n := float64(len(values))
	for _, v := range values {
		mean += v / n
	}
	for _, v := range values {
		standardError += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(standardError / (n * math.Max(n-1, 1)))
}
