package udp

import (
	"fmt"
	"io"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/hopbench/hopbench/internal/measurement"
)

// A path that carries a rate and drops the rest is found, whatever the rates, and also if it
// carries nothing while it is flooded.
func TestRateSearchFindsTheRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := math.Pow(10, rapid.Float64Range(4, 11).Draw(t, "log capacity"))
		fastest := capacity * rapid.Float64Range(0.5, 1000).Draw(t, "sender")
		bound := rapid.SampledFrom([]float64{0.001, 0.01, 0.1}).Draw(t, "bound")
		flooded := rapid.SampledFrom([]float64{2, 10, math.Inf(1)}).Draw(t, "flooded")
		s := &rateSearch{bound: bound, most: rapid.SampledFrom([]float64{0, fastest}).Draw(t, "most")}
		for done := false; !done; {
			rate := s.next()
			if rate == 0 || rate > fastest {
				rate = fastest
			}
			received := min(rate, capacity)
			step := measurement.LossStep{OfferedBitsPerSecond: rate, ReceivedBitsPerSecond: received, Loss: 1 - received/rate}
			var err error
			if rate > flooded*capacity {
				_, step, err = s.lostAll(measurement.Outcome{}, measurement.LossStep{}, fmt.Errorf("step: %w", &nothingArrived{err: io.EOF, sent: 9, bitsPerSecond: rate}))
			}
			if err != nil || step.OfferedBitsPerSecond != rate {
				t.Fatalf("a step at %g bit/s: %+v, %v", rate, step, err)
			}
			done = s.add(step)
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

// Only a rate that kept to the bound in its own confirmation is a metric, and no rate is
// tried until it passes.
func TestOnlyAConfirmedRateIsReported(t *testing.T) {
	for _, c := range []struct {
		losses []float64 // of the confirmations
		rates  int
		passes bool
	}{{[]float64{0.001}, 1, true}, {[]float64{0.02, 0.02, 0.001}, 3, true}, {[]float64{0.02, 0.02, 0.02, 0}, 3, false}} {
		s := &rateSearch{bound: 0.01, passed: 1000}
		var rates []float64
		out, err := s.confirm(func(rate float64) (measurement.Outcome, measurement.LossStep, error) {
			loss := c.losses[len(rates)]
			if slices.Contains(rates, rate) {
				t.Errorf("%v bit/s is tried twice", rate)
			}
			rates = append(rates, rate)
			m := measurement.Metrics{"goodput_bits_per_second": rate * (1 - loss), "loss_fraction": loss}
			end := measurement.End{Drops: []measurement.Drop{{Place: "queue", Packets: 1}, {Place: fmt.Sprint(len(rates)), Packets: 1}}}
			return measurement.Outcome{Metrics: m, Source: end, OneWay: &measurement.OneWay{}}, measurement.LossStep{OfferedBitsPerSecond: rate, Loss: loss}, nil
		})
		// What the hosts lost is told of the rate that passed, and of the one that ended the search.
		lost := []measurement.Drop{{Place: "queue", Packets: 1}, {Place: fmt.Sprint(c.rates), Packets: 1}}
		if c.passes && c.rates > 1 {
			lost[0].Packets = 2
			lost = append(lost, measurement.Drop{Place: fmt.Sprint(c.rates - 1), Packets: 1})
		}
		if !slices.Equal(out.Source.Drops, lost) {
			t.Errorf("losses %v: hosts lost %+v, want %+v", c.losses, out.Source.Drops, lost)
		}
		if (out.OneWay != nil) != c.passes {
			t.Errorf("losses %v: one-way delays %v", c.losses, out.OneWay)
		}
		_, reported := out.Metrics["goodput_bits_per_second"]
		if err != nil || len(rates) != c.rates || reported != c.passes || len(out.LossSearch) != c.rates {
			t.Errorf("losses %v: %d rates, %v, metrics %v", c.losses, len(rates), err, out.Metrics)
		}
		if last := c.losses[c.rates-1]; out.Metrics["loss_fraction"] != last || (len(out.Facts) > 0) == c.passes {
			t.Errorf("losses %v: %v, facts %q", c.losses, out.Metrics, out.Facts)
		}
	}
}
