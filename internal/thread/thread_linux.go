// Package thread is about threads of this process: which CPUs they may run on, how long
// they ran, and sleeps more exact than those of the runtime's timers. What a system does
// not offer is unknown, refused, or done by the runtime.
package thread

import (
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Thread is a thread of this process whose time can be read from any other.
type Thread struct{ schedule *byte } // the file's name, ended by a zero

// Current is the calling one, which must be locked.
func Current() *Thread {
	// Its number is that of the namespace whose /proc this is, which may not be its own.
	task, err := os.Readlink("/proc/thread-self")
	if err != nil {
		task = fmt.Sprintf("self/task/%d", unix.Gettid())
	}
	return &Thread{unsafe.StringData("/proc/" + task + "/schedstat\x00")}
}

// Wanted is for how long the thread ran, or waited for a CPU, since it began: the
// first two numbers of its schedstat (Documentation/scheduler/sched-stats.rst). It is
// 0 where the system does not tell, and on nil.
func (t *Thread) Wanted() time.Duration {
	if t == nil {
		return 0
	}
	// Samplers ask many times a second, of many threads, while what they read is measured:
	// so nothing is allocated.
	here := unix.AT_FDCWD
	fd, _, errno := syscall.Syscall6(unix.SYS_OPENAT, uintptr(here), uintptr(unsafe.Pointer(t.schedule)), unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
	if errno != 0 {
		return 0
	}
	var text [64]byte
	n, err := unix.Read(int(fd), text[:])
	if unix.Close(int(fd)) != nil || err != nil {
		return 0
	}
	return sumOfTwo(text[:n])
}

// sumOfTwo adds up the first two numbers of a text that counts nanoseconds. It is 0
// unless there are two.
func sumOfTwo(text []byte) (sum time.Duration) {
	numbers, number, digits := 0, time.Duration(0), false
	for _, c := range text {
		if c >= '0' && c <= '9' {
			number, digits = number*10+time.Duration(c-'0'), true
			continue
		}
		if digits {
			sum, number, digits = sum+number, 0, false
			if numbers++; numbers == 2 {
				return sum
			}
		}
	}
	return 0
}

// PreciseTimers lets the calling thread, which must be locked, wake when it asked to,
// not up to 50 µs later (PR_SET_TIMERSLACK(2const)), until the returned function is
// called.
func PreciseTimers() func() {
	// A kernel that refuses only wakes it later; what is late is counted.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	return func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) }
}

// quickSlice is the least that the kernel takes for a slice of an ordinary thread
// (sched_setattr(2)): one with a shorter slice than the running one's is let ahead when it
// wakes (EEVDF, since Linux 6.12).
const quickSlice = 100 * time.Microsecond

// First lets the calling thread, which must be locked, run before ordinary ones as soon as
// it wakes (SCHED_FIFO, sched(7)), or, for who may not have that, ahead of most of them,
// until release is called. It says whether the former was allowed.
func First() (allowed bool, release func()) {
	before, err := unix.SchedGetAttr(0, 0)
	if err != nil || before.Policy != unix.SCHED_NORMAL {
		return false, func() {} // somebody has decided otherwise
	}
	// This flag cannot be taken back, so it stays as it is; the other ones say what to set.
	before.Flags &= unix.SCHED_FLAG_RESET_ON_FORK
	fifo := &unix.SchedAttr{Policy: unix.SCHED_FIFO, Priority: 1, Flags: before.Flags}
	allowed = unix.SchedSetAttr(0, fifo, 0) == nil
	if !allowed {
		quick := *before
		quick.Runtime = uint64(quickSlice)
		if unix.SchedSetAttr(0, &quick, 0) != nil {
			return false, func() {}
		}
	}
	return allowed, func() { _ = unix.SchedSetAttr(0, before, 0) } // what it had before, it may have
}

// Sleep blocks the thread for d: the runtime's timers are up to a millisecond
// late. It may return early when a signal comes.
func Sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	t := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&t, nil) // EINTR: the caller looks at the clock
}
