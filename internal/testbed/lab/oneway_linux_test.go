package lab

import (
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
)

// The one-way delay is that of the way of the packets, although each end has its own
// times: no less than the link's, by more than the bound that is stated.
func TestOneWayDelay(t *testing.T) {
	l := labOf(t, `
  - name: long
    hops:
      - {type: link, delay: 20ms}
`)
	for _, way := range []measurement.Direction{measurement.Send, measurement.Receive} {
		m := l.measure(t, "long", measurement.Spec{Kind: measurement.UDP, RateBitsPerSecond: 2e6, Duration: 0.2, MaxWarmup: 0.05, Direction: way}).Metrics
		bound, known := m["one_way_delay_bound_seconds"]
		least, median, p99 := m["one_way_delay_min_seconds"], m["one_way_delay_p50_seconds"], m["one_way_delay_p99_seconds"]
		if !known || least < 0.02-bound || least > median || median > p99 || bound > median/2 {
			t.Errorf("%s: at least %v s, median %v s, p99 %v s, ± %v s (known: %v)", way, least, median, p99, bound, known)
		}
	}
}
