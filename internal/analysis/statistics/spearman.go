package statistics

import (
	"math"
	"slices"
)

// pearsonOfRanks correlates two equally long lists of ranks; ok is false when
// one of them is constant.
func pearsonOfRanks(x, y []int) (rho float64, ok bool) {
	n := float64(len(x))
	var sx, sy, sxx, syy, sxy float64
	for i := range x {
		a, b := float64(x[i]), float64(y[i])
		sx += a
		sy += b
		sxx += a * a
		syy += b * b
		sxy += a * b
	}
	vx, vy := n*sxx-sx*sx, n*syy-sy*sy
	if vx <= 0 || vy <= 0 {
		return 0, false
	}
	return math.Max(-1, math.Min(1, (n*sxy-sx*sy)/math.Sqrt(vx*vy))), true
}

// maxExactSpearman bounds the enumeration of all orders: 9! is 362 880.
const maxExactSpearman = 9

// Spearman is the rank correlation of x with y (Spearman 1904) and its
// two-sided p: from all n! orders up to nine values, beyond that from
// Student's t with n − 2 degrees of freedom (Kendall & Stuart). ok is false
// below three values or when one side is constant.
func Spearman(x, y []float64) (rho, p float64, ok bool) {
	if len(x) != len(y) || len(x) < 3 {
		return 0, 0, false
	}
	rx, ry := DoubledMidranks(x), DoubledMidranks(y)
	rho, ok = pearsonOfRanks(rx, ry)
	if !ok {
		return 0, 0, false
	}
	n := len(x)
	if n <= maxExactSpearman {
		return rho, spearmanExact(rx, ry), true
	}
	if math.Abs(rho) == 1 {
		return rho, 0, true
	}
	t := rho * math.Sqrt(float64(n-2)/(1-rho*rho))
	return rho, StudentTwoSided(t, n-2), true
}

// spearmanExact is the share of all orders of y whose correlation with x is at
// least as far from zero. In whole numbers, so that equal correlations compare
// equal.
func spearmanExact(x, y []int) float64 {
	n := len(x)
	var sx, sy int
	for i := range x {
		sx += x[i]
		sy += y[i]
	}
	// n·Σxy − ΣxΣy is proportional to the covariance, and only Σxy changes.
	distance := func(dot int) int {
		d := n*dot - sx*sy
		if d < 0 {
			return -d
		}
		return d
	}
	perm := slices.Clone(y)
	dot := 0
	for i := range x {
		dot += x[i] * y[i]
	}
	observed := distance(dot)
	extreme, total := 1, 1
	// Heap's algorithm: each step swaps two elements.
	counter := make([]int, n)
	for i := 1; i < n; {
		if counter[i] >= i {
			counter[i] = 0
			i++
			continue
		}
		a := 0
		if i%2 == 1 {
			a = counter[i]
		}
		dot += (x[a] - x[i]) * (perm[i] - perm[a])
		perm[a], perm[i] = perm[i], perm[a]
		total++
		if distance(dot) >= observed {
			extreme++
		}
		counter[i]++
		i = 1
	}
	return float64(extreme) / float64(total)
}
