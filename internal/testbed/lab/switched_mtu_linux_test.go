package lab

import (
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/testutil"
)

// The ends of a path that is switched do not go by the MTU of a hop that they pass by.
func TestSwitchedPathHasItsOwnMTU(t *testing.T) {
	l := labOf(t, `
  - name: whole
    hops:
      - {type: router, name: near}
      - {type: router, name: narrow, mtu: 1400B}
      - {type: router, name: far}
  - {name: short, variant_of: whole, bypass: [narrow]}
`)
	for _, c := range []struct {
		path string
		want int64
	}{{"whole", 1400}, {"short", 1500}, {"whole", 1400}} {
		_, err := l.Switch(t.Context(), c.path)
		testutil.OK(t, err)
		out := l.measure(t, c.path, measurement.Spec{Kind: measurement.TCP, Flows: 1, Duration: 0.3, MaxWarmup: 0.05})
		if got := out.Flows[0].Final.PathMTU; got != c.want {
			t.Errorf("on path %s the MTU is %d, want %d", c.path, got, c.want)
		}
	}
}
