package lab

import (
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
)

// The longest path that an experiment may have is proved like any other: a
// trace sees all of it, and packets arrive with the last of their time to live.
func TestLongestPath(t *testing.T) {
	l := labOf(t, `
  - name: long
    hops:
      - {type: nat, name: far, silent_hops: 30}
      - {type: nat, name: further, silent_hops: 30}
      - {type: router, name: a}
      - {type: firewall, name: b, instances: 2, rules: 1}
      - {type: router, name: c}
`)
	out := l.measure(t, "long", measurement.Spec{Kind: measurement.RR, Duration: 0.1, MaxWarmup: 0.01})
	if out.Destination.ReceivedTTL != 1 {
		t.Errorf("packets arrived with a TTL of %d", out.Destination.ReceivedTTL)
	}
}
