package analysis

import (
	"fmt"
	"math"

	"github.com/hopbench/hopbench/internal/quantity"
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
	n := len(readings)
	if n < 3 {
		return 0, false
	}
	mean := 0.0
	for _, x := range readings {
		mean += x / float64(n)
	}
	products, squares := 0.0, 0.0
	for t, x := range readings {
		squares += square(x - mean)
		if t > 0 {
			products += (readings[t-1] - mean) * (x - mean)
		}
	}
	// Sums that are nothing but rounding say nothing.
	if !(squares > square(mean*1e-12)) || math.IsInf(squares, 0) {
		return 0, false
	}
	return products / squares, true
}

// AutocorrelationLimit is what the Autocorrelation of n independent readings
// exceeds, either way, about once in twenty times: 1.96/√n (Bartlett: On the
// theoretical specification and sampling properties of autocorrelated
// time-series, JRSS Supplement 8, 1946).
func AutocorrelationLimit(n int) float64 { return normalQuantile(0.975) / math.Sqrt(float64(n)) }

// ReadingsSentence says what the readings of one run can bear: nothing, for
// they are one trial. It shows their autocorrelation. Fewer than three
// readings have no sentence.
func ReadingsSentence(what string, readings []float64) string {
	n := len(readings)
	if n < 3 {
		return ""
	}
	text := fmt.Sprintf("The %d readings of %s are one run, so one trial: no interval, no p and no difference can be taken from them.", n, what)
	r, ok := Autocorrelation(readings)
	if !ok {
		return text
	}
	limit := AutocorrelationLimit(n)
	shown := fmt.Sprintf("Their lag-1 autocorrelation is %s", quantity.Signed(r, 2))
	if math.Abs(r) > limit {
		return fmt.Sprintf("%s %s, beyond the ±%s of independent readings: each depends on the one before it.", text, shown, quantity.Number(limit, 2))
	}
	return fmt.Sprintf("%s %s, within the ±%s of independent readings, which does not make a second run of them.", text, shown, quantity.Number(limit, 2))
}
