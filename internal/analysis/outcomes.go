package analysis

import (
	"math"
	"slices"

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
func brokenEstimate(set *dataset, contrast result.Contrast, test string, opts Options) *costEstimate {
	m := measurement.MetricOf(measurement.BrokenTrials)
	c := &costEstimate{metric: m, alpha: opts.Alpha, minBlocks: opts.MinBlocks}
	c.Effect = result.Effect{Path: contrast.Path, Baseline: contrast.Baseline, Test: test, Metric: m.Name, Primary: true}
	base, other := cellKey{contrast.Baseline, test}, cellKey{contrast.Path, test}
	if len(set.broken[base])+len(set.broken[other]) == 0 {
		return nil
	}
	broke := func(k cellKey, block int) float64 {
		if set.broken[k][block] {
			return 1
		}
		return 0
	}
	takePairs(c, set.blocks, set.judged(base), set.judged(other), func(block int) bool {
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

// withhold finds what forbids to call two paths equal, or the path better, on the
// trials that there are.
func (c *costEstimate) withhold(onlyBase, onlyOther int) {
	if c.Broken > c.ReferenceBroken {
		c.againstEqual = append(c.againstEqual, result.WithheldBroken)
	}
	if mcNemarP(onlyBase, onlyOther) < missingAlpha {
		c.missing = append(c.missing, result.WithheldMissingDiffer)
	}
	switch lack := c.Blocks - c.n; {
	case float64(lack) > mostMissing*float64(c.Blocks):
		c.missing = append(c.missing, result.WithheldMissingMany)
	case float64(lack+c.bothBroken) > mostMissing*float64(c.Blocks):
		c.missing = append(c.missing, result.WithheldBothBroken)
	}
}

// withholdMean is what the ranks of a share do not see: much lost in few trials.
func (c *costEstimate) withholdMean() {
	mean, known := 0.0, bounded(c.effects)
	for _, v := range known {
		mean += v / float64(len(known))
	}
	if math.Abs(mean) >= c.upper {
		c.againstEqual = append(c.againstEqual, result.WithheldMean)
	}
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

// zeroBound is the share that the median trial can have at most, at confidence
// 1 − alpha/2, when none of n trials saw anything among looked packets or more.
//
// Half of all trials have at least the median's share p, and such a trial sees
// nothing with a chance of at most exp(−p·looked), so none of n does with one of
// at most ((1 + exp(−p·looked))/2)ⁿ. The trials are the unit, not their packets,
// which are lost in clusters. It is infinite where n or looked are too small.
func zeroBound(n int, looked, alpha float64) float64 {
	if looked <= 0 {
		return math.Inf(1)
	}
	seenNothing := 2*math.Pow(alpha/2, 1/float64(n)) - 1
	if seenNothing <= 0 {
		return math.Inf(1)
	}
	return -math.Log(seenNothing) / looked
}

// zeroBlocks is how many blocks make zeroBound as small as a limit.
func zeroBlocks(limit, looked, alpha float64) float64 {
	return math.Log(alpha/2) / math.Log((1+math.Exp(-limit*looked))/2)
}

// ofZeroCounts gives a share that was zero in all of n trials, as all values are, the
// interval that such a count has: lows and highs are how much was looked at where a share
// that was not seen would make the effect smaller or larger. Where nobody knows how much,
// it has none.
func (c *costEstimate) ofZeroCounts(n int, lows, highs []float64, values ...[]float64) {
	if c.interval == nil || slices.ContainsFunc(slices.Concat(values...), func(v float64) bool { return v != 0 }) {
		return
	}
	bound := func(looked []float64) (sum float64) {
		for _, l := range looked {
			sum += zeroBound(n, l, c.alpha)
		}
		return sum
	}
	low, high := -bound(lows), bound(highs)
	if math.IsInf(low, 0) || math.IsInf(high, 0) {
		c.interval, c.spreading, c.Coverage, c.DifferenceLow, c.DifferenceHigh = nil, nil, 0, nil, nil
		return
	}
	c.LookedAt, c.unseen = min(slices.Min(lows), slices.Min(highs)), max(len(lows), len(highs))
	c.interval.Low, c.interval.High, c.interval.Coverage = low, high, 1-c.alpha
	c.spreading, c.resolution = c.interval, resolution{} // the bound has it
	c.DifferenceLow, c.DifferenceHigh, c.Coverage = &low, &high, 1-c.alpha
}

// fewestLookedAt is the fewest packets, requests or connections that a
// share of the trials of a path was taken of; 0 where a trial does not tell.
func (s *dataset) fewestLookedAt(path string, test result.TestInfo) float64 {
	fewest := math.Inf(1)
	for _, t := range s.cells[cellKey{path, test.Name}] {
		fewest = math.Min(fewest, lookedAt(t, test.Spec))
	}
	if math.IsInf(fewest, 0) {
		return 0
	}
	return fewest
}

// lookedAt is how much was looked at on the paths of a contrast, by the direction in
// which a share that was not seen would move the effect.
func (s *dataset) lookedAt(c result.Contrast, test result.TestInfo) (lows, highs []float64) {
	lows, highs = []float64{s.fewestLookedAt(c.Baseline, test)}, []float64{s.fewestLookedAt(c.Path, test)}
	if c.Against != nil {
		less, more := s.lookedAt(*c.Against, test)
		lows, highs = append(lows, more...), append(highs, less...)
	}
	return lows, highs
}

// lookedAt is of how many packets, requests or connections a trial's share was taken; 0
// where it does not tell.
func lookedAt(t measurement.Trial, spec measurement.Spec) float64 {
	seconds := float64(spec.Duration)
	switch spec.Kind {
	case measurement.UDP:
		return t.Metrics["received_packets_per_second"] * seconds
	case measurement.PPS:
		return t.Metrics["packets_per_second"] * seconds
	case measurement.CRR:
		return t.Metrics["connections_per_second"] * seconds
	}
	if t.Latency == nil {
		return 0
	}
	return float64(t.Latency.Samples)
}
