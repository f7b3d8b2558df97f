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
			spec := measurement.Spec{Kind: measurement.UDP, Flows: 2, RateBitsPerSecond: c.rate, Duration: 0.2, MaxWarmup: 0.05, Direction: c.way}
			out := overNarrowPath(t, c.delay, spec)
			if got := out.Effective["packet_bytes"]; got != "1372" {
				t.Errorf("packets of %s bytes, want 1372", got)
			}
		})
	}
}

// Packets and messages of a size that is given go over it in fragments, in the first test
// as in those that follow, whose ends know the path's MTU.
func TestFragmentsOverANarrowPath(t *testing.T) {
	for name, spec := range map[string]measurement.Spec{
		"udp":          {Kind: measurement.UDP, PacketBytes: 1450, RateBitsPerSecond: 4e6, Duration: 0.5, MaxWarmup: 0.05},
		"udp reverse":  {Kind: measurement.UDP, PacketBytes: 1450, RateBitsPerSecond: 4e6, Duration: 0.5, MaxWarmup: 0.05, Direction: measurement.Receive},
		"rr":           {Kind: measurement.RR, Protocol: measurement.OverUDP, RequestBytes: 1450, Duration: 0.2, Timeout: 30},
		"rr open loop": {Kind: measurement.RR, Protocol: measurement.OverUDP, RequestBytes: 1450, RequestsPerSecond: 100, Duration: 0.4, MaxWarmup: 0.2, Timeout: 1},
	} {
		t.Run(name, func(t *testing.T) {
			for _, delay := range []string{"0ms", "20ms"} {
				out := overNarrowPath(t, delay, spec)
				if m := out.Metrics; m["loss_fraction"] != 0 {
					t.Errorf("delay %s: %v %q", delay, m, out.Facts)
				}
			}
		})
	}
}

// overNarrowPath does the first test of a lab whose path has its smallest MTU in the middle.
func overNarrowPath(t *testing.T, delay string, spec measurement.Spec) measurement.Outcome {
	return labOf(t, fmt.Sprintf(`
  - name: narrow
    hops:
      - {type: router, name: near, delay: %[1]s}
      - {type: router, name: middle, mtu: 1400B, rate: 100Mbit}
      - {type: router, name: far, delay: %[1]s}
      - {type: router, name: last}
`, delay)).measure(t, "narrow", spec)
}
