package session

import (
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
)

// The bins of all connections together are bounded, and each keeps enough of
// them to find the end of the warm-up.
func TestBinsOfManyFlows(t *testing.T) {
	for _, flows := range []int{1, 64, 100, 1000, kind.MaxFlows} {
		for _, direction := range []measurement.Direction{measurement.Send, measurement.Both} {
			spec := measurement.Spec{Kind: measurement.TCP, Flows: flows, Direction: direction, Duration: measurement.SecondsOf(kind.MaxDuration), MaxWarmup: measurement.SecondsOf(kind.MaxDuration)}
			n, width := BinsOf(spec)
			if n*kind.Connections(spec) > max(maxTestBins, leastBins*kind.Connections(spec)) || n > MaxBins || n < 50 || time.Duration(n)*width < Planned(spec) {
				t.Errorf("%d flows %s: %d bins of %v", flows, direction, n, width)
			}
		}
	}
}

func TestBinsOf(t *testing.T) {
	for _, c := range []struct {
		spec  measurement.Spec
		n     int
		width time.Duration
	}{
		{measurement.Spec{Duration: 1, MaxWarmup: 0.3}, 130, 10 * time.Millisecond},
		{measurement.Spec{Duration: 0.015}, 2, 10 * time.Millisecond},
		{measurement.Spec{Duration: 200}, 20_000, 10 * time.Millisecond},
		{measurement.Spec{Duration: 201}, 10_050, 20 * time.Millisecond},
		{measurement.Spec{Duration: 3600}, 20_000, 180 * time.Millisecond},
	} {
		if n, width := BinsOf(c.spec); n != c.n || width != c.width {
			t.Errorf("%v: %d bins of %v, want %d of %v", c.spec, n, width, c.n, c.width)
		}
	}
}
