package linkem

import "runtime"

// TuneProcess prepares a process that does nothing but carry so many link emulators at
// once; call it once, before the first Run. Each direction keeps a thread in
// system calls of which the Go scheduler is not told, so there must be more of
// the scheduler's processors than directions, whatever the number of real
// ones; otherwise a busy direction holds up another one, or who asks for its
// counters, for milliseconds.
func TuneProcess(emulators int) error {
	runtime.GOMAXPROCS(max(runtime.NumCPU(), 2*emulators+2))
	return nil
}
