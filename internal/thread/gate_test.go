package thread

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hopbench/hopbench/internal/testutil"
)

// Nobody passes a gate before it is open, and everybody afterwards.
func TestGate(t *testing.T) {
	g, err := NewGate()
	testutil.OK(t, err)
	var coming, passed sync.WaitGroup
	var open atomic.Bool
	for range 32 {
		coming.Add(1)
		passed.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			coming.Done()
			if g.Wait(); !open.Load() {
				t.Error("a thread passed a gate that was shut")
			}
		})
	}
	coming.Wait()
	runtime.GC() // and its signals let nobody pass
	open.Store(true)
	g.Open()
	g.Open()
	passed.Wait()
	g.Wait()
	testutil.OK(t, g.Close())
}
