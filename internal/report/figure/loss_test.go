package figure

import (
	"slices"
	"testing"
)

func TestDistributionOfLoss(t *testing.T) {
	for _, c := range []struct {
		name   string
		values []float64
		want   []point
	}{
		{"one", []float64{0.1}, []point{{0.1, 0}, {0.1, 1}}},
		{"steps", []float64{0, 0.1}, []point{{0, 0}, {0, 0.5}, {0.1, 0.5}, {0.1, 1}}},
		{"ties", []float64{0, 0, 0.2, 0.4}, []point{{0, 0}, {0, 0.25}, {0, 0.25}, {0, 0.5}, {0.2, 0.5}, {0.2, 0.75}, {0.4, 0.75}, {0.4, 1}}},
	} {
		if got := distribution(c.values); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, not %v", c.name, got, c.want)
		}
	}
}
