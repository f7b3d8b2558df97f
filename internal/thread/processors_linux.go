package thread

import (
	"os"
	"runtime"
	"runtime/debug"
	"sync"
)

// mostProcessors bounds what AddProcessors adds in all: each takes memory, and the garbage
// collector and the scheduler visit every one.
const mostProcessors = 256

// rarePercent is how much the heap grows until it is collected while there are more
// processors than CPUs: a worker of the collector then runs on each that has nothing to do
// (66 of them took 0.3 s of CPU time for a heap of 16 MB), and interrupts every thread.
const rarePercent = 400

// added is how many there are besides those that this process began with.
var added struct {
	sync.Mutex
	n, began, percent int
}

// AddProcessors gives the Go runtime n more processors (GOMAXPROCS), until remove is called:
// one for each thread that is to wait in system calls of which the scheduler is not told,
// and so keeps one. It says whether it did; it does not where there would be too many.
func AddProcessors(n int) (remove func(), ok bool) {
	if n <= 0 || !resize(n) {
		return func() {}, false
	}
	return sync.OnceFunc(func() { resize(-n) }), true
}

func resize(n int) bool {
	added.Lock()
	defer added.Unlock()
	if added.n+n > mostProcessors {
		return false
	}
	if added.n == 0 {
		added.began = runtime.GOMAXPROCS(0)
		if added.percent = debug.SetGCPercent(rarePercent); added.percent < 0 || added.percent > rarePercent {
			debug.SetGCPercent(added.percent) // somebody wants it rarer
		}
	}
	added.n += n
	if added.n > 0 {
		runtime.GOMAXPROCS(added.began + added.n)
		return true
	}
	debug.SetGCPercent(added.percent)
	if os.Getenv("GOMAXPROCS") != "" {
		runtime.GOMAXPROCS(added.began)
	} else {
		runtime.SetDefaultGOMAXPROCS() // and follow the control group's limit again
	}
	return true
}
