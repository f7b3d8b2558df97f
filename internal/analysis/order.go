package analysis

import (
	"math"

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
	from, to := hodgesLehmann(walshAverages(first)), hodgesLehmann(walshAverages(second))
	c.Drift = &result.Drift{HalvesP: rankSumP(first, second)}
	if rho, p, ok := spearman(index, c.effects); ok {
		c.Drift.Rho, c.Drift.P = &rho, &p
	}
	if c.logarithmic {
		c.Drift.FirstRatio, c.Drift.SecondRatio = math.Exp(from), math.Exp(to)
	} else {
		c.Drift.FirstDifference, c.Drift.SecondDifference = from, to
	}
}
