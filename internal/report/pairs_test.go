package report

import (
	"math"
	"testing"
)

func TestJainIndex(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0}, {[]float64{0, 0}, 0}, {[]float64{3}, 1}, {[]float64{5, 5, 5, 5}, 1}, {[]float64{1, 0, 0, 0}, 0.25},
		{[]float64{1e300, 1e300}, 1},
		{[]float64{1, 2, 3}, 36.0 / 42},
	} {
		if got := jainIndex(test.values); math.Abs(got-test.want) > 1e-12 {
			t.Errorf("index of %v is %v, want %v", test.values, got, test.want)
		}
	}
}
