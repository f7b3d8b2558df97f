package sockets

import "golang.org/x/sys/unix"

// AllowedCPUs are those that the calling thread may run on, as sched_setaffinity(2)
// numbers them, in ascending order; nil if the kernel does not say.
func AllowedCPUs() []int {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
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
