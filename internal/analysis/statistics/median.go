package statistics

import (
	"math"
	"slices"
)

// Sorted returns values in ascending order, leaving its argument alone.
func Sorted(values []float64) []float64 {
	out := slices.Clone(values)
	slices.Sort(out)
	return out
}

// MedianOfSorted is the middle value, or the mean of the two middle ones. It
// needs at least one value.
func MedianOfSorted(s []float64) float64 {
	n := len(s)
	if n%2 == 1 {
		return s[n/2]
	}
	return midpoint(s[n/2-1], s[n/2])
}

// Median is that of values; 0 of none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	return MedianOfSorted(Sorted(values))
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
