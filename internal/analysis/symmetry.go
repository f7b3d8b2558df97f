package analysis

import (
	"math"
	"slices"

	"github.com/hopbench/hopbench/internal/result"
)

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
	for _, p := range signedRankDistribution(slices.Repeat([]int{1}, better+worse))[:min(better, worse)+1] {
		tail += p // the sums of ranks of 1 are numbers of signs
	}
	if math.Min(1, 2*tail) < c.alpha {
		return nil
	}
	return &result.Violation{Assumption: result.SymmetricEffects, AgreeingBlocks: max(better, worse)}
}
