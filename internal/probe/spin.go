package probe

import (
	"os"
	"runtime"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/sockets"
)

// A spinning loop offers its processor to other goroutines every spinYield
// polls, some 10 µs, which costs next to nothing while there are none, and
// looks at its deadline every spinCheck polls.
const (
	spinYield = 32
	spinCheck = 32 * spinYield
)

// onThread runs f on a goroutine of its own and waits for it. If it is to spin
// and this process can spare a CPU, f may; else f blocks in the kernel on a thread
// of its own, which keeps to cpus, and where says in the returned fact why. A
// spinning goroutine is not tied to a thread: yielding would change threads each
// time.
func onThread(spin bool, where string, cpus []int, f func(spin bool) error) (fact string, err error) {
	err = aside(func() error {
		if spin {
			if release, ok := sockets.Spin(); ok {
				defer release()
				return f(true)
			}
			fact = "the " + where + " blocked instead of spinning: it has no CPU to spare, or its system cannot poll"
		}
		defer sockets.Lock()()
		return pinned(cpus, func() error { return f(false) })
	})
	return fact, err
}

// waiting names, for a result, how an end waited.
func waiting(spin bool) string {
	if spin {
		return measurement.WaitSpin
	}
	return measurement.WaitBlocking
}

// patience counts the polls of one wait.
type patience struct{ polls int }

// yield counts a poll in vain and gives the scheduler its chance now and then.
func (p *patience) yield() {
	if p.polls++; p.polls%spinYield == 0 {
		runtime.Gosched()
	}
}

// spent is yield, and says whether the deadline has passed.
func (p *patience) spent(deadline time.Time) bool {
	p.yield()
	return p.polls%spinCheck == 0 && time.Now().After(deadline)
}

// spinRead is Read that polls instead of sleeping.
func (w *wire) spinRead(b []byte) (int, error) {
	var p patience
	for {
		n, err := w.TryRead(b)
		if err != sockets.ErrTick { //nolint:errorlint // TryRead's very value, in a hot loop
			return n, err
		}
		if p.spent(w.deadline) {
			return 0, os.ErrDeadlineExceeded
		}
	}
}

// spinWrite is Write that polls instead of sleeping.
func (w *wire) spinWrite(b []byte) (int, error) {
	var p patience
	for done := 0; ; {
		n, err := w.TryWrite(b[done:])
		done += n
		switch {
		case done == len(b):
			return done, nil
		case err != nil && err != sockets.ErrTick: //nolint:errorlint // as above
			return done, err
		case p.spent(w.deadline):
			return done, os.ErrDeadlineExceeded
		}
	}
}
