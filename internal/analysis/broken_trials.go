package analysis

import (
	"github.com/hopbench/hopbench/internal/analysis/statistics"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

const (
	// missingAlpha is the level at which missing trials count as more frequent on
	// one of two paths. It is wide, since what it protects from is a false verdict.
	missingAlpha = 0.1
	// mostMissing is the share of the blocks that may lack a partner.
	mostMissing = 0.2
)

// brokenEstimate compares how often two paths break a trial: the exact test of
// McNemar (1947) on the blocks in which one of the two did, which is the
// signed-rank test of effects of one size. nil where no trial broke.
func brokenEstimate(set *dataset, contrast result.Contrast, test result.TestInfo, opts Options) *costEstimate {
	base, other := cellKey{contrast.Baseline, test.Name}, cellKey{contrast.Path, test.Name}
	if len(set.broken[base])+len(set.broken[other]) == 0 {
		return nil
	}
	c := newEstimate(contrast, test, measurement.MetricOf(measurement.BrokenTrials), opts)
	c.Primary, c.ofBreaking = true, true
	broke := func(k cellKey, block int) float64 {
		if set.broken[k][block] {
			return 1
		}
		return 0
	}
	judgedBase, judgedOther := set.judged(base), set.judged(other)
	brokenAlone(c, set, base, other, func(block int) bool { return judgedBase[block] && judgedOther[block] })
	takePairs(c, set.blocks, judgedBase, judgedOther, func(block int) bool {
		c.base, c.other = append(c.base, broke(base, block)), append(c.other, broke(other, block))
		c.effects = append(c.effects, broke(other, block)-broke(base, block))
		c.ReferenceBroken += int(broke(base, block))
		c.Broken += int(broke(other, block))
		return true
	})
	if c.n == 0 {
		return c
	}
	c.ReferenceMedian, c.Median = float64(c.ReferenceBroken)/float64(c.n), float64(c.Broken)/float64(c.n)
	c.Difference = c.Median - c.ReferenceMedian
	c.estimate = c.Difference
	if c.n >= c.minBlocks {
		c.judgeP(statistics.SignedRankP(c.effects))
	}
	return c
}

// brokenAlone counts the trials that a path broke in blocks without a pair, since another has
// no outcome there: they are not to be forgotten.
func brokenAlone(c *costEstimate, set *dataset, base, other cellKey, paired func(block int) bool) {
	alone := func(k cellKey) (n int) {
		for block := range set.broken[k] {
			if !paired(block) {
				n++
			}
		}
		return n
	}
	c.ReferenceBrokenAlone, c.BrokenAlone = alone(base), alone(other)
}

// judged are the blocks in which a cell has an outcome.
func (s *dataset) judged(k cellKey) map[int]bool {
	out := map[int]bool{}
	for _, t := range s.cells[k] {
		out[t.Block] = true
	}
	for block := range s.broken[k] {
		out[block] = true
	}
	return out
}

// mcNemarP is the exact two-sided p of a against b pairs that differ one way and
// the other: both throws of a fair coin (McNemar 1947).
func mcNemarP(a, b int) float64 {
	effects := make([]float64, a+b)
	for i := range effects {
		effects[i] = 1
		if i < a {
			effects[i] = -1
		}
	}
	return statistics.SignedRankP(effects)
}
