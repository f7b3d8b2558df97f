//go:build !linux

package clock

import "time"

// System is unknown here.
func System(time.Time) (at, uncertainty time.Duration, ok bool) { return 0, 0, false }

// sinceBoot returns a monotonic clock.
func sinceBoot() func() time.Duration {
	began := time.Now()
	return func() time.Duration { return time.Since(began) }
}
