package session

import (
	"fmt"
	"math"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/protocol"
)

// A message that was decoded holds numbers that somebody could have counted
// (protocol.Decode). Here is what they could not have been in this very test: more
// received than was sent, by this end's own count, or in other bins than both ends
// agreed on. What this end counted itself is checked as well, because the other one
// may have sent anything. Every error wraps protocol.ErrMalformed.

// CheckBins compares a count with the layout that the spec demands.
func CheckBins(b measurement.Bins, want int, width time.Duration) error {
	if math.Abs(float64(b.Width)-width.Seconds()) > 1e-9 || len(b.Bytes) != want {
		return fmt.Errorf("%w: %d bins of %v s, want %d of %v s", protocol.ErrMalformed, len(b.Bytes), b.Width, want, width.Seconds())
	}
	return nil
}

// CheckAtMost refuses that more was received than this end knows to have been sent.
func CheckAtMost(what string, received float64, sent int64) error {
	if received > float64(sent) {
		return fmt.Errorf("%w: %.0f %s were received of %d that were sent", protocol.ErrMalformed, received, what, sent)
	}
	return nil
}

// Sum adds up values.
func Sum(values []float64) (sum float64) {
	for _, v := range values {
		sum += v
	}
	return sum
}
