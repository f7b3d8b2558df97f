// Package clock estimates how the clock of another end stands to this process's,
// from stamps of monotonic clocks that were exchanged. Nobody's wall clock is
// believed.
package clock

import "time"

// Exchange is one exchange of stamps: this end sent at Sent and heard at Heard, by its
// own monotonic clock; the other end stamped the request At, by its own. All are
// times since some moment of the clock that read them.
type Exchange struct {
	Sent, Heard time.Duration
	At          time.Duration
}

// Estimate is what is known of the other clock.
type Estimate struct {
	// Offset is by how much the other clock is ahead at Reference (a time of this
	// clock), Drift by how much more it gains per second: 1e-6 is 1 ppm.
	Offset    time.Duration
	Drift     float64
	Reference time.Duration
	// Uncertainty is the bound of the error of Offset at Reference, asymmetry of the path
	// included: half of the shortest round trip and what its scatter adds.
	Uncertainty time.Duration
	// DriftUncertainty is the bound of the error of Drift.
	DriftUncertainty float64
}
