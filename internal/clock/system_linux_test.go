package clock

import (
	"testing"
	"time"
)

// Two moments are as far apart by the machine's clock as they are by this process's.
func TestSystem(t *testing.T) {
	moment := time.Now()
	at, u1, ok1 := System(moment)
	later, u2, ok2 := System(moment.Add(time.Second))
	if off := (later - at - time.Second).Abs(); !ok1 || !ok2 || u1 <= 0 || off > u1+u2 {
		t.Errorf("%v ± %v (%v), then %v ± %v (%v)", at, u1, ok1, later, u2, ok2)
	}
	if _, _, ok := System(time.Time{}); ok {
		t.Error("a moment without a monotonic reading has a time")
	}
}
