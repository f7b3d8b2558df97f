package sockets

import (
	"sync/atomic"
	"time"
)

// Keeper says whether the threads of the flows of a test each keep a processor of the Go
// runtime (thread.AddProcessors) while a call waits.
//
// To give it away has the runtime's monitor look every 20 µs, and costs other threads up to
// three context switches a call: across one hop on 2 CPUs, 8 and 64 flows carried 1.2 to 1.5
// times as much without. But the monitor interrupts a thread that keeps one every 10 ms or
// so, at some 20 µs. So flows keep theirs from the beginning, give them away when they carry
// little, and take them back when they carry much: all together, since one that
// gives its own away keeps the monitor awake for all, and flows that take turns on a CPU
// rest for a long time each.
type Keeper struct {
	flows  int
	began  time.Time
	away   atomic.Bool  // they give their own away
	moved  atomic.Int64 // bytes of all flows since
	since  atomic.Int64 // so many nanoseconds after began, 0 before the first call
	little atomic.Int32 // intervals in a row in which they carried little
}

const (
	keepInterval = 100 * time.Millisecond
	// patience is for how many intervals in a row those carry little that give theirs away.
	// Many flows begin slowly: 64 took two seconds to what took them half a second where they
	// did not give theirs away meanwhile.
	patience = 5
	// muchBytes is what each flow carries in that, in the mean, that takes its own back, at
	// 0.5 Gbit/s, and littleBytes what one carries at most that gives it away.
	muchBytes   = 1e9 / 16 * int64(keepInterval) / int64(time.Second)
	littleBytes = muchBytes / 2
)

// NewKeeper is for so many flows of one end, each with a processor for itself.
func NewKeeper(flows int) *Keeper { return &Keeper{flows: flows, began: time.Now()} }

// KeepProcessor has a detached Conn count for k, and transfer as it says. Nil changes nothing.
func (c *Conn) KeepProcessor(k *Keeper) { c.keeper = k }

// keeps says whether the next call keeps the processor.
func (k *Keeper) keeps() bool { return k != nil && !k.away.Load() }

// count takes note of the bytes that a call moved.
func (k *Keeper) count(n int) {
	if k == nil {
		return
	}
	k.moved.Add(int64(n))
	now, since := int64(time.Since(k.began)), k.since.Load()
	if since == 0 {
		k.since.CompareAndSwap(0, max(now, 1)) // the wait for START says nothing
		return
	}
	if now-since < int64(keepInterval) || !k.since.CompareAndSwap(since, now) {
		return
	}
	carried := float64(k.moved.Swap(0)) / float64(k.flows) * float64(keepInterval) / float64(now-since)
	switch {
	case carried >= float64(muchBytes):
		k.away.Store(false)
		k.little.Store(0)
	case carried >= float64(littleBytes):
		k.little.Store(0)
	case k.little.Add(int32(min((now-since)/int64(keepInterval), patience))) >= patience:
		k.away.Store(true)
	}
}
