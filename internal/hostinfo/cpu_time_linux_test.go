package hostinfo

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/testutil"
)

func TestParseStat(t *testing.T) {
	ticks := func(n int) time.Duration { return time.Duration(n) * 10 * time.Millisecond }
	text := "cpu  100 20 30 400 50 6 7 8 9 10\ncpu0 1 2 3 300 20 1 1\ncpu1 1 2 3 100 30\nintr 5 0 0\nctxt 991\nbtime 5\n"
	got, err := parseStat([]byte(text), ticks(500))
	testutil.OK(t, err)
	if got.CPUs != 2 || got.Total != ticks(1000) || got.Busy != ticks(550) || got.SoftIRQ != ticks(7) || got.Steal != ticks(8) || got.Switches != 991 {
		t.Errorf("%+v", got)
	}
	if want := []time.Duration{ticks(180), ticks(370)}; !slices.Equal(got.Each, want) {
		t.Errorf("each processor %v, want %v", got.Each, want)
	}
	for _, bad := range []string{
		"", "cpu  x\ncpu0 1\n", "cpu 1 2 3\n", "cpu0 1 2 3\n", "cpu 0 0 0 0\ncpu0 0 0 0 0\n", "cpu 1\ncpu0 1\nctxt\n",
	} {
		if _, err := parseStat([]byte(bad), time.Second); err == nil {
			t.Errorf("%q was understood", bad)
		}
	}
}

// A counter of nanoseconds of many CPUs over years does not fit: the
// differences must be right all the same.
func TestParseStatWrapsAround(t *testing.T) {
	read := func(idle string, after time.Duration) CPUTimes {
		c, err := parseStat([]byte("cpu 1 0 0 "+idle+"\ncpu0 1 0 0 1\n"), after)
		testutil.OK(t, err)
		return c
	}
	a, b := read("922337203680", time.Hour), read("922337203780", time.Hour+3*time.Second)
	if got := b.Busy - a.Busy; got != 2*time.Second {
		t.Errorf("busy %v, want 2s", got)
	}
}

// The time this very process spends is part of what the host spends.
func TestReadCPUSeesThisProcess(t *testing.T) {
	start := time.Now()
	first, err := ReadCPU()
	testutil.OK(t, err)
	spent := spin(t, 300*time.Millisecond)
	last, err := ReadCPU()
	testutil.OK(t, err)
	// Idle time of both readings is cut to 10 ms.
	const resolution = 10 * time.Millisecond
	busy, total := last.Busy-first.Busy, last.Total-first.Total
	if busy < spent-resolution {
		t.Errorf("the host was busy for %v, this process alone for %v", busy, spent)
	}
	if limit := time.Since(start) * time.Duration(last.CPUs); total > limit+resolution || busy > total+resolution {
		t.Errorf("busy %v of %v, in a time of %v", busy, total, limit)
	}
	if last.Switches < first.Switches || last.Switches == 0 {
		t.Errorf("context switches went from %d to %d", first.Switches, last.Switches)
	}
	if len(last.Each) != last.CPUs {
		t.Errorf("%d of %d processors", len(last.Each), last.CPUs)
	}
}

func FuzzParseStat(f *testing.F) {
	text, err := os.ReadFile("/proc/stat")
	testutil.OK(f, err)
	f.Add(text)
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, err := parseStat(b, time.Hour); err == nil && (got.CPUs < 1 || len(got.Each) != got.CPUs) {
			t.Errorf("%q: %+v", b, got)
		}
	})
}
