package analysis

import (
	"math"

	"github.com/hopbench/hopbench/internal/analysis/statistics"
	"github.com/hopbench/hopbench/internal/result"
)

// withhold finds what forbids to call two paths equal, or the path better, on the
// trials that there are.
func (c *costEstimate) withhold(onlyBase, onlyOther int) {
	if c.Broken > c.ReferenceBroken || c.Broken+c.BrokenAlone > c.ReferenceBroken+c.ReferenceBrokenAlone {
		c.againstEqual = append(c.againstEqual, result.WithheldBroken)
	}
	if mcNemarP(onlyBase, onlyOther) < missingAlpha {
		c.missing = append(c.missing, result.WithheldMissingDiffer)
	}
	switch lack := c.Blocks - c.N; {
	case float64(lack) > mostMissing*float64(c.Blocks):
		c.missing = append(c.missing, result.WithheldMissingMany)
	case float64(lack+c.WithoutValue) > mostMissing*float64(c.Blocks):
		c.missing = append(c.missing, result.WithheldBothBroken)
	}
}

// withholdMean is what the ranks of a share do not see: much lost in few trials.
func (c *costEstimate) withholdMean() {
	if math.Abs(statistics.Mean(bounded(c.effects))) >= c.upper {
		c.againstEqual = append(c.againstEqual, result.WithheldMean)
	}
}
