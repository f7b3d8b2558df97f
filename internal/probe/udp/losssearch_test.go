package udp

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/hopbench/hopbench/internal/measurement"
)

// A path that carries a rate and drops the rest is found, whatever the rates.
func TestRateSearchFindsTheRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := math.Pow(10, rapid.Float64Range(4, 11).Draw(t, "log capacity"))
		fastest := capacity * rapid.Float64Range(0.5, 1000).Draw(t, "sender")
		bound := rapid.SampledFrom([]float64{0.001, 0.01, 0.1}).Draw(t, "bound")
		s := &rateSearch{bound: bound, most: rapid.SampledFrom([]float64{0, fastest}).Draw(t, "most")}
		for done := false; !done; {
			rate := s.next()
			if rate == 0 || rate > fastest {
				rate = fastest
			}
			received := min(rate, capacity)
			done = s.add(measurement.LossStep{OfferedBitsPerSecond: rate, ReceivedBitsPerSecond: received, Loss: 1 - received/rate})
			if len(s.steps) > 40 {
				t.Fatalf("no end: %+v", s.steps)
			}
		}
		want := min(capacity/(1-bound), fastest)
		if s.passed > want*1.0001 || s.passed < want/(searchClose*searchClose*1.0001) {
			t.Fatalf("found %g bit/s, want %g: %+v", s.passed, want, s.steps)
		}
		if s.unlimited != (fastest <= capacity/(1-bound)) {
			t.Fatalf("unlimited is %v", s.unlimited)
		}
	})
}

// A rate that fails after a higher one passed is not claimed.
func TestRateSearchBelievesTheLowerFailure(t *testing.T) {
	s := &rateSearch{bound: 0.01}
	for _, step := range []measurement.LossStep{{OfferedBitsPerSecond: 1000, ReceivedBitsPerSecond: 400, Loss: 0.6}, {OfferedBitsPerSecond: 400}, {OfferedBitsPerSecond: 300, Loss: 0.5}} {
		s.add(step)
	}
	if s.passed >= 300 || s.failed != 300 {
		t.Errorf("passed %v, failed %v", s.passed, s.failed)
	}
}
