package linkem

import "time"

// spin decides how long to sleep for a frame that is due, and when to spin
// instead. A sleeping thread wakes tens of microseconds late, more on virtual
// machines, which would be added to every delay. So it is woken early by as much as it was
// late lately, and passes the rest awake; but not for more than a sixteenth of
// the time that it slept, so that a link emulator under load does not take the
// CPU from the traffic. An idle link emulator, with nothing due, never spins.
type spin struct {
	lateness int64 // running mean, nanoseconds
	credit   int64 // how much may be spun
	slept    int64 // when the last sleep began
	last     int64 // the last turn of spinning; 0 while not spinning
}

const (
	spinShare     = 16
	maxSpinCredit = int64(200 * time.Microsecond)
	maxLateness   = int64(80 * time.Microsecond)
)

// sleep returns how long to sleep at now, in nanoseconds, for what is due
// later; 0 or less means not to.
func (s *spin) sleep(now, due int64) int64 {
	s.stop(now)
	left := due - now
	if left <= 0 {
		return 0
	}
	margin := min(s.lateness, s.credit)
	if left <= margin {
		s.last = now
		return 0
	}
	left -= max(margin, 0)
	// poll lets a timer be late by a thousandth of its length, so a long wait
	// is done in two steps (select_estimate_accuracy in fs/select.c).
	if left > int64(time.Millisecond) {
		left -= left / 500
	}
	s.slept = now
	return left
}

// stop charges the spinning that ends at now.
func (s *spin) stop(now int64) {
	if s.last != 0 {
		s.credit -= now - s.last
		s.last = 0
	}
}

// woke tells that the sleep ended at now and was to end at until.
func (s *spin) woke(now, until int64) {
	s.credit = min(s.credit+(now-s.slept)/spinShare, maxSpinCredit)
	if late := now - until; late >= 0 {
		s.lateness += (min(late, maxLateness) - s.lateness) / 8
	}
}
