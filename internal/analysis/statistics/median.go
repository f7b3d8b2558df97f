package statistics

import (
	"math"
	"slices"
)

// MedianOfSorted is the middle value, or the mean of the two middle ones. It
// needs at least one value.
func MedianOfSorted(s []float64) float64 {
	n := len(s)
	if n%2 == 1 {
		return s[n/2]
	}
	return midpoint(s[n/2-1], s[n/2])
}

// Centre is the median of sorted values, unless it lies between −∞ and +∞, and so is not
// known.
func Centre(s []float64) (median float64, known bool) {
	return MedianOfSorted(s), !math.IsInf(s[(len(s)-1)/2], -1) || !math.IsInf(s[len(s)/2], 1)
}

// Median is that of values; 0 of none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	s := slices.Clone(values)
	k := len(s) / 2
	upper := Select(s, k)
	if len(s)%2 == 1 {
		return upper
	}
	return midpoint(Select(s[:k], k-1), upper)
}

// Mean is that of values; 0 of none.
func Mean(values []float64) (mean float64) {
	for _, v := range values {
		mean += v / float64(len(values))
	}
	return mean
}

// Variance is that of a sample of two values or more.
func Variance(values []float64) float64 {
	mean, sum := Mean(values), 0.0
	for _, v := range values {
		sum += Square(v - mean)
	}
	return sum / float64(len(values)-1)
}

// MedianInterval is the interval between two order statistics that holds the
// median with at least the confidence asked, exactly by the binomial
// distribution (Hollander, Wolfe & Chicken 2014, 3.6). s is sorted.
func MedianInterval(s []float64, confidence float64) (Interval, bool) {
	// The sums of ranks of 1 are numbers of signs.
	k, coverage := exactDepth(SignedRankDistribution(slices.Repeat([]int{1}, len(s))), confidence)
	return between(s, k, coverage)
}
