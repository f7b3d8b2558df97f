package analysis

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testutil"
)

// twoStages makes blocks of trials in two stages: each path is visited once in a block,
// and all tests of a visit share what it is like, which differs from visit to visit more
// than the trials of one do. After names what the path before does to a visit.
func twoStages(r *rand.Rand, noise func(*rand.Rand) float64, tests []result.TestInfo, paths []result.PathInfo, blocks int, effect, after map[string]float64) []measurement.Trial {
	var out []measurement.Trial
	level := 0.0
	for b := range blocks {
		level += 0.1 * r.NormFloat64()
		order, before := r.Perm(len(tests)), ""
		for _, p := range r.Perm(len(paths)) {
			path := paths[p].Name
			visit := 0.04 * noise(r)
			for _, k := range order {
				v := 1e9 * math.Exp(level+visit+0.02*noise(r)) * (1 + effect[path]) * (1 + after[before])
				trial := trialsOf(path, tests[k].Name, goodput, v)[0]
				trial.Block, trial.Order = b+1, len(out)+1
				trial.ID = fmt.Sprintf("b%02d-%s-%s", b+1, path, tests[k].Name)
				out = append(out, trial)
			}
			before = path
		}
	}
	return out
}

func threeTests() []result.TestInfo {
	tests := []result.TestInfo{flows1, flows1, flows1}
	for i := range tests {
		tests[i].Name = fmt.Sprintf("flows-%d", i+1)
	}
	return tests
}

// What the tests of a visit share adds to the noise of each of them, and to nothing else:
// of paths that do not differ few reports claim anything, intervals hold what was
// planted as often as they say, and a carry-over is not seen where there is none.
func TestTwoStagesHoldTheirLevel(t *testing.T) {
	runs := testutil.Repeat(100, 2500)
	tests, paths := threeTests(), pathsNamed("direct", "hop", "other")
	for name, noise := range noises {
		for _, effect := range []float64{0, -0.04} {
			t.Run(fmt.Sprintf("%s/%g", name, effect), func(t *testing.T) {
				t.Parallel()
				r := rand.New(rand.NewPCG(91, 92))
				claims, covered, carried, intervals := 0, 0, 0, 0
				coverage := 0.0
				for range runs {
					trials := twoStages(r, noise, tests, paths, 10, map[string]float64{"hop": effect, "other": effect}, nil)
					claimed := false
					for _, c := range Analyse(trials, tests, paths, Options{}).Costs {
						if c.Metric != goodput {
							continue
						}
						claimed = claimed || c.BeyondChance
						intervals++
						coverage = c.Coverage
						if truth := 1 + effect; *c.Low <= truth*(1+1e-12) && truth*(1-1e-12) <= *c.High {
							covered++
						}
						if c.Test == tests[0].Name && c.Path == "hop" && violated(c, result.NoCarryOver) {
							carried++
						}
					}
					if claimed {
						claims++
					}
				}
				t.Logf("of %d reports %d claim something (%.1f %%), %d see a carry-over; of %d intervals %.1f %% hold the truth", runs, claims, 100*float64(claims)/float64(runs), carried, intervals, 100*float64(covered)/float64(intervals))
				if effect == 0 && !atMost(claims, runs, 0.05) {
					t.Errorf("%d of %d reports claim something of paths that do not differ", claims, runs)
				}
				if !atMost(carried, runs, orderAlpha) {
					t.Errorf("%d of %d reports see a carry-over that is not there", carried, runs)
				}
				checkCoverage(t, covered, intervals, intervals/runs, coverage, name == "coarse") // a visit shares its noise
			})
		}
	}
}

// A path that empties a bucket of tokens makes the whole visit after it slow.
func TestCarryOverIsSaidInTwoStages(t *testing.T) {
	r := rand.New(rand.NewPCG(93, 94))
	tests, paths := threeTests(), pathsNamed("direct", "greedy", "hop")
	trials := twoStages(r, func(r *rand.Rand) float64 { return 0.1 * r.NormFloat64() }, tests, paths, 12, nil, map[string]float64{"greedy": -0.1})
	for _, c := range Analyse(trials, tests, paths, Options{}).Costs {
		if c.Metric == goodput && (!violated(c, result.NoCarryOver) || !strings.Contains(said(c), " after greedy (p ")) {
			t.Errorf("%s\n%+v", said(c), c.Violations)
		}
	}
}
