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
