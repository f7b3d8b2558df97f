package probe

import (
	"fmt"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/quantity"
)

// pacedBy is the fact that a server's bound was the rate of a test.
func pacedBy(ready protocol.Ready) string {
	return fmt.Sprintf("the server allows %s in one test (its --max-rate), and no rate was asked for: what was sent was paced to that", bitRate(ready.MaxRateBitsPerSecond))
}

// bitRate writes a rate in bit/s for people.
func bitRate(rate float64) string { return quantity.Format(rate, measurement.BitsPerSecond) }
