package thread

import (
	"os"
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/hopbench/hopbench/internal/testutil"
)

// A pinned thread may run on those CPUs alone, and afterwards on all as before.
func TestPin(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := AllowedCPUs()
	if len(before) == 0 {
		t.Fatal("this thread may run on no CPU")
	}
	last := before[len(before)-1:]
	unpin, err := Pin(last)
	testutil.OK(t, err)
	if got := AllowedCPUs(); !slices.Equal(got, last) {
		t.Errorf("pinned to %v it may run on %v", last, got)
	}
	unpin()
	if got := AllowedCPUs(); !slices.Equal(got, before) {
		t.Errorf("it might run on %v before, on %v afterwards", before, got)
	}
	if _, err := Pin([]int{1023}); err == nil && !slices.Contains(before, 1023) {
		t.Error("it was pinned to a CPU on which it may not run")
	}
}

// Where a container or a service may not keep threads to CPUs, there are none to choose from.
func TestPinningRefused(t *testing.T) {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number of the system call (struct seccomp_data)
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_SCHED_SETAFFINITY},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EACCES)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	var errno unix.Errno
	var cpus []int
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for ever: the filter, and the thread, end with this goroutine
		if errno, _ = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0).(unix.Errno); errno == 0 {
			_, _, errno = unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
		}
		cpus = AllowedCPUs()
	}()
	<-done
	testutil.Need(t, errno != unix.ENOSYS && errno != unix.EINVAL, "a kernel with CONFIG_SECCOMP_FILTER")
	if errno != 0 || cpus != nil {
		t.Errorf("%v; a thread that cannot be kept to CPUs may be kept to %v", errno, cpus)
	}
}

// Those that spin never take all CPUs.
func TestSpinLeavesAProcessor(t *testing.T) {
	taken := 0
	for {
		release, ok := Spin()
		if !ok {
			break
		}
		defer release()
		taken++
	}
	if taken >= runtime.NumCPU() {
		t.Errorf("%d may spin on %d processors", taken, runtime.NumCPU())
	}
}

// A thread that was let ahead is an ordinary one again afterwards.
func TestFirst(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := unix.SchedGetAttr(0, 0)
	testutil.OK(t, err)
	allowed, release := First()
	if during, err := unix.SchedGetAttr(0, 0); err != nil || os.Geteuid() == 0 && before.Policy == unix.SCHED_NORMAL && during.Policy == before.Policy && during.Runtime == before.Runtime && before.Runtime != 0 {
		t.Errorf("%+v, %v: as before", during, err)
	}
	if during, err := unix.SchedGetAttr(0, 0); err != nil || before.Policy == unix.SCHED_NORMAL && allowed != (during.Policy == unix.SCHED_FIFO) {
		t.Errorf("allowed %v, and it is %+v, %v", allowed, during, err)
	}
	release()
	if after, err := unix.SchedGetAttr(0, 0); err != nil || *after != *before {
		t.Errorf("%+v before, %+v afterwards, %v", before, after, err)
	}
}

// A thread that ran wanted a CPU for longer than before; of one that is not there nothing
// is known.
func TestWanted(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	here := Current()
	for first := here.Wanted(); here.Wanted() <= first; { // to read it takes time, too
	}
	if n := testing.AllocsPerRun(10, func() { here.Wanted() }); n > 0 && !testutil.RaceEnabled { // the detector allocates
		t.Errorf("%v allocations", n)
	}
	nobody := "/proc/self/task/0/schedstat\x00"
	if got := (&Thread{unsafe.StringData(nobody)}).Wanted(); got != 0 {
		t.Errorf("%v of no thread", got)
	}
}

func TestSumOfTwo(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"12 30 5\n": 42, "0 7 1\n": 7, "12 30 ": 42, "12": 0, "": 0, "\n": 0, " 1  2 ": 3, "x": 0,
		"4611686018427387904 1 9\n": 4611686018427387905,
	} {
		if got := sumOfTwo([]byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// In a lab in a container that allows no fresh /proc, threads have other numbers there.
func TestWantedBelowAnotherProc(t *testing.T) {
	testutil.InNamespaces(t, unix.CLONE_NEWPID, func(t *testing.T) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		here := Current()
		for range 1 << 16 {
			if here.Wanted() > 0 {
				return
			}
		}
		t.Error("the thread's time is unknown")
	})
}
