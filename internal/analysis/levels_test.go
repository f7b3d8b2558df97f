package analysis

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/analysis/statistics"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testutil"
)

var update = flag.Bool("update", false, "write the simulated levels into docs/accuracy.md")

// shape draws reports of two paths and a baseline that do not differ.
type shape struct {
	name string
	// draw gives the deviations of the baseline and of the paths in each block.
	// An infinite one is a trial that its path broke, NaN one that is missing.
	draw func(r *rand.Rand, blocks int) [][3]float64
	// violates is the assumption that the shape breaks, so that the level may be
	// higher, and claims have to say so.
	violates result.Assumption
}

// each draws all deviations independently of one noise.
func each(noise func(*rand.Rand) float64) func(*rand.Rand, int) [][3]float64 {
	return func(r *rand.Rand, blocks int) [][3]float64 {
		out := make([][3]float64, blocks)
		for b := range out {
			for i := range out[b] {
				out[b][i] = noise(r)
			}
		}
		return out
	}
}

// hopsOnly leaves the baseline without noise, and centres that of the paths so
// that the median of its Walsh averages, what is estimated, is zero.
func hopsOnly(noise func(*rand.Rand) float64, centre float64) func(*rand.Rand, int) [][3]float64 {
	return func(r *rand.Rand, blocks int) [][3]float64 {
		out := make([][3]float64, blocks)
		for b := range out {
			out[b] = [3]float64{0.01 * r.NormFloat64(), noise(r) - centre, noise(r) - centre}
		}
		return out
	}
}

// autoregressive draws a series whose neighbours correlate by phi.
func autoregressive(r *rand.Rand, phi float64, blocks int) []float64 {
	out := make([]float64, blocks)
	x := r.NormFloat64()
	for b := range out {
		out[b] = x
		x = phi*x + math.Sqrt(1-phi*phi)*r.NormFloat64()
	}
	return out
}

// lognormalCentre is the pseudomedian of noises["lognormal"], the median of the
// mean of two of it, to three digits.
var lognormalCentre = func() float64 {
	r := rand.New(rand.NewPCG(1, 2))
	means := make([]float64, 100_001)
	for i := range means {
		means[i] = (noises["lognormal"](r) + noises["lognormal"](r)) / 2
	}
	return statistics.Median(means)
}

func shapes() []shape {
	skewed := noises["lognormal"]
	return []shape{
		{name: "normal", draw: each(noises["normal"])},
		{name: "log-normal, skewed", draw: each(skewed)},
		{name: "Student's t, 2 degrees of freedom", draw: each(noises["heavy"])},
		{name: "rare deep dips", draw: each(noises["dips"])},
		{name: "coarse readings with ties", draw: each(noises["coarse"])},
		{name: "two regimes", draw: each(func(r *rand.Rand) float64 { return float64(r.IntN(2))*6 + 0.3*r.NormFloat64() })},
		{name: "noise on the hop's arm only", draw: hopsOnly(noises["normal"], 0)},
		{name: "skewed noise on the hop's arm only", violates: result.SymmetricEffects, draw: hopsOnly(skewed, lognormalCentre())},
		{name: "AR(1) between blocks, φ = 0.8, common to all paths", draw: func(r *rand.Rand, blocks int) [][3]float64 {
			out := each(noises["normal"])(r, blocks)
			for b, level := range autoregressive(r, 0.8, blocks) {
				for i := range out[b] {
					out[b][i] += 3 * level
				}
			}
			return out
		}},
		{name: "AR(1) between blocks, φ = 0.5, of each path by itself", violates: result.IndependentBlocks, draw: func(r *rand.Rand, blocks int) [][3]float64 {
			out := make([][3]float64, blocks)
			for i := range 3 {
				for b, level := range autoregressive(r, 0.5, blocks) {
					out[b][i] = level
				}
			}
			return out
		}},
		{name: "the worst sixth of trials breaks", draw: each(func(r *rand.Rand) float64 {
			if v := r.NormFloat64(); v > -1 {
				return v
			}
			return math.Inf(-1)
		})},
		{name: "a tenth of trials is missing", draw: each(func(r *rand.Rand) float64 {
			if r.Float64() < 0.1 {
				return math.NaN()
			}
			return skewed(r)
		})},
	}
}

// reported analyses one report of a shape.
func (s shape) reported(r *rand.Rand, blocks int) []result.Effect {
	paths := pathsNamed("direct", "hop", "other")
	var trials []measurement.Trial
	for b, deviations := range s.draw(r, blocks) {
		for _, i := range r.Perm(3) {
			trial := measurement.Trial{Block: b + 1, Order: len(trials) + 1, Path: paths[i].Name, Test: flows1.Name, Gate: measurement.Gate{Passed: true}}
			switch d := deviations[i]; {
			case math.IsNaN(d):
				trial.Gate = measurement.Gate{}
			case math.IsInf(d, 0):
				trial.Gate = measurement.Gate{Broken: true}
			default:
				trial.Metrics = measurement.Metrics{goodput: 1e9 * math.Exp(0.1*d)}
			}
			trials = append(trials, trial)
		}
	}
	return Analyse(trials, []result.TestInfo{flows1}, paths, Options{}).Costs
}

// level is how often reports of paths that do not differ say otherwise.
type level struct {
	comparisons, low int // p < 0.05
	reports, claims  int // any adjusted p < 0.05
	unsaid           int // of these, without a word of the assumption that does not hold
	collapses        int
}

func (l *level) add(costs []result.Effect, violated result.Assumption) {
	l.reports++
	claimed, said := false, false
	for _, c := range costs {
		if c.Metric != goodput {
			claimed = claimed || c.BeyondChance
			continue
		}
		l.comparisons++
		if c.P != nil && *c.P < 0.05 {
			l.low++
		}
		if c.Collapse != nil {
			l.collapses++
		}
		claimed = claimed || c.BeyondChance
		said = said || c.BeyondChance && slices.ContainsFunc(c.Violations, func(v result.Violation) bool { return violated == "" || v.Assumption == violated })
	}
	if claimed {
		l.claims++
		if !said {
			l.unsaid++
		}
	}
}

// Reports of paths that do not differ claim something in at most 5 % of cases,
// whatever the noise; where the noise breaks an assumption, they say so.
func TestAttainedLevels(t *testing.T) {
	reports := testutil.Repeat(150, 10_000)
	sizes := []int{6, 10, 15}
	all := shapes()
	levels := make([][]level, len(all))
	t.Run("shapes", func(t *testing.T) {
		for i, s := range all {
			levels[i] = make([]level, len(sizes))
			for j, blocks := range sizes {
				t.Run(fmt.Sprintf("%s/%d", s.name, blocks), func(t *testing.T) {
					t.Parallel()
					r := rand.New(rand.NewPCG(91, uint64(blocks)))
					l := &levels[i][j]
					for range reports {
						l.add(s.reported(r, blocks), s.violates)
					}
					t.Logf("%+v", *l)
					// Simulated level: not above 5 % by more than chance, nor above 6 %.
					if s.violates == "" && !atMost(l.claims, l.reports, 0.05) {
						t.Errorf("%d of %d reports claim something", l.claims, l.reports)
					}
					if !atMost(l.unsaid, l.reports, 0.06) {
						t.Errorf("%d of %d reports claim something without a word of a violated assumption", l.unsaid, l.reports)
					}
				})
			}
		}
	})
	if *update && testutil.AtLength() {
		testutil.OK(t, writeLevels("../../docs/accuracy.md", all, sizes, levels))
	}
}

// writeLevels puts the table between its markers.
func writeLevels(file string, all []shape, sizes []int, levels [][]level) error {
	const begin, end = "<!-- simulated levels -->\n", "<!-- end of simulated levels -->\n"
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(text), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		return fmt.Errorf("%s lacks the markers %q and %q", file, begin, end)
	}
	var b strings.Builder
	percent := func(hits, of int) string { return fmt.Sprintf("%.1f", 100*float64(hits)/float64(max(1, of))) }
	b.WriteString("| noise | p < 0.05, % of comparisons | claims, % of reports | without a word, % of reports | collapse said, % of comparisons |\n|---|---|---|---|---|\n")
	for i, s := range all {
		var low, claims, unsaid, collapses []string
		for j := range sizes {
			l := levels[i][j]
			low, claims = append(low, percent(l.low, l.comparisons)), append(claims, percent(l.claims, l.reports))
			unsaid, collapses = append(unsaid, percent(l.unsaid, l.reports)), append(collapses, percent(l.collapses, l.comparisons))
		}
		row := []string{s.name}
		for _, cells := range [][]string{low, claims, unsaid, collapses} {
			row = append(row, strings.Join(cells, " · "))
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
	}
	return os.WriteFile(file, []byte(slices.Concat([]byte(before+begin), []byte(b.String()), []byte(end+after))), 0o644)
}
