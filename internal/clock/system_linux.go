package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// System is a moment that time.Now gave, by the monotonic clock that the processes of this
// machine share (CLOCK_MONOTONIC, clock_gettime(2)), and the bound of its error; false
// where there is none. Whoever compares it with that of another process sees to it that
// both have the same clock (hostinfo.ClockID).
func System(moment time.Time) (at, uncertainty time.Duration, ok bool) {
	for range 5 { // the narrowest of some: a thread may have to wait for a CPU in between
		before := time.Since(moment)
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
			return 0, 0, false
		}
		width := time.Since(moment) - before
		if !ok || width/2 < uncertainty {
			at, uncertainty, ok = time.Duration(now.Nano())-before-width/2, width/2, true
		}
	}
	return at, uncertainty + time.Nanosecond, at >= 0
}

// sinceBoot returns a clock that goes on while the machine is suspended (CLOCK_BOOTTIME,
// clock_gettime(2)), where there is one.
func sinceBoot() func() time.Duration {
	began := time.Now()
	return func() time.Duration {
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
			return time.Since(began)
		}
		return time.Duration(now.Nano())
	}
}
