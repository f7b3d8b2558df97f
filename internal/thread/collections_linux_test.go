package thread

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestPercentFor(t *testing.T) {
	for _, c := range []struct {
		scanned uint64
		least   int
		want    int
	}{
		{0, 100, mostPercent}, {1 << 20, 100, mostPercent}, {8 << 20, 100, 400}, {collectEvery, 100, 100},
		{1 << 30, 100, 100}, {1 << 40, 100, 100}, {8 << 20, 1000, 1000}, {8 << 20, 50, 400}, {1 << 30, 50, 50},
	} {
		if got := percentFor(c.scanned, c.least); got != c.want {
			t.Errorf("%d bytes, at least %d: %d, want %d", c.scanned, c.least, got, c.want)
		}
	}
}

// gogc is what the collector is set to.
func gogc() int {
	percent := debug.SetGCPercent(-1)
	debug.SetGCPercent(percent)
	return percent
}

// Collections are seldom while there are more processors, become more frequent again as the heap
// grows, and are afterwards as they were.
func TestCollectionsAreSeldom(t *testing.T) {
	before := gogc()
	remove, ok := AddProcessors(2)
	if !ok {
		t.Fatal("no processors to be had")
	}
	few := gogc()
	if few <= before {
		t.Errorf("GOGC is %d with more processors, and was %d", few, before)
	}
	again, _ := AddProcessors(1)
	remove()
	if now := gogc(); now != few {
		t.Errorf("GOGC is %d while there still are more processors, and was %d", now, few)
	}
	var live [][]byte
	for range 64 {
		live = append(live, make([]byte, 1<<20))
	}
	for began := time.Now(); gogc() == few && time.Since(began) < time.Minute; runtime.Gosched() {
		runtime.GC()
	}
	if now := gogc(); now >= few/2 || now < before {
		t.Errorf("GOGC is %d with 64 MB live, and was %d with few", now, few)
	}
	runtime.KeepAlive(live)
	again()
	if now := gogc(); now != before {
		t.Errorf("GOGC is %d afterwards, and was %d", now, before)
	}
}

// Who has switched collections off keeps them so.
func TestCollectionsOff(t *testing.T) {
	before := debug.SetGCPercent(-1)
	defer debug.SetGCPercent(before)
	remove, _ := AddProcessors(1)
	if now := gogc(); now != -1 {
		t.Errorf("GOGC is %d", now)
	}
	remove()
	if now := gogc(); now != -1 {
		t.Errorf("GOGC is %d afterwards", now)
	}
}
