package analysis

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hopbench/hopbench/internal/analysis/statistics"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testutil"
)

// pilot is an estimate of an effect of normal noise with a standard deviation of 1.
func pilot(r *rand.Rand, blocks, family int, effect float64) *costEstimate {
	c := &costEstimate{n: blocks, familySize: family, alpha: 0.05, minBlocks: minBlocks, upper: 0.5}
	for b := range blocks {
		c.blocks = append(c.blocks, b+1)
		c.effects = append(c.effects, effect+r.NormFloat64())
	}
	walsh := statistics.WalshAverages(c.effects)
	c.estimate = statistics.MedianOfSorted(walsh)
	if i, ok := statistics.SignedRankInterval(walsh, blocks, 0.95); ok && blocks >= minBlocks {
		c.interval, c.spreading = &i, &i
	}
	p := statistics.SignedRankP(c.effects)
	c.P = &p
	return c
}

// The range of the blocks that are needed holds the number that the true effect
// and the true spread ask for as often as it says.
func TestNeededRangeHoldsTheTruth(t *testing.T) {
	runs := repetitions(2000)
	for _, blocks := range []int{3, 6, 10} {
		for _, effect := range []float64{0, 0.3, 1} {
			t.Run(fmt.Sprintf("%d/%g", blocks, effect), func(t *testing.T) {
				r := rand.New(rand.NewPCG(101, uint64(blocks)))
				held := 0
				for range runs {
					c := pilot(r, blocks, 1, effect)
					low, high := c.neededRange()
					truth := c.more(c.resolving()(effect, math.Sqrt(math.Pi/3)))
					if low > high || high > result.MaxRepetitionsNeeded || low <= blocks {
						t.Fatalf("%d to %d", low, high)
					}
					if low <= truth && truth <= high {
						held++
					}
				}
				t.Logf("held %.3f", float64(held)/float64(runs))
				if share := float64(held) / float64(runs); share < 0.7 {
					t.Errorf("the range holds the number in %.3f of cases", share)
				}
			})
		}
	}
}

// An effect as large as the one that the blocks are said to show is found in about
// four of five reports, next to others without any.
func TestDetectableEffectsAreFound(t *testing.T) {
	runs := repetitions(1000)
	for _, family := range []int{1, 8} {
		for _, blocks := range []int{6, 8, 10, 15} {
			t.Run(fmt.Sprintf("%d/%d", family, blocks), func(t *testing.T) {
				t.Parallel()
				r := rand.New(rand.NewPCG(111, uint64(blocks)))
				found := 0
				var sizes []float64
				for range 200 {
					sizes = append(sizes, pilot(r, blocks, family, 0).detectable())
				}
				for range runs {
					members := []*costEstimate{pilot(r, blocks, family, statistics.Median(sizes))}
					for range family - 1 {
						members = append(members, pilot(r, blocks, family, 0))
					}
					if p := stepDown(members); math.Max(p[0], *members[0].P) < 0.05 {
						found++
					}
				}
				share := float64(found) / float64(runs)
				t.Logf("%.2f standard deviations, found in %.3f", statistics.Median(sizes), share)
				if share < 0.55 || share > 0.95 {
					t.Errorf("what is said to be shown with 80 %% is found in %.3f of reports", share)
				}
			})
		}
	}
}

// Fewer blocks than a claim takes indicate an effect where there is none in at most
// one report of twenty, if noise is as assumed.
func TestIndicationsAreSeldomWrong(t *testing.T) {
	runs := testutil.Repeat(150, 4000)
	paths := pathsNamed("direct", "hop", "other")
	for name, noise := range noises {
		for _, blocks := range []int{2, 3, 5} {
			t.Run(fmt.Sprintf("%s/%d", name, blocks), func(t *testing.T) {
				t.Parallel()
				r := rand.New(rand.NewPCG(121, uint64(blocks)))
				wrong := 0
				for range runs {
					trials := simulated(r, noise, paths, goodput, "flows-1", blocks, 0.03, nil)
					costs := Analyse(trials, []result.TestInfo{flows1}, paths, Options{}).Costs
					if slices.ContainsFunc(costs, func(c result.Effect) bool { return c.Verdict == result.Indicated }) {
						wrong++
					}
				}
				t.Logf("indicated in %.4f of reports", float64(wrong)/float64(runs))
				if name == "normal" && !atMost(wrong, runs, 0.05) {
					t.Errorf("%d of %d reports indicate an effect where there is none", wrong, runs)
				}
			})
		}
	}
}

// Other comparisons of the metric lend their spread: two quiet blocks indicate −50 %.
func TestSpreadIsPooled(t *testing.T) {
	var trials []measurement.Trial
	names := []string{"direct"}
	trials = append(trials, trialsOf("direct", flows1.Name, goodput, 1e9, 1.02e9)...)
	for i := range 5 {
		centre := 1e9
		if i == 0 {
			centre = 5e8
		}
		name := fmt.Sprintf("hop-%d", i)
		names = append(names, name)
		trials = append(trials, trialsOf(name, flows1.Name, goodput, around(centre, 0.01, 2, i)...)...)
	}
	costs := Analyse(trials, []result.TestInfo{flows1}, pathsNamed(names...), Options{}).Costs
	for i, c := range costs {
		want := result.TooFewBlocks
		if i == 0 {
			want = result.Indicated
		}
		if c.Verdict != want || c.FewestBlocks != 6 || c.P != nil {
			t.Errorf("%+v", c)
		}
	}
	if c := costs[0].Indication; c == nil || c.Comparisons != 5 || c.DegreesOfFreedom != 5 {
		t.Errorf("%+v", c)
	}
}
