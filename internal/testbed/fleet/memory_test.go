package fleet

import (
	"math"
	"runtime/debug"
	"testing"
)

// A coordinator of thousands has a limit of memory while its fleet is open, unless its user
// has set one; one of few has none.
func TestLimitMemory(t *testing.T) {
	before := debug.SetMemoryLimit(math.MaxInt64)
	defer debug.SetMemoryLimit(before)
	for _, c := range []struct{ set, machines, want int64 }{
		{math.MaxInt64, 1000, math.MaxInt64}, {math.MaxInt64, 10_000, 849 << 20}, {5 << 30, 10_000, 5 << 30},
	} {
		debug.SetMemoryLimit(c.set)
		unlimit := limitMemory(int(c.machines))
		if got := debug.SetMemoryLimit(-1); got != c.want {
			t.Errorf("%d machines: a limit of %d bytes, want %d", c.machines, got, c.want)
		}
		unlimit()
		if got := debug.SetMemoryLimit(-1); got != c.set {
			t.Errorf("%d machines: a limit of %d bytes afterwards, want %d", c.machines, got, c.set)
		}
	}
}
