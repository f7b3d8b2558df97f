package sockets

import (
	"runtime"
	"sync/atomic"
)

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
