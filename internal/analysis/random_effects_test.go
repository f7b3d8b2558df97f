package analysis

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/hopbench/hopbench/internal/analysis/statistics"
	"github.com/hopbench/hopbench/internal/result"
)

func TestCompareGroups(t *testing.T) {
	same := func(values ...float64) (out []runEstimate) {
		for _, v := range values {
			out = append(out, runEstimate{value: v, variance: 1e-20})
		}
		return out
	}
	// Without an uncertainty within runs it is Student's test with one variance:
	// 1 2 3 and 4 6 8 have means 2 and 6, variances 1 and 4.
	d, ok := compareGroups(same(1, 2, 3), same(4, 6, 8), 0.95)
	spread := math.Sqrt(2.5 * 2 / 3)
	if reach := 2.77645 * spread; !ok || math.Abs(d.estimate-4) > 1e-9 || math.Abs(d.interval.Low-(4-reach)) > 1e-3 || math.Abs(d.interval.High-(4+reach)) > 1e-3 ||
		math.Abs(d.p-statistics.StudentTwoSided(4/spread, 4)) > 1e-6 || math.Abs(d.tau-math.Sqrt(2.5)) > 1e-6 {
		t.Errorf("%+v, %v", d, ok)
	}
	if _, ok := compareGroups(same(1, 2), same(1, 2, 3), 0.95); ok {
		t.Error("two runs are compared")
	}
	if d, ok := compareGroups(same(1, 1, 1), same(1, 1, 1), 0.95); !ok || d.estimate != 0 || !(d.interval.Low <= 0 && d.interval.High >= 0) {
		t.Errorf("equal runs: %+v", d)
	}
	// Runs without a loss do not know theirs exactly, so that they leave another run no weight.
	none := runEstimate{n: 8}
	if d, _ := compareGroups([]runEstimate{none, none, none}, []runEstimate{none, none, {value: 8e-4, variance: 36e-8, n: 8}}, 0.95); d.estimate < 5e-5 || d.interval.High < 8e-4/3 {
		t.Errorf("one run of six that lost something: %+v", d)
	}
}

// The spread of runs, from which follows how many more are needed, is that which they have: the
// interval of few runs is that of Student's t.
func TestSpreadOfRuns(t *testing.T) {
	side := func(shift float64) (out []runEstimate) {
		for _, v := range []float64{0, 1, 2} {
			out = append(out, runEstimate{value: shift + v, variance: 1e-20})
		}
		return out
	}
	d, _ := compareGroups(side(0), side(1), 0.95)
	c := &costEstimate{Effect: result.Effect{Runs: 3, ReferenceRuns: 3}, unpaired: true, alpha: 0.05, minBlocks: minBlocks, n: 3, base: make([]float64, 3), other: make([]float64, 3), estimate: d.estimate, spreading: &d.interval}
	if got := c.spread(); !near(got, math.Sqrt2, 1e-6) {
		t.Errorf("runs of a standard deviation of 1 have a spread of %v", got)
	}
	// (1.960 + 0.842)²·2 = 15.7
	if got := c.blocksNeeded(); got != 16 {
		t.Errorf("%d runs a side are asked for, want 16", got)
	}
}

// Runs that have levels of their own differ by chance no more often than the
// level says, however large the differences between runs are compared with those of trials.
func TestCompareGroupsHoldsItsLevel(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	n := repetitions(20_000)
	for _, tau := range []float64{0, 0.3, 1, 3} {
		for _, k := range []int{3, 5} {
			claims, covered := 0, 0
			for range n {
				side := func(shift float64) (out []runEstimate) {
					for range k {
						variance := 0.05 + 0.1*r.Float64()
						out = append(out, runEstimate{value: shift + tau*r.NormFloat64() + math.Sqrt(variance)*r.NormFloat64(), variance: variance})
					}
					return out
				}
				if d, _ := compareGroups(side(0), side(0), 0.95); d.p < 0.05 {
					claims++
				}
				if d, _ := compareGroups(side(0), side(1), 0.95); d.interval.Low <= 1 && 1 <= d.interval.High {
					covered++
				}
			}
			if !atMost(claims, n, 0.05) || !atMost(n-covered, n, 0.05) {
				t.Errorf("τ = %g, %d runs a side: %d false claims, %d intervals without the truth, of %d", tau, k, claims, n-covered, n)
			}
		}
	}
}
