package fleet

import (
	"math"
	"runtime/debug"
)

const (
	// fewMachines need no limit.
	fewMachines = 1000
	// memoryOfMachine is what is in use of each machine, most of the time: 35 KiB of objects,
	// and the stacks of three goroutines.
	memoryOfMachine = 64 << 10
	// memoryOfRun is for all else of a run.
	memoryOfRun = 224 << 20
)

// limitMemory has the collector run more often before this process takes more than a fleet
// of so many machines needs, unless its user has set another limit (GOMEMLIMIT), until the
// returned function is called. Without that, stacks alone would take 50 KiB of each machine:
// the goroutine of the broker's that writes to it needs 24 KiB for that, and only a collection
// makes its stack small again.
func limitMemory(machines int) (unlimit func()) {
	if machines <= fewMachines || debug.SetMemoryLimit(-1) != math.MaxInt64 {
		return func() {}
	}
	debug.SetMemoryLimit(memoryOfRun + int64(machines)*memoryOfMachine)
	return func() { debug.SetMemoryLimit(math.MaxInt64) }
}
