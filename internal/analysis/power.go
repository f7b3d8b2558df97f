package analysis

import (
	"math"
	"slices"

	"github.com/hopbench/hopbench/internal/analysis/statistics"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// blocksNeeded estimates how many blocks would resolve the comparison with a
// chance of 80 %, if the effect were what it looks like now and the spread
// stayed: either to show an effect against the strictest step of the family, or to show
// that it is smaller than what matters. docs/methodology.md has the formula.
func (c *costEstimate) blocksNeeded() int {
	if c.n < 2 && len(c.effects) < 3 { // of two samples one may show the spread of both
		return c.fewestBlocks()
	}
	need := c.resolving()(c.estimate, c.spread())
	if math.IsInf(need, 1) { // but not for most of what the effect may be
		if needs := c.possibleNeeds(); needs != nil {
			need = statistics.MedianOfSorted(needs)
		}
	}
	return c.more(need)
}

// resolving gives the number of blocks that resolve an effect of a spread, infinite
// where the trials' own resolution hides it from any number.
func (c *costEstimate) resolving() func(effect, spread float64) float64 {
	fewest, limit, reach := float64(c.fewestBlocks()), c.upper, c.reach()
	least := float64(c.minBlocks) // for an interval
	if c.Runs > 0 {
		least = FewestRuns
	}
	shows := statistics.NormalQuantile(1-c.alpha/(2*float64(max(1, c.familySize)))) + statistics.NormalQuantile(power)
	excludes := statistics.NormalQuantile(1-c.alpha/2) + statistics.NormalQuantile(power)
	return func(effect, spread float64) float64 {
		need := math.Inf(1)
		effect = math.Abs(effect)
		if effect > reach {
			need = max(fewest, statistics.Square(shows*spread)/(statistics.Square(effect)-statistics.Square(reach)))
		}
		if limit-effect > reach {
			need = min(need, max(least, statistics.Square(excludes*spread)/(statistics.Square(limit-effect)-statistics.Square(reach))))
		}
		return need
	}
}

// more is a number of blocks to ask for: more than there are.
func (c *costEstimate) more(need float64) int {
	return wholeBlocks(math.Max(need, float64(c.n+1)))
}

// rangeSteps is into how many equally likely parts the effect and the spread
// are divided each, to see what they ask for.
const rangeSteps = 20

// possibleNeeds are the numbers of blocks that resolve what the effect and the spread may
// be, in ascending order: both are uncertain themselves. The spread is
// spread as χ² of n − 1 degrees of freedom and the effect around its estimate, as
// of normal noise. With one block the spread is unknown and there are none.
func (c *costEstimate) possibleNeeds() []float64 {
	if c.unpaired || c.zeros || c.n < 2 || len(bounded(c.effects)) < c.n {
		return nil
	}
	spread, degrees, need := c.spread(), float64(c.n-1), c.resolving()
	var off [rangeSteps]float64 // of the effect, in standard errors
	for j := range off {
		off[j] = statistics.NormalQuantile((float64(j) + 0.5) / rangeSteps)
	}
	needs := make([]float64, 0, rangeSteps*rangeSteps)
	for i := range rangeSteps {
		s := spread * math.Sqrt(degrees/statistics.ChiSquareQuantile((float64(i)+0.5)/rangeSteps, degrees))
		for _, z := range off {
			needs = append(needs, need(c.estimate+z*s/math.Sqrt(float64(c.n)), s))
		}
	}
	slices.Sort(needs)
	return needs
}

// neededRange holds the number of blocks that resolves the comparison with a
// chance of 80 %, by what effect and spread may be.
func (c *costEstimate) neededRange() (low, high int) {
	needs := c.possibleNeeds()
	if needs == nil {
		return 0, 0
	}
	// A twentieth on either side, not a tenth: an effect halfway to what matters asks
	// for the most blocks, and every estimate of it for fewer.
	out := len(needs) / 20
	return c.more(needs[out]), c.more(needs[len(needs)-1-out])
}

// detectable is the smallest effect, on the scale of the margin, that so many
// blocks show with a chance of 80 % among the other comparisons, if the spread is
// what it looks like; 0 where they can show none.
func (c *costEstimate) detectable() float64 {
	if c.unpaired || c.metric.Name == measurement.BrokenTrials || c.n < c.fewestBlocks() || len(bounded(c.effects)) < c.n {
		return 0
	}
	n, spread := float64(c.n), c.spread()
	level := c.alpha / float64(max(1, c.familySize))
	if c.interval != nil { // ranks come in steps
		level = math.Min(level, 1-c.interval.Coverage)
	}
	size := (statistics.StudentQuantile(1-level/2, c.n-1) + statistics.StudentQuantile(power, c.n-1)) * spread / math.Sqrt(n)
	// The fewest blocks show nothing unless all of them agree in sign.
	if c.n == c.fewestBlocks() {
		size = math.Max(size, statistics.NormalQuantile(math.Pow(power, 1/n))*spread)
	}
	return c.onMargin(math.Hypot(size, c.reach()))
}

// assessPower fills in what blocks could show, and would.
func assessPower(all []*costEstimate) {
	for _, c := range all {
		c.Detectable = c.detectable()
		if c.RepetitionsNeeded > 0 && !(c.tooFew() && c.hidden()) {
			c.NeededLow, c.NeededHigh = c.neededRange()
		}
	}
}

// spread is the standard error of the estimate times √n: from the interval's
// width where there is one, else from the standard deviation and the
// efficiency 3/π of the signed-rank test for a normal distribution.
func (c *costEstimate) spread() float64 {
	if c.unpaired {
		return c.shiftSpread()
	}
	n := float64(c.n)
	if i := c.spreading; i != nil {
		t := statistics.StudentQuantile((1+i.Coverage)/2, c.n-1)
		return (i.High - i.Low) / (2 * t) * math.Sqrt(n)
	}
	return math.Sqrt(statistics.Variance(c.effects) * math.Pi / 3)
}

// PrimaryComparisons is how many primary costs a report of so many contrasts and
// such tests has.
func PrimaryComparisons(contrasts int, tests []result.TestInfo) int {
	n := 0
	for _, t := range tests {
		for _, m := range measurement.ComparedOf(t.Spec.Kind) {
			if m.PrimaryIn(t.Spec.Kind) {
				n += contrasts
			}
		}
	}
	return n
}
