package session

import (
	"fmt"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
)

// LeastRate is the lower of two bounds of a rate, of which 0 is none.
func LeastRate(a, b float64) float64 {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// PacedBy is the fact that the bound of one of the ends, in bit/s, was the rate of a test.
func PacedBy(maxRate float64) string {
	return fmt.Sprintf("an end allows %s in one test (its --max-rate), and no rate was asked for: what was sent was paced to that", BitRate(maxRate))
}

// BitRate writes a rate in bit/s for people.
func BitRate(rate float64) string { return quantity.Format(rate, measurement.BitsPerSecond) }
