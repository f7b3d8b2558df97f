package latency

import (
	"fmt"

	"github.com/hopbench/hopbench/internal/measurement"
)

// AddPercentiles adds those that the distribution supports.
func AddPercentiles(m measurement.Metrics, name string, d measurement.Distribution, percents ...float64) {
	for _, p := range percents {
		if v, ok := d.At(p); ok {
			m[fmt.Sprintf("%s_p%v_seconds", name, p)] = float64(v)
		}
	}
}
