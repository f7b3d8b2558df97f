package sockets

import (
	"syscall"
	"time"
)

// keeper says whether the thread of a flow keeps a processor of the Go runtime for itself
// while a call waits.
//
// To give it away has the runtime's monitor look every 20 µs, and costs other threads up to
// three context switches a call: across one hop on 2 CPUs, 8 and 64 flows carried 1.2 times
// as much without. But the monitor interrupts a thread that keeps one every 10 ms or so, at
// some 20 µs, so only a flow that carries fastBytes in fastTime, 1 Gbit/s, keeps it.
type keeper struct {
	may, now bool
	moved    int
	since    time.Time
}

const (
	fastTime  = 5 * time.Millisecond
	fastBytes = 1e9 / 8 * int(fastTime) / int(time.Second)
)

// KeepProcessor says that the goroutine that transfers on a detached Conn has a processor
// of the Go runtime for itself (thread.AddProcessors).
func (c *Conn) KeepProcessor() { c.keeps.may = true }

// count takes note of the bytes that a call moved, unless it failed.
func (k *keeper) count(n int, errno syscall.Errno) {
	if !k.may {
		return
	}
	if errno == 0 {
		k.moved += n
	}
	if now := time.Now(); now.Sub(k.since) >= fastTime {
		bound := fastBytes * int(now.Sub(k.since)) / int(fastTime)
		k.now, k.moved, k.since = k.moved >= bound, 0, now
	}
}
