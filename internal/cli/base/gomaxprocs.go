package base

import (
	"runtime"
)

// SpareProcessor keeps flows from waiting for each other where there is one
// processor: their system calls block, and a blocked call gives its Go
// CPU back only after a while.
func SpareProcessor() {
	const enough = 4
	if runtime.GOMAXPROCS(0) == 1 {
		runtime.GOMAXPROCS(enough)
	}
}
