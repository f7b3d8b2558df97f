package lab

import (
	"fmt"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
)

// An end that sends packets as large as its interface allows hears of a narrower link on the
// way, near or far, and goes on with smaller ones.
func TestPacketsOverANarrowPath(t *testing.T) {
	for _, c := range []struct {
		delay string
		rate  float64
		way   measurement.Direction
	}{{"0ms", 4e6, measurement.Receive}, {"60ms", 4e6, measurement.Receive}, {"60ms", 0, measurement.Receive}, {"60ms", 4e6, measurement.Send}} {
		t.Run(fmt.Sprint(c.way, c.delay, c.rate), func(t *testing.T) {
			l := labOf(t, fmt.Sprintf(`
  - name: narrow
    hops:
      - {type: router, name: near, delay: %[1]s}
      - {type: router, name: middle, mtu: 1400B, rate: 100Mbit}
      - {type: router, name: far, delay: %[1]s}
      - {type: router, name: last}
`, c.delay))
			out := l.measure(t, "narrow", measurement.Spec{Kind: measurement.UDP, Flows: 2, RateBitsPerSecond: c.rate, Duration: 0.2, MaxWarmup: 0.05, Direction: c.way})
			if got := out.Effective["packet_bytes"]; got != "1372" {
				t.Errorf("packets of %s bytes, want 1372", got)
			}
		})
	}
}
