package measurement

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestShareInterval(t *testing.T) {
	// Brown, Cai and DasGupta, "Interval estimation for a binomial proportion", and R's
	// prop.test(correct = FALSE).
	for _, c := range []struct{ part, whole, low, high float64 }{
		{2, 55, 0.01003, 0.12314}, {0, 100, 0, 0.03699}, {10, 10, 0.72247, 1}, {3, 1000, 0.00102, 0.00878}, {0, 0, 0, 1},
	} {
		low, high := ShareInterval(c.part, c.whole)
		if math.Abs(low-c.low) > 1e-4 || math.Abs(high-c.high) > 1e-4 {
			t.Errorf("%v of %v: [%.5f, %.5f], want [%.5f, %.5f]", c.part, c.whole, low, high, c.low, c.high)
		}
	}
}

// Of independent losses, the interval has the truth in about 95 of 100 cases.
func TestShareIntervalCovers(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, truth := range []float64{0.001, 0.03, 0.4} {
		covered := 0
		for range 2000 {
			part := 0.0
			for range 400 {
				if rng.Float64() < truth {
					part++
				}
			}
			if low, high := ShareInterval(part, 400); low <= truth && truth <= high {
				covered++
			}
		}
		if share := float64(covered) / 2000; share < 0.925 {
			t.Errorf("a loss of %v is in %.3f of the intervals", truth, share)
		}
	}
}

func TestLossOf(t *testing.T) {
	udp := Outcome{Metrics: Metrics{"loss_fraction": 0.03, "received_packets_per_second": 485}}
	if whole, ok := udp.LossOf(Spec{Kind: UDP, Duration: 2}); !ok || math.Abs(whole-1000) > 1e-9 {
		t.Errorf("of %v packets, %v, want 1000", whole, ok)
	}
	// A queue that grew held up 900 of 1000 packets for half as long again, which is what the
	// rates are over.
	held := Metrics{"loss_fraction": 0.1, "sent_bits_per_second": 4e6, "goodput_bits_per_second": 2.4e6, "received_packets_per_second": 300}
	if whole, ok := (Outcome{Metrics: held}).LossOf(Spec{Kind: UDP, Duration: 2}); !ok || math.Abs(whole-1000) > 1e-9 {
		t.Errorf("of %v packets, %v, want 1000 that a queue held up", whole, ok)
	}
	small := Metrics{"loss_fraction": 0.1, "sent_bits_per_second": 256e3, "packets_per_second": 300}
	if whole, ok := (Outcome{Metrics: small}).LossOf(Spec{Kind: PPS, Duration: 2, PacketBytes: 64}); !ok || math.Abs(whole-1000) > 1e-9 {
		t.Errorf("of %v small packets, %v, want 1000 that a queue held up", whole, ok)
	}
	rr := Outcome{Metrics: Metrics{"loss_fraction": 0}, Latency: &Distribution{Samples: 100, Unanswered: 7}}
	if whole, ok := rr.LossOf(Spec{Kind: RR}); !ok || whole != 100 {
		t.Errorf("of %v requests, %v, want the 100 that were sent", whole, ok)
	}
	for _, o := range []Outcome{{}, {Metrics: Metrics{"loss_fraction": 1}}, {Metrics: Metrics{"loss_fraction": 0}}} {
		if whole, ok := o.LossOf(Spec{Kind: UDP, Duration: 1}); ok {
			t.Errorf("%v are of %v", o.Metrics, whole)
		}
	}
}
