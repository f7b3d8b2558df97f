package probe

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/session"
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

func TestRunLossSearch(t *testing.T) {
	target := serve(t, ServerOptions{})
	spec := measurement.Spec{Kind: measurement.UDP, PacketBytes: 1000, Duration: 0.6, LossBound: 0.01, RateBitsPerSecond: 2e7}
	out, err := Run(testContext(t), session.Request{Spec: spec, Target: target}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(out.LossSearch) < 2 {
		t.Errorf("steps %+v", out.LossSearch)
	}
	for _, s := range out.LossSearch {
		if s.OfferedBitsPerSecond <= 0 || s.ReceivedBitsPerSecond > s.OfferedBitsPerSecond || s.Loss < 0 || s.Loss > 1 {
			t.Errorf("step %+v", s)
		}
	}
	if last := out.LossSearch[len(out.LossSearch)-1]; last.OfferedBitsPerSecond != out.Metrics["sent_bits_per_second"] {
		t.Errorf("the metrics are not those of the last step: %+v, %v", last, out.Metrics)
	}
}
