package analysis

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// One trial of twelve falls to 3 %: the median and the ranks do not see it, the
// verdict has to.
func TestCollapseIsSaid(t *testing.T) {
	base, other := around(1e9, 0.004, 12, 0), around(1e9, 0.004, 12, 4)
	compare := func() result.Effect {
		return only(t, onTwoPaths(flows1, goodput, base, other, Options{}))
	}
	if c := compare(); c.Verdict != result.NoCost || c.Collapse != nil {
		t.Fatalf("without a collapse: %+v", c)
	}
	other[4] = 0.03 * base[4]
	if c := compare(); c.Verdict != result.NotResolved || c.Collapse == nil || c.Collapse.Trials != 1 || c.Collapse.ReferenceTrials != 0 || !near(c.Collapse.Worst, 0.03, 1e-9) ||
		!strings.Contains(said(c), ". The verdict is withheld: it collapsed in 1 of 12 trials, to 3 % of direct in the same blocks, which never did") {
		t.Errorf("%s\n%+v", said(c), c.Collapse)
	}
	// A neighbour that hits both paths is no property of the hop.
	base[9] = 0.05 * other[9]
	if c := compare(); c.Collapse != nil || c.Verdict != result.NoCost {
		t.Errorf("the baseline collapsed as well: %+v", c)
	}
}

// A time that multiplies in one trial of twelve collapses too.
func TestTimesCollapse(t *testing.T) {
	base, other := around(30e-3, 0.002, 12, 0), around(30e-3, 0.002, 12, 4)
	other[7] *= 4
	c := only(t, onTwoPaths(latency, rttP50, base, other, Options{}))
	if c.Verdict == result.NoCost || c.Collapse == nil || c.Collapse.Trials != 1 || !strings.Contains(said(c), "collapsed in 1 of 12 trials, at worst to 4.0") {
		t.Errorf("%s\n%+v", said(c), c.Collapse)
	}
}

// ordered lays trials out as a run does: blocks of paths in random order, each value
// given what came just before it.
func ordered(r *rand.Rand, paths []result.PathInfo, blocks int, value func(path, before string) float64) []measurement.Trial {
	var out []measurement.Trial
	before := ""
	for b := range blocks {
		for _, i := range r.Perm(len(paths)) {
			p := paths[i].Name
			trial := trialsOf(p, flows1.Name, goodput, value(p, before))[0]
			trial.Block, trial.Order = b+1, len(out)+1
			out = append(out, trial)
			before = p
		}
	}
	return out
}

func violated(c result.Effect, a result.Assumption) bool {
	return slices.ContainsFunc(c.Violations, func(v result.Violation) bool { return v.Assumption == a })
}

// A path that empties a bucket of tokens makes the trial after it slow.
func TestCarryOverIsSaid(t *testing.T) {
	r := rand.New(rand.NewPCG(81, 82))
	paths := pathsNamed("direct", "greedy", "hop")
	trials := ordered(r, paths, 12, func(_, before string) float64 {
		v := 1e9 * math.Exp(0.01*r.NormFloat64())
		if before == "greedy" {
			v *= 0.9
		}
		return v
	})
	for _, c := range Analyse(trials, []result.TestInfo{flows1}, paths, Options{}).Costs {
		if !violated(c, result.NoCarryOver) || !strings.Contains(said(c), "trials depend on the one before: −") || !strings.Contains(said(c), " after greedy (p ") {
			t.Errorf("%s\n%+v", said(c), c.Violations)
		}
	}
}

// Where nothing is carried over, it is said in about one report of a hundred.
func TestCarryOverHoldsItsLevel(t *testing.T) {
	r := rand.New(rand.NewPCG(83, 84))
	runs, found := repetitions(5000), 0
	paths := pathsNamed("direct", "hop", "other")
	for range runs {
		trials := ordered(r, paths, 10, func(string, string) float64 { return 1e9 * math.Exp(0.05*noises["heavy"](r)) })
		set, _ := gather(trials, []result.TestInfo{flows1}, paths)
		if set.carryOver(flows1.Name, measurement.MetricOf(goodput)) != nil {
			found++
		}
	}
	if !atMost(found, runs, orderAlpha) {
		t.Errorf("said in %d of %d reports", found, runs)
	}
}

// A hop whose own level wanders slowly has effects that depend on the block before.
func TestDependentBlocksAreSaid(t *testing.T) {
	base, other := around(1e9, 0.001, 24, 0), around(1e9, 0.001, 24, 4)
	for i := range other {
		other[i] *= 0.9 + 0.05*math.Sin(float64(i)/3)
	}
	c := only(t, onTwoPaths(flows1, goodput, base, other, Options{}))
	if !violated(c, result.IndependentBlocks) || !strings.Contains(said(c), "blocks depend on the one before: with an autocorrelation of +") {
		t.Errorf("%s\n%+v", said(c), c.Violations)
	}
}
