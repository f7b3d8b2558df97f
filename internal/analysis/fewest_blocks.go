package analysis

import (
	"math"

	"github.com/hopbench/hopbench/internal/analysis/statistics"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// FewestBlocks is the smallest number of blocks at which an effect can be
// beyond chance in a report, however many comparisons it makes.
func FewestBlocks() int {
	o := DefaultOptions()
	return (&costEstimate{alpha: o.Alpha, minBlocks: o.MinBlocks}).fewestBlocks()
}

// fewestBlocks is the smallest n at which an effect can be beyond chance at all,
// whatever the size of the family: 2^(1−n), the share of flips that are as extreme
// as n blocks which agree, must be below alpha.
func (c *costEstimate) fewestBlocks() int {
	if c.unpaired {
		return c.fewestTrials()
	}
	n := c.minBlocks
	for math.Ldexp(1, 1-n) >= c.alpha {
		n++
	}
	return n
}

// tooFew says that with what there is no effect, however large, can be beyond chance. Of two
// runs the larger one makes up for a smaller one: the smallest p is 2/C(n+m, n).
func (c *costEstimate) tooFew() bool {
	if !c.unpaired || c.Runs > 0 {
		return c.n < c.fewestBlocks()
	}
	ways := 1.0
	for i := range len(c.base) {
		ways *= float64(len(c.other)+i+1) / float64(i+1)
	}
	return 2/ways*float64(max(1, c.familySize)) >= c.alpha
}

// open is the verdict where nothing is claimed: with fewer blocks than a claim
// takes, what they indicate, or that they are too few.
func (c *costEstimate) open() result.Verdict {
	if c.unpaired || c.n == 0 {
		return result.NotResolved
	}
	fewest := c.fewestBlocks()
	if c.n >= fewest {
		return result.NotResolved
	}
	c.FewestBlocks = fewest
	if c.Indication != nil {
		return result.Indicated
	}
	return result.TooFewBlocks
}

// indicate tests the comparisons that have too few blocks for ranks by Student's t.
// The variance is pooled over the comparisons of one metric, which gives it
// degrees of freedom that a few blocks alone do not have, and never below the
// comparison's own. It assumes normal noise, alike on all paths and tests; so it is
// no claim.
func indicate(all []*costEstimate) {
	type pool struct {
		squares     float64
		degrees     int
		comparisons int
	}
	usable := func(c *costEstimate) bool {
		return !c.unpaired && c.metric.Name != measurement.BrokenTrials && c.n > 1 && len(bounded(c.effects)) == c.n
	}
	pools := map[string]*pool{}
	for _, c := range all {
		if !usable(c) {
			continue
		}
		if pools[c.Metric] == nil {
			pools[c.Metric] = &pool{}
		}
		p := pools[c.Metric]
		p.squares += statistics.Variance(c.effects) * float64(c.n-1)
		p.degrees += c.n - 1
		p.comparisons++
	}
	for _, c := range all {
		if !usable(c) || c.n >= c.fewestBlocks() {
			continue
		}
		p := pools[c.Metric]
		mean := statistics.Mean(c.effects)
		spread := math.Sqrt(math.Max(p.squares/float64(p.degrees), statistics.Variance(c.effects)))
		t := math.Inf(1)
		if e := math.Hypot(spread/math.Sqrt(float64(c.n)), c.uncertainty()); e > 0 {
			t = mean / e
		}
		// By Bonferroni, and the median effect must point the same way.
		adjusted := math.Min(1, statistics.StudentTwoSided(t, p.degrees)*float64(max(1, c.familySize)))
		if mean != 0 && mean*c.estimate > 0 && adjusted < c.alpha {
			c.Indication = &result.Indication{P: adjusted, Comparisons: p.comparisons, DegreesOfFreedom: p.degrees}
		}
	}
}
