package probe

import (
	"context"
	"time"
)

// hooks connect a test to another that it is part of.
type hooks struct {
	// started, if not nil, gets the time of START.
	started func(time.Time)
	// enough ends an rr test early, as if its time were over; may be nil.
	enough context.Context //nolint:containedctx // it lives as long as the one test
	// capacity is how many requests of an open loop are kept one by one, and
	// samples, if not nil, gets them, with the time of START.
	capacity int
	samples  func(start time.Time, kept []sample)
}

// sample is what became of one request.
type sample struct {
	intended time.Duration // since the loop's start
	rtt      time.Duration // below 0: lost
}
