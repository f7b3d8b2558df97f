package idps

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/testutil"
)

// perCore reports how much payload one CPU inspects in a second of its
// time, which other load on the machine takes nothing of. It returns what to
// call at the end, with the bytes that were inspected.
func perCore(b *testing.B) (end func(bytes float64)) {
	runtime.LockOSThread()
	used := func() time.Duration {
		var u unix.Rusage
		testutil.OK(b, unix.Getrusage(unix.RUSAGE_THREAD, &u))
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	start := used()
	return func(bytes float64) {
		b.ReportMetric(bytes*8/1e9/(used()-start).Seconds(), "Gbit/s-per-core")
		runtime.UnlockOSThread()
	}
}
