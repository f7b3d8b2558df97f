package thread

import (
	"runtime"
	"testing"

	"github.com/hopbench/hopbench/internal/testutil"
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

// Where there is one CPU, the spare processors that the process began with stay.
func TestAddProcessorsOnOneCPU(t *testing.T) {
	t.Setenv("GOMAXPROCS", "") // it may have been set for the tests
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	unpin, err := Pin(AllowedCPUs()[:1])
	testutil.OK(t, err)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	defer unpin()
	remove, ok := AddProcessors(1)
	remove()
	if got := runtime.GOMAXPROCS(0); !ok || got != 4 {
		t.Errorf("%d processors of 4 are left (%v)", got, ok)
	}
}
