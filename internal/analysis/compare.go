package analysis

import (
	"maps"
	"math"
	"slices"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

const (
	// driftAlpha is the level at which drift over blocks is noted.
	driftAlpha = 0.01
	// power is the chance of resolving a comparison that RepetitionsNeeded aims at.
	power = 0.8
	// maxRepetitionsNeeded bounds the estimate; beyond it another design is needed,
	// not more blocks.
	maxRepetitionsNeeded = 1000
)

// costEstimate is one effect while it is worked out.
type costEstimate struct {
	result.Effect
	metric measurement.Metric
	blocks []int
	// base and other are the values of the pairs, by blocks; of an unpaired
	// estimate, those of either sample.
	base, other []float64
	unpaired    bool
	// n is the number of pairs, or the size of the smaller sample.
	n int
	// effects are the within-block effects on a scale where zero is no
	// effect: log-ratios, or differences when a value is not positive.
	effects     []float64
	logarithmic bool
	// lower and upper are the limits of equivalence on the scale of effects,
	// both zero when there is none.
	lower, upper float64

	estimate   float64
	interval   *interval // 1 − alpha, of the effects
	familySize int
	alpha      float64
	minBlocks  int
}

// compareAll works out every cost of the report, verdicts included.
func compareAll(set *dataset, opts Options) ([]*costEstimate, []result.Note) {
	var baseline *result.PathInfo
	for i := range set.paths {
		if !set.paths[i].Baseline {
			continue
		}
		if baseline != nil {
			return nil, []result.Note{{Code: result.NoteTwoBaselines, Path: set.paths[i].Name, Baseline: baseline.Name}}
		}
		baseline = &set.paths[i]
	}
	if baseline == nil {
		return nil, []result.Note{{Code: result.NoteNoBaseline}}
	}
	var all []*costEstimate
	for _, p := range set.paths {
		if p.Baseline {
			continue
		}
		for _, t := range set.tests {
			for _, m := range measurement.MetricsOf(t.Spec.Kind) {
				if !m.Compared {
					continue
				}
				c := pairedEstimate(set, baseline.Name, p.Name, t.Name, m, opts)
				// A secondary metric may rightly be missing, such as a
				// percentile with too few samples. A primary one leaves a hole
				// that the report has to show.
				if c.n > 0 || m.Primary {
					all = append(all, c)
				}
			}
		}
	}
	correct(all)
	notes := pairNotes(set, all)
	notes = append(notes, powerNotes(all, result.NoteTooFewBlocks)...)
	indicate(all)
	for _, c := range all {
		c.findCollapse()
		c.decide()
	}
	assessPower(all)
	checkOrder(set, all)
	notes = append(notes, driftNotes(all)...)
	return all, notes
}

// pairedEstimate pairs the trials within their blocks and estimates the effect.
func pairedEstimate(set *dataset, baseline, path, test string, m measurement.Metric, opts Options) *costEstimate {
	c := &costEstimate{metric: m, alpha: opts.Alpha, minBlocks: opts.MinBlocks}
	c.Effect = result.Effect{Path: path, Baseline: baseline, Test: test, Metric: m.Name, Primary: m.Primary}
	base, other := set.values(baseline, test, m.Name), set.values(path, test, m.Name)
	for _, block := range slices.Sorted(maps.Keys(base)) {
		if v, ok := other[block]; ok {
			c.blocks = append(c.blocks, block)
			c.base = append(c.base, base[block])
			c.other = append(c.other, v)
		}
	}
	c.n, c.N = len(c.blocks), len(c.blocks)
	if c.n == 0 {
		return c
	}
	c.ReferenceMedian, c.Median = Median(c.base), Median(c.other)
	differences := make([]float64, c.n)
	logs := make([]float64, c.n)
	c.logarithmic = true
	for i := range c.base {
		differences[i] = c.other[i] - c.base[i]
		if c.base[i] > 0 && c.other[i] > 0 {
			logs[i] = math.Log(c.other[i] / c.base[i])
		} else {
			c.logarithmic = false
		}
	}
	c.effects = differences
	if c.logarithmic {
		c.effects = logs
	}
	c.setSmallest(opts)
	c.estimateEffect(differences)
	c.testDrift()
	return c
}

// setSmallest fixes the smallest effect of interest and with it the limits
// between which a path counts as equal to the baseline. For what is better
// when higher they are a loss of the fraction and the gain that undoes it, for
// what is better when lower the other way about: symmetric in the logarithm.
func (c *costEstimate) setSmallest(opts Options) {
	c.SmallestEffect = opts.SmallestRateEffect
	if c.metric.Unit == measurement.SecondsUnit {
		c.SmallestEffect = opts.SmallestTimeEffect
		if c.ReferenceMedian > 0 {
			c.SmallestEffect = math.Max(c.SmallestEffect, float64(opts.SmallestTime)/c.ReferenceMedian)
		}
	}
	switch {
	case c.logarithmic && c.metric.HigherIsBetter:
		c.lower = math.Log1p(-c.SmallestEffect)
		c.upper = -c.lower
	case c.logarithmic:
		c.upper = math.Log1p(c.SmallestEffect)
		c.lower = -c.upper
	case c.ReferenceMedian > 0:
		c.upper = c.SmallestEffect * c.ReferenceMedian
		c.lower = -c.upper
	}
}

// estimateEffect fills in estimates, intervals and p.
func (c *costEstimate) estimateEffect(differences []float64) {
	n := c.n
	walsh := walshAverages(c.effects)
	walshDifferences := walsh
	if c.logarithmic {
		walshDifferences = walshAverages(differences)
	}
	c.estimate = hodgesLehmann(walsh)
	c.Difference = hodgesLehmann(walshDifferences)
	if c.logarithmic {
		c.Ratio = math.Exp(c.estimate)
	}
	if n < c.minBlocks {
		return
	}
	p := signedRankP(c.effects)
	c.P = &p
	i, ok := signedRankInterval(walsh, n, 1-c.alpha)
	if !ok {
		return
	}
	c.interval = &i
	c.Coverage = i.Coverage
	if c.logarithmic {
		low, high := math.Exp(i.Low), math.Exp(i.High)
		c.Low, c.High = &low, &high
	}
	if d, ok := signedRankInterval(walshDifferences, n, 1-c.alpha); ok {
		c.DifferenceLow, c.DifferenceHigh = &d.Low, &d.High
	}
}
