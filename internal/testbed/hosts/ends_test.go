package hosts

import (
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/clock"
)

func TestStanding(t *testing.T) {
	for want, c := range map[string]clock.Estimate{
		"its clock is 1.234ms behind, known to within 150µs; its drift is -12.4 ± 70.0 ppm, from exchanges over 3.1s": {
			Offset: -1234 * time.Microsecond, Uncertainty: 150 * time.Microsecond, Drift: -12.4e-6, DriftUncertainty: 70e-6, Span: 3100 * time.Millisecond,
		},
		"its clock is 2s ahead, known to within 30ms; 3.1s of exchanges bound its drift no better than the ± 500 ppm that any clock may have": {
			Offset: 2 * time.Second, Uncertainty: 30 * time.Millisecond, DriftUncertainty: clock.MaxDrift, Span: 3100 * time.Millisecond,
		},
	} {
		if got := standing(c); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
