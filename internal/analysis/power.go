package analysis

import (
	"math"
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
// stayed: either to show an effect against Holm's strictest step, or to show
// that it is smaller than what matters. docs/methodology.md has the formula.
func (c *costEstimate) blocksNeeded() int {
	n := c.n
	fewest := c.fewestBlocks()
	if n < 2 {
		return fewest
	}
	spread := c.spread()
	effect := math.Abs(c.estimate)
	limit := c.upper
	need := math.Inf(1)
	if effect > 0 {
		z := normalQuantile(1-c.alpha/(2*float64(max(1, c.familySize)))) + normalQuantile(power)
		need = math.Max(float64(fewest), square(z*spread/effect))
	}
	if effect < limit {
		z := normalQuantile(1-c.alpha/2) + normalQuantile(power)
		need = math.Min(need, math.Max(float64(c.minBlocks), square(z*spread/(limit-effect))))
	}
	return wholeBlocks(math.Max(need, float64(n+1)))
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
		z := normalQuantile((1 + c.interval.Coverage) / 2)
		return (c.interval.High - c.interval.Low) / (2 * z) * math.Sqrt(n)
	}
	mean, sum := 0.0, 0.0
	for _, v := range c.effects {
		mean += v / n
	}
	for _, v := range c.effects {
		sum += square(v - mean)
	}
	return math.Sqrt(sum / (n - 1) * math.Pi / 3)
}

func square(v float64) float64 { return v * v }
