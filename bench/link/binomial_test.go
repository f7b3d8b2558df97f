package main

import "testing"

// The tails outside the interval, by summing exact probabilities of a small case:
// 10 tosses of a coin are 0 or 10 heads with probability 2/1024, 1 or 9 with
// 20/1024, 2 or 8 with 90/1024.
func TestBinomialInterval(t *testing.T) {
	for _, c := range []struct {
		confidence float64
		low, high  int
	}{{0.75, 3, 7}, {0.95, 2, 8}, {0.99, 1, 9}, {0.999, 0, 10}} {
		if low, high := binomialInterval(10, 0.5, c.confidence); low != c.low || high != c.high {
			t.Errorf("%v of 10 tosses within %d to %d, want %d to %d", c.confidence, low, high, c.low, c.high)
		}
	}
}
