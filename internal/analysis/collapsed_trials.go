package analysis

import (
	"math"

	"github.com/hopbench/hopbench/internal/analysis/statistics"
	"github.com/hopbench/hopbench/internal/result"
)

const (
	// collapseLoss is the share that a trial must lose against what is typical of
	// its comparison to count as collapsed.
	collapseLoss = 0.2
	// collapseDeviations is how many robust standard deviations it must lie below,
	// far beyond what heavy-tailed noise does.
	collapseDeviations = 15
)

// findCollapse looks for trials of the path that fell far below the others, which
// neither a median nor ranks see: by a fifth at least, by more than what matters,
// and beyond robust bounds of the comparison and of both cells. Where trials of the
// baseline collapse as well it is no property of the path.
func (c *costEstimate) findCollapse() {
	if c.unpaired || !c.Primary || c.Against != nil || c.n < minBlocks {
		return
	}
	good := 1.0
	if !c.metric.HigherIsBetter {
		good = -1
	}
	var base, other, effects, differences []float64
	for i := range c.base {
		a, b := c.base[i], c.other[i]
		if !(a > 0) || math.IsInf(a, 0) || b < 0 || math.IsInf(b, 0) {
			return // broken trials, shares and counts have verdicts of their own
		}
		base, other = append(base, good*math.Log(a)), append(other, good*math.Log(b))
		effects = append(effects, good*math.Log(b/a))
		differences = append(differences, good*c.effects[i])
	}
	fell := collapsed(effects, other, lowest(base)+math.Min(0, statistics.Median(effects)))
	var reversed []float64
	for _, v := range effects {
		reversed = append(reversed, -v)
	}
	reference := collapsed(reversed, base, lowest(other)+math.Min(0, statistics.Median(reversed)))
	typical := statistics.Median(differences)
	var out result.Collapse
	for i, down := range fell {
		if down && typical-differences[i] > c.upper {
			out.Trials++
			if share := math.Exp(effects[i]); out.Trials == 1 || share < out.Worst {
				out.Worst = share
			}
		}
	}
	for _, down := range reference {
		if down {
			out.ReferenceTrials++
		}
	}
	if out.Trials > out.ReferenceTrials && 3*out.Trials <= c.n {
		if !c.metric.HigherIsBetter {
			out.Worst = 1 / out.Worst
		}
		c.Collapse = &out
		c.againstEqual = append(c.againstEqual, result.WithheldCollapsed)
	}
}

// collapsed says which values lie far below: of the effects, of their own cell, and
// below a floor. What is better is higher.
func collapsed(effects, own []float64, floor float64) []bool {
	out := make([]bool, len(effects))
	limit := math.Min(lowest(effects), statistics.Median(effects)+math.Log1p(-collapseLoss))
	for i, v := range effects {
		out[i] = v < limit && own[i] < lowest(own) && own[i] < floor
	}
	return out
}

// lowest is the robust lower bound of values.
func lowest(values []float64) float64 {
	centre, deviation := robustSpread(values)
	return centre - collapseDeviations*deviation
}
