package thread

import (
	"time"

	"golang.org/x/sys/unix"
)

// shortSlice is how long the scheduler lets a thread of many run at a time, while it keeps to
// it. With its own choice, 3 ms and more, and 64 threads on 2 CPUs, one that ran for longer
// than its turn, as with packets that came in between, waits until all have had as much: of
// 640 flows 18 stood still for half a second, and with this 4 of 512.
const shortSlice = 500 * time.Microsecond

// ShortSlice asks the scheduler to have the calling thread, to which its goroutine is locked,
// take turns with others more often, until restore is called, and not for a smaller share
// (sched_setattr(2), a slice for SCHED_NORMAL since Linux 6.12). A system that lacks it or
// does not allow it has lost nothing.
func ShortSlice() (restore func()) {
	before, err := unix.SchedGetAttr(0, 0)
	if err != nil || before.Policy != unix.SCHED_NORMAL || 0 < before.Runtime && before.Runtime <= uint64(shortSlice) {
		return func() {}
	}
	short := *before
	short.Runtime = uint64(shortSlice)
	if unix.SchedSetAttr(0, &short, 0) != nil {
		return func() {}
	}
	// It worked just now; and a thread that went on with short turns would lose nothing.
	return func() { _ = unix.SchedSetAttr(0, before, 0) }
}
