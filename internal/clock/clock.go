// Package clock estimates how the clock of another end stands to this process's,
// from stamps of monotonic clocks that were exchanged. Nobody's wall clock is
// believed.
package clock

import (
	"math"
	"time"
)

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
	// DriftUncertainty is the bound of the error of Drift, MaxDrift while the exchanges
	// bound it no better.
	DriftUncertainty float64
	// Span is the time over which the exchanges were made that say so.
	Span time.Duration
	// Steps is how often the other clock was found to have jumped, as one does that
	// stands still while its machine is suspended.
	Steps int
}

// At is by how much the other clock is ahead at a time of this clock, and the bound of
// the error of that, which grows with the distance from the reference.
func (e Estimate) At(t time.Duration) (ahead, uncertainty time.Duration) {
	away := t - e.Reference
	ahead = e.Offset + scaled(away, e.Drift)
	return ahead, e.Uncertainty + scaled(away.Abs(), e.DriftUncertainty)
}

// Theirs is a time of this clock by the other one.
func (e Estimate) Theirs(t time.Duration) time.Duration {
	ahead, _ := e.At(t)
	return t + ahead
}

// Ours is a time of the other clock by this one.
func (e Estimate) Ours(t time.Duration) time.Duration {
	// offset + drift × (ours - reference) = t - ours, solved for ours - reference.
	away := float64(t-e.Offset-e.Reference) / (1 + e.Drift)
	return e.Reference + time.Duration(away)
}

func scaled(d time.Duration, by float64) time.Duration { return time.Duration(float64(d) * by) }

// Step is in what steps the clock of this process goes: a time may be so much too early.
// Some tens of nanoseconds on most systems, and a tick on Windows, where the runtime reads
// the time of the last one. It takes a few steps.
func Step() time.Duration {
	least := time.Duration(math.MaxInt64)
	for range 3 { // this thread may have to wait for a CPU in one of them
		from := time.Now()
		step := time.Since(from)
		for step <= 0 {
			step = time.Since(from)
		}
		if least = min(least, step); least >= tick {
			break
		}
	}
	return least
}

// tick is what a clock that goes with the ticks of the system takes for a step at least
// (0.5 ms on Windows): one of them is waited for and not three, since each flow of a test
// asks. That the thread had to wait meanwhile makes the step no smaller.
const tick = 100 * time.Microsecond

// Monotonic is a monotonic clock of this process. It says the time since the Unix epoch
// as the wall clock had it when it was started, and does not follow what is done to the
// wall clock afterwards. It stands still while this machine is suspended
// (CLOCK_MONOTONIC, clock_gettime(2)), as the times of all tests do; whoever exchanges
// stamps with it sees that as a step.
type Monotonic struct{ started time.Time }

// Start starts a clock.
func Start() Monotonic { return Monotonic{started: time.Now()} }

// Now is the time.
func (m Monotonic) Now() time.Duration { return m.Of(time.Now()) }

// Of is the time of a moment that time.Now gave.
func (m Monotonic) Of(t time.Time) time.Duration {
	return time.Duration(m.started.UnixNano()) + t.Sub(m.started)
}

// Moment is the moment of a time, the reverse of Of.
func (m Monotonic) Moment(d time.Duration) time.Time {
	return m.started.Add(d - time.Duration(m.started.UnixNano()))
}
