package admission

import "time"

const (
	// RateTick is how often a server that bounds the rate of a test looks at it, and
	// rateTicks over how many looks the rate must stay below the bound. The first one is not
	// compared: the first windows of flows are not paced, and those of thousands of flows are
	// many megabytes.
	RateTick  = time.Second
	rateTicks = 5
	// RateTolerance is by which factor a test's own pacing may exceed the bound, in addition
	// to RateBurst, in bytes.
	RateTolerance = 1.05
	RateBurst     = 1 << 20
	// lookSlack is how much later than due a look may be and not count as held up.
	lookSlack = RateTick / 20
)

// RateWatch compares what a test moves with the bound of a server.
type RateWatch struct {
	// looked is when it last looked, since the test's start, and sums what had been moved at
	// the last looks.
	looked time.Duration
	sums   []movedSum
}

// movedSum is what had been moved at a time. What comes after it has come since from, which is
// earlier where this process was held up: what buffers hold is read only then.
type movedSum struct {
	from, at time.Duration
	bytes    int64
}

// Exceeds takes what a test had moved at a time since its start, and says whether that was more
// over the last looks than a bound, in bit/s, and a burst, in bytes, allow, and at which rate
// over how long.
func (w *RateWatch) Exceeds(at time.Duration, moved int64, limit, burst float64) (bitsPerSecond float64, over time.Duration, exceeds bool) {
	sum := movedSum{at, at, moved}
	if at-w.looked > RateTick+lookSlack {
		sum.from = w.looked
	}
	w.looked = at
	if w.sums = append(w.sums, sum); len(w.sums) > rateTicks+1 {
		w.sums = w.sums[1:]
	}
	last := len(w.sums) - 1
	if last < 2 {
		return 0, 0, false
	}
	bytes, over := float64(moved-w.sums[0].bytes), at-w.sums[0].from
	return bytes * 8 / over.Seconds(), over.Round(RateTick / 10), (bytes-burst)*8 > limit*RateTolerance*over.Seconds()
}
