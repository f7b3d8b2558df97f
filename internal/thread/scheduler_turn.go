package thread

import (
	"runtime"
	"time"
)

// Turn lets a loop of short system calls look like one to the Go runtime. Its monitor
// (sysmon, runtime/proc.go) takes a goroutine that the scheduler has not seen for 10 ms for
// one that does not end: from then on it wakes every 20 µs, signals the goroutine's thread,
// and takes its processor away at each call. The zero Turn is ready.
type Turn struct {
	calls int
	last  time.Time
}

const (
	// turnEvery is well below those 10 ms, and long enough for what a turn costs a locked
	// thread, some 20 µs.
	turnEvery = 5 * time.Millisecond
	// turnCalls is how often the clock is read.
	turnCalls = 16
)

// Take is to be called once a round, where nothing is timed.
func (t *Turn) Take() {
	if t.calls++; t.calls%turnCalls != 0 {
		return
	}
	if now := time.Now(); now.Sub(t.last) >= turnEvery {
		runtime.Gosched()
		t.last = now
	}
}
