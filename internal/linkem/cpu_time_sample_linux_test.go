package linkem

import (
	"math"
	"runtime"
	"testing"
)

// What the sample says of the whole is, on average, the whole.
func TestMeterGaps(t *testing.T) {
	const rounds = 1_000_000
	m := newMeter(1, 0)
	measured := 0
	for range rounds {
		if m.left == 1 {
			measured++
		}
		m.begin()
	}
	// A gap is uniform from 1 to 31: variance (31² − 1)/12 = 80, so the number in
	// so many rounds has a standard deviation of √(rounds·80/16³) ≈ 140.
	if want := float64(rounds) / meterGap; math.Abs(float64(measured)-want) > 6*140 {
		t.Errorf("%d of %d were measured, want about %.0f", measured, rounds, want)
	}
}

func TestMeter(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	m := newMeter(1, 0)
	if m.end(0) != 0 {
		t.Error("what was not measured counts")
	}
	began := threadTime()
	if began == 0 {
		t.Fatal("this system tells no thread its time")
	}
	sum := 0
	for threadTime() == began {
		sum++ // until some time was spent
	}
	if got := m.end(began); got == 0 || got%meterGap != 0 {
		t.Errorf("%d ns after %d rounds, want a multiple of %d", got, sum, meterGap)
	}
	if m.end(math.MaxInt64) != 0 {
		t.Error("a clock that went back counts")
	}
}
