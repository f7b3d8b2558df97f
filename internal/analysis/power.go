package analysis

import (
	"math"

	"github.com/hopbench/hopbench/internal/measurement"
)

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

// blocksNeeded estimates how many blocks would resolve the comparison with a
// chance of 80 %, if the effect were what it looks like now and the spread
// stayed: either to show an effect against the strictest step of the family, or to show
// that it is smaller than what matters. docs/methodology.md has the formula.
func (c *costEstimate) blocksNeeded() int {
	if c.n < 2 {
		return c.fewestBlocks()
	}
	return c.more(c.resolving()(c.estimate, c.spread()))
}

// resolving gives the number of blocks that resolve an effect of a spread.
func (c *costEstimate) resolving() func(effect, spread float64) float64 {
	fewest, limit := float64(c.fewestBlocks()), c.upper
	shows := normalQuantile(1-c.alpha/(2*float64(max(1, c.familySize)))) + normalQuantile(power)
	excludes := normalQuantile(1-c.alpha/2) + normalQuantile(power)
	return func(effect, spread float64) float64 {
		need := math.Inf(1)
		effect = math.Abs(effect)
		if effect > 0 {
			need = math.Max(fewest, square(shows*spread/effect))
		}
		if effect < limit {
			need = math.Min(need, math.Max(float64(c.minBlocks), square(excludes*spread/(limit-effect))))
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

// neededRange holds the number of blocks that resolves the comparison with a
// chance of 80 %: estimate and spread are uncertain themselves. The spread is
// spread as χ² of n − 1 degrees of freedom and the effect around its estimate, as
// of normal noise. With one block the spread is unknown and there is no range.
func (c *costEstimate) neededRange() (low, high int) {
	if c.unpaired || c.LookedAt > 0 || c.n < 2 || len(bounded(c.effects)) < c.n {
		return 0, 0
	}
	spread, degrees, need := c.spread(), float64(c.n-1), c.resolving()
	var needs []float64
	for i := range rangeSteps {
		s := spread * math.Sqrt(degrees/chiSquareQuantile((float64(i)+0.5)/rangeSteps, degrees))
		for j := range rangeSteps {
			z := normalQuantile((float64(j) + 0.5) / rangeSteps)
			needs = append(needs, need(c.estimate+z*s/math.Sqrt(float64(c.n)), s))
		}
	}
	needs = sorted(needs)
	// A twentieth on either side, not a tenth: an effect halfway to what matters asks
	// for the most blocks, and every estimate of it for fewer.
	out := len(needs) / 20
	return c.more(needs[out]), c.more(needs[len(needs)-1-out])
}

// detectable is the smallest effect, on the scale of the margin, that so many
// blocks show with a chance of 80 % beside the other comparisons, if the spread is
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
	size := (studentQuantile(1-level/2, c.n-1) + studentQuantile(power, c.n-1)) * spread / math.Sqrt(n)
	// The fewest blocks show nothing unless all of them agree in sign.
	if c.n == c.fewestBlocks() {
		size = math.Max(size, normalQuantile(math.Pow(power, 1/n))*spread)
	}
	switch {
	case !c.logarithmic:
		return size
	case c.metric.HigherIsBetter:
		return -math.Expm1(-size)
	}
	return math.Expm1(size)
}

// assessPower fills in what blocks could show, and would.
func assessPower(all []*costEstimate) {
	for _, c := range all {
		c.Detectable = c.detectable()
		if c.RepetitionsNeeded > 0 {
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
	if c.interval != nil {
		t := studentQuantile((1+c.interval.Coverage)/2, c.n-1)
		return (c.interval.High - c.interval.Low) / (2 * t) * math.Sqrt(n)
	}
	return math.Sqrt(variance(c.effects) * math.Pi / 3)
}

// variance is that of a sample of two values or more.
func variance(values []float64) float64 {
	n, mean, sum := float64(len(values)), 0.0, 0.0
	for _, v := range values {
		mean += v / n
	}
	for _, v := range values {
		sum += square(v - mean)
	}
	return sum / (n - 1)
}

func square(v float64) float64 { return v * v }
