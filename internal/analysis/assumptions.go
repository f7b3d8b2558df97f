package analysis

import (
	"math"
	"slices"

	"github.com/hopbench/hopbench/internal/analysis/statistics"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// testDrift correlates the effect with the block's index and compares the two
// halves of the run.
func (c *costEstimate) testDrift() {
	n := c.n
	if n < c.minBlocks {
		return
	}
	index := make([]float64, n)
	for i, b := range c.blocks {
		index[i] = float64(b)
	}
	first, second := c.effects[:n/2], c.effects[n-n/2:]
	from, to := statistics.HodgesLehmann(first), statistics.HodgesLehmann(second)
	c.Drift = &result.Drift{HalvesP: statistics.RankSumP(first, second)}
	if rho, p, ok := statistics.Spearman(index, c.effects); ok {
		c.Drift.Rho, c.Drift.P = &rho, &p
	}
	if c.logarithmic {
		c.Drift.FirstRatio, c.Drift.SecondRatio = math.Exp(from), math.Exp(to)
	} else {
		c.Drift.FirstDifference, c.Drift.SecondDifference = from, to
	}
}

const (
	// orderAlpha is the level of the tests for carry-over and autocorrelation.
	orderAlpha = 0.01
	// unseenAutocorrelation is how much more autocorrelation than it seems a
	// claim has to survive: so much a few blocks do not exclude.
	unseenAutocorrelation = 0.2
	// mostAutocorrelation bounds what is reckoned with.
	mostAutocorrelation = 0.9
)

// checkAssumptions says which assumptions of p and interval the trials contradict,
// and which a claim does not survive without.
func checkAssumptions(set *dataset, all []*costEstimate) {
	carried := map[[2]string]*result.Violation{}
	for _, c := range all {
		if c.unpaired || c.metric.Name == measurement.BrokenTrials || c.n < c.minBlocks || len(bounded(c.effects)) < c.n {
			continue
		}
		key := [2]string{c.Test, c.Metric}
		if _, done := carried[key]; !done {
			carried[key] = set.carryOver(c.Test, c.metric)
		}
		for _, v := range []*result.Violation{c.drift(), c.dependence(), c.asymmetry(), carried[key]} {
			if v != nil {
				c.Violations = append(c.Violations, *v)
			}
		}
	}
}

// drift is the violation by an effect that changed during the run, nil where neither test
// says so.
func (c *costEstimate) drift() *result.Violation {
	if c.Drift == nil {
		return nil
	}
	p := c.Drift.HalvesP
	if c.Drift.P != nil {
		p = math.Min(p, *c.Drift.P)
	}
	if p >= driftAlpha {
		return nil
	}
	return &result.Violation{Assumption: result.NoDrift, P: &p, Level: driftAlpha}
}

// dependence tests whether the effect of a block resembles that of the block
// before: the rank version of von Neumann's ratio (Bartels 1982), one-sided. A
// claim must also survive somewhat more autocorrelation than there seems to be,
// since few blocks can hide it.
func (c *costEstimate) dependence() *result.Violation {
	n := float64(c.n)
	ranks := statistics.DoubledMidranks(c.effects)
	mean := n + 1 // of doubled ranks
	var squares, steps, products float64
	for i, r := range ranks {
		d := float64(r) - mean
		squares += d * d
		if i > 0 {
			before := float64(ranks[i-1]) - mean
			steps += statistics.Square(d - before)
			products += d * before
		}
	}
	// Neither the ratio's variance nor its mean hold where most values are tied, as
	// of losses that few trials have.
	if distinct := len(slices.Compact(slices.Sorted(slices.Values(ranks)))); 2*distinct <= c.n {
		return nil
	}
	// The mean of the ratio is 2; its variance is Bartels' for ranks without ties.
	spread := math.Sqrt(4 * (n - 2) * (5*n*n - 2*n - 9) / (5 * n * (n + 1) * (n - 1) * (n - 1)))
	p := 0.5 * math.Erfc((2-steps/squares)/spread/math.Sqrt2)
	// What is estimated from n values is too low by (1 + 4φ)/n (Kendall 1954).
	lag1 := math.Min(mostAutocorrelation, (n*products/squares+1)/(n-4))
	independent := func(r float64) float64 { return math.Max(2, n*(1-r)/(1+r)) }
	if p < orderAlpha && lag1 > 0 {
		return &result.Violation{Assumption: result.IndependentBlocks, P: &p, Level: orderAlpha, Autocorrelation: lag1, EffectiveBlocks: independent(lag1)}
	}
	if r := math.Min(mostAutocorrelation, lag1+unseenAutocorrelation); c.BeyondChance && r > 0 {
		blocks := independent(r)
		if s := c.spread(); s > 0 && statistics.StudentTwoSided(math.Abs(c.estimate)/(s/math.Sqrt(blocks)), int(blocks)-1) >= c.alpha/float64(max(1, c.familySize)) {
			return &result.Violation{Assumption: result.IndependentBlocks, Autocorrelation: r, EffectiveBlocks: blocks}
		}
	}
	return nil
}

// asymmetry holds a claim against the sign test (Arbuthnott 1710), which does not
// take the effects for symmetric: noise that only one path has may be skewed, and a few blocks do not
// show whether it is.
func (c *costEstimate) asymmetry() *result.Violation {
	if !c.BeyondChance {
		return nil
	}
	better, worse := 0, 0
	for _, v := range c.effects {
		switch {
		case v > 0:
			better++
		case v < 0:
			worse++
		}
	}
	tail := 0.0
	for _, p := range statistics.SignedRankDistribution(slices.Repeat([]int{1}, better+worse))[:min(better, worse)+1] {
		tail += p // the sums of ranks of 1 are numbers of signs
	}
	if math.Min(1, 2*tail) < c.alpha {
		return nil
	}
	return &result.Violation{Assumption: result.SymmetricEffects, AgreeingBlocks: max(better, worse)}
}
