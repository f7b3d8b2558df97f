package analysis

import (
	"math"

	"github.com/hopbench/hopbench/internal/analysis/statistics"
	"github.com/hopbench/hopbench/internal/result"
)

// Autocorrelation is the sample autocorrelation at lag 1 of readings that were
// taken one after the other,
//
//	r₁ = Σ (xₜ − x̄)(xₜ₊₁ − x̄) / Σ (xₜ − x̄)²
//
// with n − 1 terms above and n below (Box, Jenkins, Reinsel & Ljung: Time
// Series Analysis, 5th edition, 2.1.5). It lies between −1 and 1. ok is false
// for fewer than three readings, and for readings that are all the same.
func Autocorrelation(readings []float64) (r float64, ok bool) {
	if len(readings) < 3 {
		return 0, false
	}
	mean, products, squares := statistics.Mean(readings), 0.0, 0.0
	for t, x := range readings {
		squares += statistics.Square(x - mean)
		if t > 0 {
			products += (readings[t-1] - mean) * (x - mean)
		}
	}
	// Sums that are nothing but rounding say nothing.
	if !(squares > statistics.Square(mean*1e-12)) || math.IsInf(squares, 0) {
		return 0, false
	}
	return products / squares, true
}

// AutocorrelationLimit is what the Autocorrelation of n independent readings
// exceeds, either way, about once in twenty times: 1.96/√n (Bartlett: On the
// theoretical specification and sampling properties of autocorrelated
// time-series, JRSS Supplement 8, 1946).
func AutocorrelationLimit(n int) float64 {
	return statistics.NormalQuantile(0.975) / math.Sqrt(float64(n))
}

// ReadingsNote says of the readings of one run that they are one trial, with
// their autocorrelation. ok is false for fewer than three readings.
func ReadingsNote(readings []float64) (n result.Note, ok bool) {
	if len(readings) < 3 {
		return result.Note{}, false
	}
	n = result.Note{Code: result.NoteReadings, Count: len(readings)}
	if r, ok := Autocorrelation(readings); ok {
		n.Autocorrelation, n.Level = &r, AutocorrelationLimit(len(readings))
	}
	return n, true
}
