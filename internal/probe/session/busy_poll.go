package session

import (
	"runtime"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/sockets"
	"github.com/hopbench/hopbench/internal/thread"
)

// A spinning loop offers its CPU to other goroutines every spinYield
// polls, some 10 µs, which costs next to nothing while there are none, and
// looks at its deadline every spinCheck polls.
const (
	SpinYield = 32
	spinCheck = 32 * SpinYield
)

// OnThread runs f on a goroutine of its own and waits for it. If it is to spin
// and this process can spare a CPU, f may; else f blocks in the kernel on a thread
// of its own, which keeps to cpus, and where says in the returned fact why. A
// spinning goroutine is not tied to a thread: yielding would change threads each
// time.
func OnThread(spin bool, where string, cpus []int, f func(spin bool) error) (fact string, err error) {
	err = OnFreshStack(func() error {
		if spin {
			if release, ok := thread.Spin(); ok {
				defer release()
				return f(true)
			}
			fact = "the " + where + " blocked instead of spinning: it has no CPU to spare, or its system cannot poll"
		}
		defer sockets.Lock()()
		return Pinned(cpus, func() error { return f(false) })
	})
	return fact, err
}

// WaitMethod names, for a result, how an end waited.
func WaitMethod(spin bool) string {
	if spin {
		return measurement.WaitSpin
	}
	return measurement.WaitBlocking
}

// Patience counts the polls of one wait.
type Patience struct{ polls int }

// Yield counts a poll in vain and gives the scheduler its chance now and then.
func (p *Patience) Yield() {
	if p.polls++; p.polls%SpinYield == 0 {
		runtime.Gosched()
	}
}

// Spent is yield, and says whether the deadline has passed.
func (p *Patience) Spent(deadline time.Time) bool {
	p.Yield()
	return p.polls%spinCheck == 0 && time.Now().After(deadline)
}

// SpinRead is Read that polls instead of sleeping.
func (w *ControlConn) SpinRead(b []byte) (int, error) {
	var p Patience
	for {
		n, err := w.TryRead(b)
		if err != sockets.ErrTick { //nolint:errorlint // TryRead's very value, in a hot loop
			return n, err
		}
		if p.Spent(w.Deadline) {
			return 0, ErrSilent
		}
	}
}

// SpinWrite is Write that polls instead of sleeping.
func (w *ControlConn) SpinWrite(b []byte) (int, error) {
	var p Patience
	for done := 0; ; {
		n, err := w.TryWrite(b[done:])
		done += n
		switch {
		case done == len(b):
			return done, nil
		case err != nil && err != sockets.ErrTick: //nolint:errorlint // as above
			return done, err
		case p.Spent(w.Deadline):
			return done, ErrSilent
		}
	}
}
