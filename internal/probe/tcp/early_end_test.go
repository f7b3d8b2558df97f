package tcp

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
)

// A test is over once a window of the asked length is full of steady throughput, wherever
// between the first and the longest warm-up that is, and never before.
func TestEarly(t *testing.T) {
	spec := measurement.Spec{Kind: measurement.TCP, Duration: 1, MaxWarmup: 2}
	// Seeded anew for each case: in one of 200 draws the late looks are uneven enough to be
	// waited out.
	var random *rand.Rand
	for name, c := range map[string]struct {
		rate           func(at, last float64) float64 // in bytes/s
		earliest, last time.Duration                  // over between them; 0: not at all
	}{
		"steady from the start": {func(_, last float64) float64 { return 1e6 }, 1200 * time.Millisecond, 1300 * time.Millisecond},
		"steady with noise":     {func(_, _ float64) float64 { return 1e6 * (0.9 + 0.2*random.Float64()) }, 1200 * time.Millisecond, 2900 * time.Millisecond},
		"slow start":            {func(at, _ float64) float64 { return min(1e4*max(1, at*at*at*1000), 1e6) }, 1400 * time.Millisecond, 1900 * time.Millisecond},
		"rises all the time":    {func(at, _ float64) float64 { return 1e6 * at }, 0, 0},
		"nothing arrives":       {func(_, _ float64) float64 { return 0 }, 0, 0},
	} {
		random = rand.New(rand.NewPCG(1, 2))
		e := newEarly(spec)
		at, moved, over := 0.0, 0.0, time.Duration(0)
		for i := 1; i <= 60 && !e.over.Load(); i++ {
			now := float64(i)*e.every().Seconds() + 0.004*random.Float64() // looks are late
			for ; at < now; at += 0.001 {
				moved += 0.001 * c.rate(at, now)
			}
			e.look(time.Duration(now*1e9), int64(moved))
			over = time.Duration(now * 1e9)
		}
		if !e.over.Load() {
			over = 0
		}
		if over < c.earliest || over > c.last+5*time.Millisecond {
			t.Errorf("%s: over after %v, want %v to %v", name, over, c.earliest, c.last)
		}
		if w := e.window; over > 0 && (w.last-w.first != 100 || w.last > len(e.bins) || w.first < 20) {
			t.Errorf("%s: the window is bins %d to %d of %d", name, w.first, w.last, len(e.bins))
		}
		sum := e.part
		for _, b := range e.bins {
			sum += b
		}
		if d := sum - e.moved; d > 1 || d < -1 {
			t.Errorf("%s: the bins hold %v of %v bytes", name, sum, e.moved)
		}
	}
}

// What arrives after the last bin that the receivers count is in no window, however late a
// look is and however long the test takes to end.
func TestEarlyIsWithinTheCount(t *testing.T) {
	for _, first := range []time.Duration{100 * time.Millisecond, 6 * time.Second} {
		e := newEarly(measurement.Spec{Kind: measurement.TCP, Duration: 1, MaxWarmup: 2})
		for at := first; at < 8*time.Second; at += 100 * time.Millisecond {
			e.look(at, int64(1e6*max(0, at.Seconds()-4))) // steady after the planned 3 s
		}
		if e.over.Load() {
			t.Errorf("first looked at after %v, the window is bins %d to %d of %d", first, e.window.first, e.window.last, e.most)
		}
	}
}
