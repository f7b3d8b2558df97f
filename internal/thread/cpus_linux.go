package thread

import (
	"runtime"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// AllowedCPUs are those that the calling thread may run on and be kept to, as
// sched_setaffinity(2) numbers them, in ascending order; nil if the kernel does not say, or
// a filter of system calls (seccomp(2)) lets no thread be kept to some. Asked for no CPU at
// all, the kernel changes nothing and finds that invalid.
func AllowedCPUs() []int {
	var set, none unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil || unix.SchedSetaffinity(0, &none) != unix.EINVAL { //nolint:errorlint // a bare errno
		return nil
	}
	var cpus []int
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}

// Pin keeps the calling thread, which must be locked, on some CPUs until the
// returned function is called. It fails where the thread may run on none of them.
func Pin(cpus []int) (unpin func(), err error) {
	var before, only unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return nil, err
	}
	for _, cpu := range cpus {
		only.Set(cpu)
	}
	if err := unix.SchedSetaffinity(0, &only); err != nil {
		return nil, err
	}
	// The set was valid; should CPUs have gone since, the kernel has already let
	// the thread go.
	return func() { _ = unix.SchedSetaffinity(0, &before) }, nil
}

// spinning counts the goroutines of this process that poll without sleeping.
var spinning atomic.Int32

// Spin asks for a CPU to poll on. It is refused when that would leave
// this process none for everything else: polling must starve neither the Go
// runtime nor another test. The returned function gives the CPU back.
func Spin() (release func(), ok bool) {
	spare := int32(min(runtime.GOMAXPROCS(0), runtime.NumCPU())) - 1
	if spinning.Add(1) > spare {
		spinning.Add(-1)
		return nil, false
	}
	return func() { spinning.Add(-1) }, true
}
