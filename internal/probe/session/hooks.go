package session

import (
	"context"
	"time"
)

// Hooks connect a test to another that it is part of.
type Hooks struct {
	// Started, if not nil, gets the time of START.
	Started func(time.Time)
	// Enough ends an rr test early, as if its time were over; may be nil.
	Enough context.Context //nolint:containedctx // it lives as long as the one test
	// Capacity is how many requests of an open loop are kept one by one, and
	// samples, if not nil, gets them, with the time of START.
	Capacity int
	Samples  func(start time.Time, kept []Sample)
}

// Fate is what became of a request.
type Fate uint8

// The fates.
const (
	Answered Fate = iota
	Lost
	Unsent // though it was due
)

// Sample is what became of one request.
type Sample struct {
	Intended time.Duration // since the loop's start
	RTT      time.Duration // of one that was answered
	Fate     Fate
}

// Within returns the round trips of the requests that were due in a window,
// and how many of those were lost or not sent.
func Within(kept []Sample, from, to time.Duration) (rtts []time.Duration, lost, unsent int) {
	for _, s := range kept {
		if s.Intended < from || s.Intended >= to {
			continue
		}
		switch s.Fate {
		case Lost:
			lost++
		case Unsent:
			unsent++
		default:
			rtts = append(rtts, s.RTT)
		}
	}
	return rtts, lost, unsent
}
