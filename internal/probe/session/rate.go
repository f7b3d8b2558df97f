package session

import (
	"fmt"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/quantity"
)

// PacedBy is the fact that a server's bound was the rate of a test.
func PacedBy(ready protocol.Ready) string {
	return fmt.Sprintf("the server allows %s in one test (its --max-rate), and no rate was asked for: what was sent was paced to that", BitRate(ready.MaxRateBitsPerSecond))
}

// BitRate writes a rate in bit/s for people.
func BitRate(rate float64) string { return quantity.Format(rate, measurement.BitsPerSecond) }
