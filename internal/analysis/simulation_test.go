package analysis

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/hopbench/hopbench/internal/analysis/statistics"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testutil"
)

// noises are the shapes of trial-to-trial variation that the statistics must
// survive: each draws a deviation with a typical size of 1.
var noises = map[string]func(*rand.Rand) float64{
	"normal":    func(r *rand.Rand) float64 { return r.NormFloat64() },
	"lognormal": func(r *rand.Rand) float64 { return (math.Exp(0.8*r.NormFloat64()) - 1) / 0.9 },
	// Student's t with two degrees of freedom: no variance.
	"heavy": func(r *rand.Rand) float64 { return r.NormFloat64() / math.Sqrt(r.ExpFloat64()) },
	// Rare, deep dips, as of a neighbour on a shared host.
	"dips": func(r *rand.Rand) float64 {
		v := 0.3 * r.NormFloat64()
		if r.Float64() < 0.1 {
			v -= 8
		}
		return v
	},
	// Readings in coarse steps: ties and zeros.
	"coarse": func(r *rand.Rand) float64 { return math.Round(1.5 * r.NormFloat64()) },
}

// simulated makes blocks of trials: a value per path that shares its block's
// level, which wanders far more than the trials within a block differ.
func simulated(r *rand.Rand, noise func(*rand.Rand) float64, paths []result.PathInfo, metric string, test string, blocks int, spread float64, effect map[string]float64) []measurement.Trial {
	values := map[string][]float64{}
	level := 0.0
	for range blocks {
		level += 0.1 * r.NormFloat64()
		for _, p := range paths {
			v := 1e9 * math.Exp(level+spread*noise(r)) * (1 + effect[p.Name])
			values[p.Name] = append(values[p.Name], v)
		}
	}
	var out []measurement.Trial
	for _, p := range paths {
		out = append(out, trialsOf(p.Name, test, metric, values[p.Name]...)...)
	}
	return out
}

// atMost says whether hits of n agree with a probability of at most p: not
// more than five standard errors above it.
func atMost(hits, n int, p float64) bool {
	return float64(hits) <= float64(n)*p+5*math.Sqrt(float64(n)*p*(1-p))
}

// checkCoverage holds that as many of n intervals hold the truth as the coverage that they
// attain says. So many of them are of one report, and depend on each other. Ties only make
// intervals wider.
func checkCoverage(t *testing.T, covered, n, together int, coverage float64, ties bool) {
	t.Helper()
	expected := float64(n) * coverage
	slack := 5 * math.Sqrt(expected*(1-coverage)*float64(together))
	if coverage < 0.95 || float64(covered) < expected-slack {
		t.Errorf("%d of %d intervals of coverage %v hold the truth, want %.0f ± %.0f", covered, n, coverage, expected, slack)
	}
	if !ties && float64(covered) > expected+slack {
		t.Errorf("%d of %d intervals hold the truth, want %.0f ± %.0f: too wide", covered, n, expected, slack)
	}
}

// repetitions is how often a simulation repeats: n times where it is run at
// length, else a fifth of that, and the tolerances widen with it.
func repetitions(n int) int { return testutil.Repeat(n/5, n) }

// p of a true null is uniform as far as its steps allow: P(p ≤ a) is at most
// a, and at a value that p can take it is that value.
func TestPIsUniform(t *testing.T) {
	runs := repetitions(20000)
	r := rand.New(rand.NewPCG(11, 12))
	const n = 10
	values := make([]float64, n)
	ps := make([]float64, runs)
	for i := range ps {
		for j := range values {
			values[j] = noises["heavy"](r)
		}
		ps[i] = statistics.SignedRankP(values)
	}
	// The values that p can take, by the exact distribution.
	ranks := make([]int, n)
	for i := range ranks {
		ranks[i] = i + 1
	}
	tail := 0.0
	for w, p := range statistics.SignedRankDistribution(ranks) {
		tail += p
		step := 2 * tail
		if step >= 1 {
			break
		}
		hits := 0
		for _, v := range ps {
			if v <= step*(1+1e-9) {
				hits++
			}
		}
		if math.Abs(float64(hits)-float64(runs)*step) > 5*math.Sqrt(float64(runs)*step*(1-step)) {
			t.Errorf("rank sum %d: p ≤ %v in %d of %d", w, step, hits, runs)
		}
	}
}

// Planted effects are inside the intervals as often as the intervals say, and
// within binomial tolerance of it, for rates and for times.
func TestPlantedEffectsAreCovered(t *testing.T) {
	runs := repetitions(800)
	paths := pathsNamed("direct", "hop")
	for name, noise := range noises {
		for _, effect := range []float64{-0.70, -0.04, 0.3} {
			for _, blocks := range []int{6, 10, 17} {
				t.Run(fmt.Sprintf("%s/%g/%d", name, effect, blocks), func(t *testing.T) {
					t.Parallel()
					r := rand.New(rand.NewPCG(21, uint64(blocks)))
					covered, wrongBound := 0, 0
					var coverage float64
					for range runs {
						trials := simulated(r, noise, paths, goodput, "flows-1", blocks, 0.03, map[string]float64{"hop": effect})
						c := only(t, Analyse(trials, []result.TestInfo{flows1}, paths, Options{}))
						// The planted ratio, less a hair for rounding in ties.
						truth := 1 + effect
						if *c.Low <= truth*(1+1e-12) && truth*(1-1e-12) <= *c.High {
							covered++
						}
						coverage = c.Coverage
						if c.Verdict == result.NoCost && -effect > c.Bound {
							wrongBound++
						}
					}
					checkCoverage(t, covered, runs, 1, coverage, name == "coarse")
					if !atMost(wrongBound, runs, 0.05) {
						t.Errorf("%d of %d reports exclude a cost as large as the planted one", wrongBound, runs)
					}
				})
			}
		}
	}
}

// A planted cost just as large as the smallest effect of interest is called
// "no cost" in at most 5 % of reports: that is what TOST promises.
func TestNoCostIsSeldomWrong(t *testing.T) {
	runs := repetitions(1500)
	paths := pathsNamed("direct", "hop")
	for name, noise := range noises {
		for _, test := range []struct {
			info   result.TestInfo
			metric string
			effect float64
		}{{flows1, goodput, -0.05}, {flows1, goodput, 1/0.95 - 1}} {
			t.Run(fmt.Sprintf("%s/%s/%.3f", name, test.metric, test.effect), func(t *testing.T) {
				t.Parallel()
				r := rand.New(rand.NewPCG(31, 32))
				wrong := 0
				for range runs {
					trials := simulated(r, noise, paths, test.metric, test.info.Name, 10, 0.03, map[string]float64{"hop": test.effect})
					for _, c := range Analyse(trials, []result.TestInfo{test.info}, paths, Options{}).Costs {
						if c.Metric == test.metric && c.Verdict == result.NoCost {
							wrong++
						}
					}
				}
				if !atMost(wrong, runs, 0.05) {
					t.Errorf("%d of %d reports call the smallest effect of interest no cost", wrong, runs)
				}
			})
		}
	}
}

// The number of blocks that an unresolved comparison asks for resolves it in
// most repetitions, when the effect is what it was planted to be.
func TestRepetitionsNeededSuffice(t *testing.T) {
	paths := pathsNamed("direct", "hop")
	tests := []result.TestInfo{flows1}
	r := rand.New(rand.NewPCG(41, 42))
	for _, effect := range []float64{0, -0.08} {
		asked, resolved := 0, 0
		for range 400 {
			trials := simulated(r, noises["normal"], paths, goodput, "flows-1", 10, 0.07, map[string]float64{"hop": effect})
			c := only(t, Analyse(trials, tests, paths, Options{}))
			// An estimate far from what was planted asks for what it saw.
			if c.Verdict != result.NotResolved || math.Abs(c.Ratio-1-effect) > 0.02 {
				continue
			}
			if c.RepetitionsNeeded <= 10 || c.RepetitionsNeeded > result.MaxRepetitionsNeeded {
				t.Fatalf("asks for %d blocks", c.RepetitionsNeeded)
			}
			asked++
			more := simulated(r, noises["normal"], paths, goodput, "flows-1", c.RepetitionsNeeded, 0.07, map[string]float64{"hop": effect})
			if only(t, Analyse(more, tests, paths, Options{})).Verdict != result.NotResolved {
				resolved++
			}
		}
		if asked == 0 || float64(resolved) < 0.6*float64(asked) {
			t.Errorf("effect %v: %d of %d comparisons are resolved by the blocks they asked for", effect, resolved, asked)
		}
	}
}
