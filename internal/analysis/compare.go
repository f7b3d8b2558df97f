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
	for _, c := range all {
		c.decide()
	}
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

// correct applies Holm's correction: the primary costs of the report are one
// family, and the secondary ones are corrected as members of the family of
// all. A comparison with too few pairs for a p still counts as a member, so
// that failed trials cannot make the others look better.
func correct(all []*costEstimate) {
	apply := func(members []*costEstimate, to func(*costEstimate) bool) {
		var p []float64
		var with []*costEstimate
		for _, c := range members {
			if c.P != nil {
				p = append(p, *c.P)
				with = append(with, c)
			}
		}
		for i, corrected := range holm(p, len(members)) {
			if to(with[i]) {
				with[i].PHolm = &corrected
			}
		}
		for _, c := range members {
			if to(c) {
				c.familySize = len(members)
			}
		}
	}
	var primary []*costEstimate
	for _, c := range all {
		if c.Primary {
			primary = append(primary, c)
		}
	}
	apply(all, func(c *costEstimate) bool { return !c.Primary })
	apply(primary, func(*costEstimate) bool { return true })
}

// decide gives the verdict. Equivalence comes first: an effect that is surely
// smaller than what matters is no cost, also when it is surely not zero, and
// so a comparison of a path with itself hardly ever claims a cost.
func (c *costEstimate) decide() {
	c.BeyondChance = c.PHolm != nil && *c.PHolm < c.alpha && c.interval.excludesZero()
	if c.LeadsWithDifference() {
		// People read the difference, so its interval must agree.
		c.BeyondChance = c.BeyondChance && c.DifferenceLow != nil && (*c.DifferenceLow > 0 || *c.DifferenceHigh < 0)
	}
	worse := c.estimate < 0
	if !c.metric.HigherIsBetter {
		worse = c.estimate > 0
	}
	switch {
	case c.interval != nil && c.lower < c.interval.Low && c.interval.High < c.upper:
		c.Verdict = result.NoCost
		c.Bound = c.bound()
	case c.BeyondChance && worse:
		c.Verdict = result.Costs
	case c.BeyondChance:
		c.Verdict = result.Gains
	default:
		c.Verdict = result.NotResolved
		c.RepetitionsNeeded = c.blocksNeeded()
	}
}

func (i *interval) excludesZero() bool { return i != nil && (i.Low > 0 || i.High < 0) }

// bound is the smallest size of effect, either way, that the interval
// excludes, as a fraction of the baseline: rounded up to two digits
// and at least 0.1 %, but never above the smallest effect of interest.
func (c *costEstimate) bound() float64 {
	low, high := c.interval.Low, c.interval.High
	size := math.Max(math.Abs(low), math.Abs(high))
	switch {
	case !c.logarithmic:
		size /= c.ReferenceMedian
	case c.metric.HigherIsBetter:
		size = -math.Expm1(-size)
	default:
		size = math.Expm1(size)
	}
	return math.Min(c.SmallestEffect, roundUp(math.Max(size, 0.001)))
}

// roundUp keeps two significant digits.
func roundUp(v float64) float64 {
	steps := math.Pow(10, 1-math.Floor(math.Log10(v))) // in one
	// A hair less, so that a value that is already round stays.
	return math.Ceil(v*steps-1e-6) / steps
}

// fewestBlocks is the smallest n at which the signed-rank test can be
// significant at all in a family of this size: 2^(1−n) < alpha/size.
func (c *costEstimate) fewestBlocks() int {
	if c.unpaired {
		return c.fewestTrials()
	}
	n := c.minBlocks
	for math.Ldexp(1, 1-n)*float64(max(1, c.familySize)) >= c.alpha {
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
	need = math.Min(maxRepetitionsNeeded, math.Max(math.Ceil(need), float64(n+1)))
	if need > 100 {
		need = math.Round(roundUp(need))
	}
	return int(need)
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
