package analysis

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testutil"
)

// membersOf makes estimates of effects in blocks 1, 2, …; NaN is a block that
// the comparison lacks.
func membersOf(effects [][]float64) []*costEstimate {
	var out []*costEstimate
	for _, list := range effects {
		c := &costEstimate{}
		for b, v := range list {
			if !math.IsNaN(v) {
				c.blocks = append(c.blocks, b+1)
				c.effects = append(c.effects, v)
			}
		}
		out = append(out, c)
	}
	return out
}

// naiveStepDown is Westfall & Young's procedure as it is defined: for each
// comparison the maximum over those whose statistic is not larger, over all
// flips.
func naiveStepDown(members []*costEstimate, blocks int) []float64 {
	statistic := func(c *costEstimate, flip int) float64 {
		weights := clipped(c.effects)
		sum, norm := 0.0, 0.0
		for i, w := range weights {
			norm += w * w
			switch sign := flip>>(c.blocks[i]-1)&1 == 1; {
			case c.effects[i] == 0:
			case (c.effects[i] > 0) == sign:
				sum += w
			default:
				sum -= w
			}
		}
		if norm == 0 {
			return 0
		}
		return math.Abs(sum) / math.Sqrt(norm)
	}
	all := 1<<blocks - 1
	observed, flipped := make([]float64, len(members)), make([]float64, len(members))
	for j, c := range members {
		observed[j] = statistic(c, all)
	}
	single := make([]float64, len(members))
	for flip := range 1 << blocks {
		for j, c := range members {
			flipped[j] = statistic(c, flip)
		}
		for j := range members {
			for i := range members {
				if observed[i] <= observed[j]+1e-9 && flipped[i] >= observed[j]-1e-9 {
					single[j] += 1 / float64(all+1)
					break
				}
			}
		}
	}
	out := make([]float64, len(members))
	for j := range members { // no smaller p than that of a larger statistic
		for i := range members {
			if observed[i] >= observed[j]-1e-9 {
				out[j] = max(out[j], single[i])
			}
		}
	}
	return out
}

func TestStepDownMatchesItsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		blocks := rapid.IntRange(1, 7).Draw(t, "blocks")
		value := rapid.OneOf(rapid.Float64Range(-3, 3), rapid.SampledFrom([]float64{0, 0, 1, -1, math.NaN(), math.Inf(1), math.Inf(-1)}))
		effects := rapid.SliceOfN(rapid.SliceOfN(value, blocks, blocks), 1, 5).Draw(t, "effects")
		members := membersOf(effects)
		got, want := stepDown(members), naiveStepDown(members, blocks)
		for j := range want {
			if !near(got[j], want[j], 1e-12) {
				t.Fatalf("adjusted p %v, by definition %v", got, want)
			}
		}
	})
}

// Of many blocks the flips are drawn: p comes close to that of all flips, the
// same every time, and never to zero.
func TestDrawnFlips(t *testing.T) {
	r := rand.New(rand.NewPCG(61, 62))
	effects := make([][]float64, 3)
	for j := range effects {
		for range maxFlipped + 2 {
			effects[j] = append(effects[j], 0.7*float64(j)+r.NormFloat64())
		}
	}
	members := membersOf(effects)
	got, want := stepDown(members), naiveStepDown(members, maxFlipped+2)
	for j := range want {
		if slack := 5*math.Sqrt(want[j]*(1-want[j])/sampledFlips) + 2.0/sampledFlips; !near(got[j], want[j], slack) {
			t.Errorf("adjusted p %v, over all flips %v", got, want)
		}
	}
	if again := stepDown(members); !slices.Equal(got, again) {
		t.Errorf("%v, then %v", got, again)
	}
	if p := stepDown(membersOf([][]float64{slices.Repeat([]float64{1}, 40)})); p[0] != 1.0/sampledFlips {
		t.Errorf("p = %v", p)
	}
}

// A baseline that all comparisons share makes their differences skewed together:
// the joint flips hold the level all the same.
func TestSkewedSharedBaseline(t *testing.T) {
	skewed := map[string]func(*rand.Rand) float64{
		"lognormal":   func(r *rand.Rand) float64 { return math.Exp(1.5 * r.NormFloat64()) },
		"exponential": (*rand.Rand).ExpFloat64,
		"pareto":      func(r *rand.Rand) float64 { return 1 / (1 - r.Float64()) },
		"dips":        noises["dips"],
	}
	runs := testutil.Repeat(500, 10000)
	for name, noise := range skewed {
		for _, paths := range []int{3, 12} {
			for _, blocks := range []int{6, 8, 10} {
				t.Run(fmt.Sprintf("%s/%d/%d", name, paths, blocks), func(t *testing.T) {
					t.Parallel()
					r := rand.New(rand.NewPCG(71, uint64(paths*blocks)))
					claims := 0
					for range runs {
						effects := make([][]float64, paths)
						for range blocks {
							baseline := noise(r)
							for j := range effects {
								effects[j] = append(effects[j], noise(r)-baseline)
							}
						}
						if slices.Min(stepDown(membersOf(effects))) < 0.05 {
							claims++
						}
					}
					if !atMost(claims, runs, 0.05) {
						t.Errorf("%d of %d families claim an effect where there is none", claims, runs)
					}
					t.Logf("claims in %.4f of families", float64(claims)/float64(runs))
				})
			}
		}
	}
}

// What one comparison shows must not depend on how noisy its neighbours are.
func TestNoisyNeighboursHideNothing(t *testing.T) {
	paths := []string{"direct", "hop"}
	trials := trialsOfTwo(flows1.Name, goodput, around(1e9, 0.01, 8, 0), around(9e8, 0.01, 8, 4))
	for i := range 6 {
		name := fmt.Sprintf("noisy-%d", i)
		paths = append(paths, name)
		trials = append(trials, trialsOf(name, flows1.Name, goodput, around(1e9, 0.9, 8, i)...)...)
	}
	a := Analyse(trials, []result.TestInfo{flows1}, pathsNamed(paths...), Options{})
	if c := a.Costs[0]; c.Verdict != result.Costs || *c.PAdjusted > 0.01 {
		t.Errorf("%+v", c)
	}
}
