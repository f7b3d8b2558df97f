package latency

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/testutil"
)

// A request that was never answered is an infinite round trip: the percentiles are
// those of the list that has it in, and absent where the list's is infinite or has
// fewer than ten requests beyond it.
func TestUnansweredAreInfinitelyLate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		answered := rapid.IntRange(0, 4000).Draw(t, "answered")
		lost := rapid.OneOf(rapid.IntRange(0, 60), rapid.IntRange(0, 6000)).Draw(t, "lost")
		seed := rapid.Int64Range(1, 1e9).Draw(t, "seed")
		r := New()
		var naive []float64
		for i := range answered {
			d := time.Duration(1000 + (int64(i)*seed)%999_983)
			naive = append(naive, float64(d)/1e9)
			r.Record(d)
		}
		r.Lose(int64(lost))
		slices.Sort(naive)
		for range lost {
			naive = append(naive, math.Inf(1))
		}
		d := r.Distribution()
		if d.Due() != int64(len(naive)) || r.Samples() != int64(answered) || r.Unanswered() != int64(lost) {
			t.Fatalf("%d answered and %d not, of %d and %d", d.Samples, d.Unanswered, answered, lost)
		}
		metrics := measurement.Metrics{}
		r.FillMetrics(metrics, measurement.RR)
		for _, p := range curve {
			got, ok := d.At(p)
			pos := p / 100 * float64(len(naive)-1)
			if len(naive) == 0 {
				if ok || d.Lacks(p) != measurement.LacksSamples {
					t.Fatalf("p%g of nothing", p)
				}
				continue
			}
			low, high := naive[max(int(pos)-1, 0)], naive[min(int(math.Ceil(pos))+1, len(naive)-1)]
			switch d.Lacks(p) {
			case measurement.LacksAnswer:
				if ok || !math.IsInf(naive[int(math.Ceil(pos))], 1) {
					t.Fatalf("p%g of %d, %d lost: %v, %v", p, len(naive), lost, got, ok)
				}
			case measurement.LacksSamples:
				if beyond := min(p, 100-p) / 100 * float64(len(naive)); ok || beyond > measurement.SamplesBeyond {
					t.Fatalf("p%g of %d has %v beyond it: %v, %v", p, len(naive), beyond, got, ok)
				}
			default:
				if v := float64(got); !ok || v < low*0.998 || v > high*1.002 {
					t.Fatalf("p%g of %d, %d lost: %v, %v, want within [%v, %v]", p, len(naive), lost, got, ok, low, high)
				}
			}
			if v, ok := metrics["rtt_p99_seconds"]; p == 99 && (ok != (d.Lacks(p) == measurement.LacksNothing) || ok && v != float64(got)) {
				t.Fatalf("the metric is %v, %v, the percentile %v", v, ok, got)
			}
		}
		if _, ok := metrics["rtt_p50_seconds"]; answered > 0 && ok != (d.Lacks(50) != measurement.LacksAnswer) {
			t.Fatalf("%d of %d lost: a median %v", lost, len(naive), ok)
		}
	})
}

// What several recorders lost is lost to all of them together.
func TestMergeKeepsTheUnanswered(t *testing.T) {
	one, two := New(), New()
	for range 1000 {
		one.Record(time.Millisecond)
	}
	two.Lose(3000)
	merged, err := Merge([]measurement.Distribution{one.Distribution(), two.Distribution()})
	testutil.OK(t, err)
	d := merged.Distribution()
	if d.Samples != 1000 || d.Unanswered != 3000 {
		t.Fatalf("%+v", d)
	}
	if _, ok := d.At(50); ok || d.Lacks(50) != measurement.LacksAnswer || d.Lacks(20) != measurement.LacksNothing {
		t.Errorf("three quarters are lost: p50 %v, p20 %q", ok, d.Lacks(20))
	}
}

func TestNeededFor(t *testing.T) {
	for percent, want := range map[float64]int64{50: 20, 99: 1000, 1: 1000, 99.9: 10_000, 99.99: 100_000, 99.999: 1e6, 99.9999: 1e7} {
		if got := measurement.NeededFor(percent); got != want {
			t.Errorf("p%g needs %d requests, want %d", percent, got, want)
		}
	}
}
