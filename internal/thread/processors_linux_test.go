package thread

import (
	"runtime"
	"testing"
)

// Processors that are added go away with the last who asked for them.
func TestAddProcessors(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	has := func(what string, want int) {
		t.Helper()
		if got := runtime.GOMAXPROCS(0); got != want {
			t.Errorf("%s: %d processors, want %d", what, got, want)
		}
	}
	removeOne, ok := AddProcessors(3)
	has("the first", before+3)
	removeOther, ok2 := AddProcessors(mostProcessors - 3)
	has("the second", before+mostProcessors)
	if _, ok := AddProcessors(1); ok {
		t.Error("more than are to be had")
	}
	removeOne()
	removeOne() // does nothing
	has("the second alone", before+mostProcessors-3)
	removeOther()
	has("none", before)
	if !ok || !ok2 {
		t.Errorf("not added: %v, %v", ok, ok2)
	}
}
