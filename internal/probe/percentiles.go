package probe

import (
	"fmt"

	"github.com/hopbench/hopbench/internal/measurement"
)

// percentile is a point of a distribution's curve in seconds, where it has it.
func percentile(d measurement.Distribution, percent float64) (float64, bool) {
	for _, p := range d.Percentiles {
		if p.Percent == percent {
			return float64(p.Value), true
		}
	}
	return 0, false
}

// addPercentiles adds those that the distribution supports.
func addPercentiles(m measurement.Metrics, name string, d measurement.Distribution, percents ...float64) {
	for _, p := range percents {
		if v, ok := percentile(d, p); ok {
			m[fmt.Sprintf("%s_p%v_seconds", name, p)] = v
		}
	}
}
