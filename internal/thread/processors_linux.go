package thread

import (
	"os"
	"runtime"
	"sync"
)

// mostProcessors bounds what AddProcessors adds in all: each takes memory, and the garbage
// collector and the scheduler visit every one.
const mostProcessors = 256

// added is how many there are besides those that this process began with.
var added struct {
	sync.Mutex
	n, began    int
	collections collections
}

// AddProcessors gives the Go runtime n more processors (GOMAXPROCS), until remove is called:
// one for each thread that is to wait in system calls of which the scheduler is not told,
// and so keeps one. Meanwhile the garbage collector runs seldom. It says whether it did; it
// does not where there would be too many.
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
		added.collections.begin()
	}
	added.n += n
	if added.n > 0 {
		runtime.GOMAXPROCS(added.began + added.n)
		return true
	}
	added.collections.end()
	if os.Getenv("GOMAXPROCS") != "" {
		runtime.GOMAXPROCS(added.began)
	} else {
		runtime.SetDefaultGOMAXPROCS() // and follow the control group's limit again
		if runtime.GOMAXPROCS(0) == 1 && added.began > 1 {
			runtime.GOMAXPROCS(added.began) // a lone CPU may have been given spare ones
		}
	}
	return true
}
