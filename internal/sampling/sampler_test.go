package sampling

import (
	"math"
	"testing"
)

func TestInterpolate(t *testing.T) {
	xs, ys := []float64{1, 2, 2, 4}, []float64{10, 20, 20, 40}
	for x, want := range map[float64]float64{0: 10, 1: 10, 1.5: 15, 2: 20, 3: 30, 4: 40, 9: 40} {
		if got := Interpolate(xs, ys, x); math.Abs(got-want) > 1e-12 {
			t.Errorf("at %v: %v, want %v", x, got, want)
		}
	}
	if Interpolate(nil, nil, 1) != 0 {
		t.Error("no points")
	}
}

func TestThinKeepsTheLast(t *testing.T) {
	got := Thin([]int{1, 2, 3, 4, 5})
	if len(got) != 3 || got[2] != 5 || got[0] != 1 {
		t.Errorf("%v", got)
	}
}
