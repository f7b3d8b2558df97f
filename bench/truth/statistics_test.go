package main

import (
	"math"
	"testing"
)

// The intervals are those that R's binom.test prints.
func TestInterval(t *testing.T) {
	for _, c := range []struct {
		proportion
		low, high float64
	}{
		{proportion{13, 312}, 0.02238, 0.07019},
		{proportion{0, 20}, 0, 0.16843},
		{proportion{20, 20}, 0.83157, 1},
		{proportion{1, 20}, 0.00127, 0.24873},
	} {
		if low, high := c.interval(); math.Abs(low-c.low) > 5e-5 || math.Abs(high-c.high) > 5e-5 {
			t.Errorf("%d of %d: [%.5f, %.5f], want [%.5f, %.5f]", c.k, c.n, low, high, c.low, c.high)
		}
	}
}

// Of 2^6 sign patterns the most extreme has a p of 2/64, the next two together of
// 4/64; of ten pairs, 50 of 1024 patterns have a p below 0.05.
func TestLevel(t *testing.T) {
	if got := attained(6)[:3]; got[0] != 2.0/64 || got[1] != 4.0/64 || got[2] != 6.0/64 {
		t.Errorf("the least p of six pairs are %v", got)
	}
	for n, want := range map[int]float64{5: 0, 6: 2.0 / 64, 8: 10.0 / 256, 10: 50.0 / 1024} {
		if got := levelOf(n, 0.05); got != want {
			t.Errorf("level of %d pairs is %v, want %v", n, got, want)
		}
	}
}

func TestSpread(t *testing.T) {
	for _, c := range []struct{ p, uniform, want float64 }{{2.0 / 64, 0.5, 1.0 / 64}, {4.0 / 64, 0, 2.0 / 64}, {4.0 / 64, 1, 4.0 / 64}} {
		if got := spread(c.p, 6, c.uniform); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v of six pairs, at %v, becomes %v, want %v", c.p, c.uniform, got, c.want)
		}
	}
}

// Values in the middle of n equal parts have the least statistic, 1/12n.
func TestCramerVonMises(t *testing.T) {
	var even, low []float64
	for i := range 100 {
		even = append(even, (float64(i)+0.5)/100)
		low = append(low, even[i]*even[i])
	}
	if got := cramerVonMises(even); math.Abs(got-1.0/1200) > 1e-12 {
		t.Errorf("statistic of even values is %v, want 1/1200", got)
	}
	if got := cramerVonMises(low); got < 0.461 {
		t.Errorf("statistic of values whose square root is even is %v, below 0.461", got)
	}
}
