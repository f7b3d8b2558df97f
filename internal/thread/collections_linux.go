package thread

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// collections has the garbage collector run seldom while there are more processors. It stops
// every thread twice, has each scanned that runs, and works on a quarter of all processors:
// with 64 threads that fill 2 CPUs one collection took 0.7 to 1.4 s, of which 0.5 s of CPU
// time, and the last threads went on after more than a second.
type collections struct {
	before, percent int // GOGC (runtime/debug.SetGCPercent)
	watched         bool
}

const (
	// collectEvery is after how many bytes a collection begins at the earliest.
	collectEvery = 32 << 20
	// mostPercent is for a heap that is nearly empty.
	mostPercent = 800
)

// percentFor is the GOGC with which a heap grows by collectEvery, of which so many bytes are
// scanned: the heap's goal is what is live, and GOGC percent of that and of stacks and globals
// (A Guide to the Go Garbage Collector, GOGC). It is at least least.
func percentFor(scanned uint64, least int) int {
	return max(least, int(min(collectEvery*100/max(scanned, 1), mostPercent)))
}

// begin and end have a caller that holds the lock of added.
func (c *collections) begin() {
	c.before = debug.SetGCPercent(-1)
	if c.percent = c.before; c.before > 0 { // else its user has switched it off
		c.percent = percentFor(scanned(), c.before)
		c.watch()
	}
	debug.SetGCPercent(c.percent)
}

func (c *collections) end() { debug.SetGCPercent(c.before) }

// watch has adjust called after the next collection.
func (c *collections) watch() {
	if c.watched {
		return
	}
	c.watched = true
	type cycle struct{ _ *int } // with a pointer, so that it shares no block with another object
	runtime.AddCleanup(&cycle{}, func(c *collections) {
		added.Lock()
		defer added.Unlock()
		if c.watched = false; added.n > 0 {
			c.adjust()
			c.watch()
		}
	}, c)
}

// adjust follows a heap that has grown: what is right for a small one would have a large one
// take several times its memory. To change it for less would stop all threads for nothing.
func (c *collections) adjust() {
	if percent := percentFor(scanned(), c.before); percent < c.percent/2 {
		c.percent = percent
		debug.SetGCPercent(percent)
	}
}

// scanned is what GOGC is a percentage of, in bytes: what was live at the last collection, and
// the stacks and globals that were scanned.
func scanned() (sum uint64) {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	metrics.Read(s)
	for _, one := range s {
		if one.Value.Kind() == metrics.KindUint64 {
			sum += one.Value.Uint64()
		}
	}
	return sum
}
