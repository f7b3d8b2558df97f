package session

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/thread"
)

// AwaitCommonStart waits until the test may start. Until begun is called, by the same
// goroutine, the caller gets a CPU before other programs do, as far as this user may have
// that: what happens at the common moment comes in between, and nothing else. A second
// call of begun does nothing.
func (r Request) AwaitCommonStart(ctx context.Context) (begun func(), err error) {
	if r.Prepared == nil {
		return func() {}, nil
	}
	start, err := r.Prepared(ctx)
	if err == nil {
		err = almost(ctx, start)
	}
	if err != nil {
		return nil, Wrap("wait for the common start", err)
	}
	if time.Until(start) <= 0 {
		return func() {}, nil
	}
	runtime.LockOSThread()
	first, release := thread.First()
	precise := thread.PreciseTimers()
	begun = sync.OnceFunc(func() {
		release()
		precise()
		runtime.UnlockOSThread()
	})
	late := lateSleep
	if !first {
		late = lateWake
	}
	for left := time.Until(start); left > 0; left = time.Until(start) {
		thread.Sleep(left - late)
	}
	return begun, nil
}

// lateTimer is by how much the runtime's timers may be late on a busy machine, and
// lateSleep by how much a thread's own sleep: the last bit is waited for with the CPU
// kept. One that gets no CPU ahead of other programs may be so late on a busy machine
// as lateWake, and wakes so much earlier.
const (
	lateTimer = 20 * time.Millisecond
	lateSleep = 60 * time.Microsecond
	lateWake  = 500 * time.Microsecond
)

// almost waits until shortly before a moment.
func almost(ctx context.Context, moment time.Time) error {
	left := time.Until(moment)
	if left <= lateTimer { // also of the zero time, from which nothing may be taken away
		return nil
	}
	timer := time.NewTimer(left - lateTimer)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
