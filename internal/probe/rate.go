package probe

import (
	"fmt"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/quantity"
)

// askedRate is the rate of payload that a spec asks for, in bit/s, 0 where it asks
// for what the path carries.
func askedRate(spec measurement.Spec) float64 {
	switch spec.Kind {
	case measurement.TCP:
		return spec.PacingBitsPerSecond * float64(connections(spec))
	case measurement.UDP, measurement.PPS:
		return spec.RateBitsPerSecond
	case measurement.RR:
		return spec.RequestsPerSecond * float64(max(spec.RequestBytes, spec.ResponseBytes)) * 8
	}
	return 0
}

// paced is a test as a server lets it run that bounds the rate to maxRate in bit/s: one
// that asks for what the path carries gets so much. 0 does not bound it.
func paced(spec measurement.Spec, maxRate float64) measurement.Spec {
	switch {
	case maxRate <= 0:
	case spec.Kind == measurement.TCP && spec.PacingBitsPerSecond == 0:
		spec.PacingBitsPerSecond = maxRate / float64(connections(spec))
	case (spec.Kind == measurement.UDP || spec.Kind == measurement.PPS) && spec.RateBitsPerSecond == 0:
		spec.RateBitsPerSecond = maxRate
	}
	return spec
}

// pacedBy says that a server's bound was the rate of a test.
func pacedBy(spec measurement.Spec, ready protocol.Ready) []string {
	if rate := ready.MaxRateBitsPerSecond; paced(spec, rate) != spec {
		return []string{fmt.Sprintf("the server allows %s in one test (its --max-rate), and no rate was asked for: what was sent was paced to that", bitRate(rate))}
	}
	return nil
}

func bitRate(rate float64) string { return quantity.Format(rate, measurement.BitsPerSecond) }
