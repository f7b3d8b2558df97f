package analysis

import (
	"math"
	"slices"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

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
	if slices.ContainsFunc(slices.Concat(values...), func(v float64) bool { return v != 0 }) {
		return
	}
	c.zeros, c.looked, c.unseen = true, min(slices.Min(lows), slices.Min(highs)), max(len(lows), len(highs))
	if c.interval == nil {
		return
	}
	bound := func(looked []float64) (sum float64) {
		for _, l := range looked {
			sum += zeroBound(n, l, c.alpha)
		}
		return sum
	}
	low, high := -bound(lows), bound(highs)
	c.resolution = resolution{} // the bound has it
	if math.IsInf(low, 0) || math.IsInf(high, 0) {
		c.interval, c.spreading, c.Coverage, c.DifferenceLow, c.DifferenceHigh = nil, nil, 0, nil, nil
		return
	}
	c.LookedAt = c.looked
	c.interval.Low, c.interval.High, c.interval.Coverage = low, high, 1-c.alpha
	c.spreading = c.interval
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
	if k, _ := kind.Of(spec.Kind); k.SharesOf != "" {
		return t.Metrics[k.SharesOf] * float64(spec.Duration)
	}
	if t.Latency == nil {
		return 0
	}
	return float64(t.Latency.Samples)
}
