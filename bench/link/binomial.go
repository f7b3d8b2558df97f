package main

import "math"

// binomialInterval is the central interval that holds the number of hits in n
// draws of probability p with at least the given confidence: each tail
// outside has at most (1-confidence)/2.
func binomialInterval(n int, p, confidence float64) (low, high int) {
	tail := (1 - confidence) / 2
	logN, _ := math.Lgamma(float64(n) + 1)
	cumulated := 0.0
	low = -1
	for k := 0; k <= n; k++ {
		a, _ := math.Lgamma(float64(k) + 1)
		b, _ := math.Lgamma(float64(n-k) + 1)
		cumulated += math.Exp(logN - a - b + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
		if low < 0 && cumulated > tail {
			low = k
		}
		if cumulated >= 1-tail {
			return low, k
		}
	}
	return max(low, 0), n
}
