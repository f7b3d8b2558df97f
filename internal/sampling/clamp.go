package sampling

import (
	"math"
)

// Clamp bounds a number from the other end, or one that rounding took out of
// its bounds, to 0 at least and limit at most.
func Clamp(v, limit float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return min(max(v, 0), limit)
}

// ClampFraction bounds f to 0 at least and 1 at most.
func ClampFraction(f float64) float64 { return Clamp(f, 1) }
