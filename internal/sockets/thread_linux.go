package sockets

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Thread is a thread of this process whose time can be read from any other.
type Thread struct{ schedule string }

// CurrentThread is the calling one, which must be locked.
func CurrentThread() *Thread {
	return &Thread{fmt.Sprintf("/proc/self/task/%d/schedstat", unix.Gettid())}
}

// Wanted is for how long the thread ran, or waited for a CPU, since it began: the
// first two numbers of its schedstat (Documentation/scheduler/sched-stats.rst). It is
// 0 where the system does not tell, and on nil.
func (t *Thread) Wanted() time.Duration {
	if t == nil {
		return 0
	}
	text, err := os.ReadFile(t.schedule)
	if err != nil {
		return 0
	}
	var ran, waited int64
	if n, _ := fmt.Sscan(string(text), &ran, &waited); n < 2 {
		return 0
	}
	return time.Duration(ran + waited)
}
