package session

import (
	"fmt"
	"sync/atomic"

	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/sockets"
)

// mostThreads bounds the threads that the flows of a client's tests have for their
// own, all tests of a process together. Go itself gives up at 10 000; that a system
// refuses one ends the process.
const mostThreads = 1024

// takenThreads are those in use.
var takenThreads atomic.Int64

// allowedThreads is how many the flows of this process may have: half of those that
// the system lets it have, for others need some, too.
func allowedThreads() int {
	if limit := hostinfo.MaxThreads(); limit > 0 {
		return min(mostThreads, limit/2)
	}
	return mostThreads
}

// TakeThreads says whether n flows may have a thread each, until giveBack is called.
func TakeThreads(n int) (ok bool, giveBack func()) {
	if takenThreads.Add(int64(n)) > int64(allowedThreads()) {
		takenThreads.Add(int64(-n))
		return false, func() {}
	}
	return true, func() { takenThreads.Add(int64(-n)) }
}

// NeedThreads is takeThreads for flows that cannot do without.
func NeedThreads(n int) (giveBack func(), err error) {
	ok, giveBack := TakeThreads(n)
	if ok {
		return giveBack, nil
	}
	return nil, &Error{Op: "prepare the test", Reason: Unsupported, Err: fmt.Errorf(
		"%d flows need a thread each, and the tests of this process may have %d, half of what the system allows it (ulimit -u, pids.max of its control group) and at most %d: raise that or take fewer flows",
		n, allowedThreads(), mostThreads)}
}

// Scheduling names, for a result, what the flows of an end ran on.
func Scheduling(threads bool) string {
	if threads {
		return measurement.ThreadPerFlow
	}
	return measurement.SharedPoller
}

// ThreadConnections is up to how many connections of a tcp test have a thread
// each at either end; more share the runtime's poller.
const ThreadConnections = 64

// SharesPoller says whether the flows of a test are too many for a thread each,
// by themselves or with those of other tests.
func SharesPoller(spec measurement.Spec) bool {
	return spec.Kind == measurement.TCP && (spec.ShareThreads || kind.Connections(spec) > ThreadConnections)
}

// TakeThread gives the calling goroutine a thread of its own until the returned
// function is called, if its test got them.
func TakeThread(w *ControlConn, o *Flow) (release func(), err error) {
	if !o.Test.Threaded {
		return func() {}, nil
	}
	return sockets.Lock(), w.Detach()
}
