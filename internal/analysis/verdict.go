package analysis

import (
	"math"

	"github.com/hopbench/hopbench/internal/result"
)

// decide gives the verdict. Equivalence comes first: an effect that is surely
// smaller than what matters is no cost, also when it is surely not zero, and
// so a comparison of a path with itself hardly ever claims a cost.
func (c *costEstimate) decide() {
	c.BeyondChance = c.PAdjusted != nil && *c.PAdjusted < c.alpha && c.interval.excludesZero()
	if c.LeadsWithDifference() {
		// People read the difference, so its interval must agree.
		c.BeyondChance = c.BeyondChance && c.DifferenceLow != nil && (*c.DifferenceLow > 0 || *c.DifferenceHigh < 0)
	}
	worse := c.estimate < 0
	if !c.metric.HigherIsBetter {
		worse = c.estimate > 0
	}
	switch {
	case c.interval != nil && c.lower < c.interval.Low && c.interval.High < c.upper:
		c.Verdict = result.NoCost
		c.Bound = c.bound()
	case c.BeyondChance && worse:
		c.Verdict = result.Costs
	case c.BeyondChance:
		c.Verdict = result.Gains
	default:
		c.Verdict = result.NotResolved
		c.RepetitionsNeeded = c.blocksNeeded()
	}
}

func (i *interval) excludesZero() bool { return i != nil && (i.Low > 0 || i.High < 0) }

// bound is the smallest size of effect, either way, that the interval
// excludes, as a fraction of the baseline: rounded up to two digits
// and at least 0.1 %, but never above the smallest effect of interest.
func (c *costEstimate) bound() float64 {
	low, high := c.interval.Low, c.interval.High
	size := math.Max(math.Abs(low), math.Abs(high))
	switch {
	case !c.logarithmic:
		size /= c.ReferenceMedian
	case c.metric.HigherIsBetter:
		size = -math.Expm1(-size)
	default:
		size = math.Expm1(size)
	}
	return math.Min(c.SmallestEffect, roundUp(math.Max(size, 0.001)))
}

// roundUp keeps two significant digits.
func roundUp(v float64) float64 {
	steps := math.Pow(10, 1-math.Floor(math.Log10(v))) // in one
	// A hair less, so that a value that is already round stays.
	return math.Ceil(v*steps-1e-6) / steps
}
