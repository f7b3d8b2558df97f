package statistics

import (
	"math"
)

// midpoint avoids the overflow of (a+b)/2, and is exact for a == b. Opposite
// values, infinite ones too, cancel.
func midpoint(a, b float64) float64 {
	switch {
	case a == b:
		return a
	case a == -b:
		return 0
	}
	return a/2 + b/2
}

// Finite says that v can be computed with: sums, differences and ratios of such
// values neither overflow nor vanish. NaN is not less than anything.
func Finite(v float64) bool { return v == 0 || (1e-150 < math.Abs(v) && math.Abs(v) < 1e150) }

// Square is v².
func Square(v float64) float64 { return v * v }

// Minus is a − b; equal values, two broken trials among them, differ by nothing.
func Minus(a, b float64) float64 {
	if a == b {
		return 0
	}
	return a - b
}
