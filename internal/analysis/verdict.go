package analysis

import (
	"math"
	"slices"

	"github.com/hopbench/hopbench/internal/analysis/statistics"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// decide gives the verdict. Equivalence comes first: an effect that is surely
// smaller than what matters is no cost, also when it is surely not zero, and
// so a comparison of a path with itself hardly ever claims a cost.
func (c *costEstimate) decide() {
	c.BeyondChance = c.PAdjusted != nil && *c.PAdjusted < c.alpha && (c.ofBreaking || c.interval.ExcludesZero())
	worse := c.estimate < 0
	if !c.metric.HigherIsBetter {
		worse = c.estimate > 0
	}
	equal := c.interval != nil && c.lower < c.interval.Low && c.interval.High < c.upper
	// A gain too small to matter is none where no-cost is withheld.
	better := c.BeyondChance && !worse && !equal
	switch {
	case equal && len(c.againstEqual)+len(c.missing) == 0:
		c.Verdict = result.NoCost
		c.Bound = c.bound()
	case c.BeyondChance && worse && c.metric.Name == measurement.BrokenTrials:
		c.Verdict = result.Breaks
	case c.BeyondChance && worse:
		c.Verdict = result.Costs
	case better && len(c.missing) == 0:
		c.Verdict = result.Gains
	default:
		c.Verdict = c.open()
		switch {
		case better, c.Counted() == 0:
			c.Withheld = c.missing
		case equal:
			c.Withheld = slices.Concat(c.againstEqual, c.missing)
		case !c.tooFew() && c.hidden():
			c.NeedsLongerTrials = true
		default:
			c.RepetitionsNeeded = c.repetitionsNeeded()
		}
	}
	if c.NeedsLongerTrials || len(bounded(c.effects)) == len(c.effects) {
		c.Resolution = c.onMargin(c.reach())
	}
}

// hidden says that no number of blocks would resolve the comparison, whatever their
// spread: the trials' own resolution hides both that there is an effect and that there is
// none that matters, of the estimate and of half of what the effect may be.
func (c *costEstimate) hidden() bool {
	if c.reach() == 0 || !math.IsInf(c.resolving()(c.estimate, 0), 1) {
		return false
	}
	needs := c.possibleNeeds()
	return needs == nil || math.IsInf(statistics.MedianOfSorted(needs), 1)
}

// repetitionsNeeded is blocksNeeded where more blocks, or runs, can help: against trials
// that break they do only as far as a claim takes them, as against a share that was zero of
// nobody knows how much, and against one that was zero in all runs no more of them do.
func (c *costEstimate) repetitionsNeeded() int {
	switch broke := len(bounded(c.effects)) < len(c.effects); {
	case c.zeros && c.Runs > 0: // the bound is that of one run
		return 0
	case c.zeros && c.looked > 0:
		return c.more(math.Max(zeroBlocks(c.upper/float64(c.unseen), c.looked, c.alpha), float64(c.fewestBlocks())))
	case c.tooFew() && (broke || c.zeros || c.hidden()):
		return c.fewestBlocks()
	case broke, c.zeros:
		return 0
	}
	return c.blocksNeeded()
}

// wholeBlocks rounds up, to two digits above 100, and bounds the number.
func wholeBlocks(need float64) int {
	need = math.Min(result.MaxRepetitionsNeeded, math.Ceil(need))
	if need > 100 {
		need = math.Round(roundUp(need))
	}
	return int(need)
}

// bound is the smallest size of effect, either way, that the interval excludes,
// on the scale of the margin: rounded up to two digits and at least a fiftieth of
// the margin, but never above it.
func (c *costEstimate) bound() float64 {
	size := math.Max(math.Abs(c.interval.Low), math.Abs(c.interval.High))
	margin := c.Margin.Amount
	if c.logarithmic {
		margin = c.Margin.Fraction
	}
	return math.Min(margin, roundUp(math.Max(c.onMargin(size), margin/50)))
}

// roundUp keeps two significant digits.
func roundUp(v float64) float64 {
	steps := math.Pow(10, 1-math.Floor(math.Log10(v))) // in one
	// A hair less, so that a value that is already round stays.
	return math.Ceil(v*steps-1e-6) / steps
}
