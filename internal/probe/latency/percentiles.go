package latency

import (
	"fmt"

	"github.com/hopbench/hopbench/internal/measurement"
)

// Percentile is a point of a distribution's curve in seconds, where it has it.
func Percentile(d measurement.Distribution, percent float64) (float64, bool) {
	for _, p := range d.Percentiles {
		if p.Percent == percent {
			return float64(p.Value), true
		}
	}
	return 0, false
}

// AddPercentiles adds those that the distribution supports.
func AddPercentiles(m measurement.Metrics, name string, d measurement.Distribution, percents ...float64) {
	for _, p := range percents {
		if v, ok := Percentile(d, p); ok {
			m[fmt.Sprintf("%s_p%v_seconds", name, p)] = v
		}
	}
}
