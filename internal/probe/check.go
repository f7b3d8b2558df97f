package probe

import (
	"time"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
)

// Bounds of what a spec may ask at all; a server's own limits may be tighter.
const (
	MaxFlows    = kind.MaxFlows
	MaxDuration = kind.MaxSeconds * time.Second // of each of the parts of a test
	MaxPairs    = 1000
)

const (
	maxMessageBytes = kind.MaxMessageBytes
	maxDatagram     = kind.MaxDatagramBytes
	maxInFlight     = kind.MaxInFlight
)

// planned is the longest a test sends: the window always fits.
func planned(spec measurement.Spec) time.Duration {
	switch spec.Kind {
	case measurement.MTU:
		return 2 * mtuRounds * spec.Timeout.Duration() // each way
	case measurement.FTP:
		return MaxDuration // a transfer that stands still ends much sooner
	}
	return (spec.IdleDuration + spec.MaxWarmup + spec.Duration).Duration()
}

// checkSpec refuses what no end could do, or could be made to suffer from. It
// is applied to what came from the wire, too.
func checkSpec(s measurement.Spec) error { return kind.Check(s).Err() }
