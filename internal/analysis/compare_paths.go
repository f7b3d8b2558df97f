package analysis

import (
	"maps"
	"math"
	"slices"

	"github.com/hopbench/hopbench/internal/analysis/statistics"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

const (
	// driftAlpha is the level at which drift over blocks is noted.
	driftAlpha = 0.01
	// power is the chance of resolving a comparison that RepetitionsNeeded aims at.
	power = 0.8
)

// costEstimate is one effect while it is worked out.
type costEstimate struct {
	result.Effect
	metric measurement.Metric
	// leads says that a report leads with the metric.
	leads  bool
	blocks []int
	// base and other are the values of the pairs, by blocks, infinite where the
	// path broke the trial; of an unpaired estimate, those of either sample.
	base, other []float64
	unpaired    bool
	// ofBreaking says that p is that of how often trials break, which has no interval.
	ofBreaking bool
	// n is the number of pairs with a value, or the size of the smaller sample.
	n int
	// effects are the within-block effects on the metric's scale, logarithms of
	// ratios or differences. Zero is no effect; next to a broken trial it is
	// infinite.
	effects     []float64
	logarithmic bool
	// logs and differences are the effects on either scale, logs nil where there is
	// no ratio.
	logs, differences []float64
	// lower and upper are the limits of equivalence on the scale of effects,
	// both zero when there is none.
	lower, upper float64
	// againstEqual forbids to call the paths equal, missing also to call the path
	// better.
	againstEqual, missing []result.Withheld

	estimate float64
	// interval is at 1 − alpha, of the effects; spreading is the part of it that the
	// trials' spread makes, without their resolution.
	interval, spreading *statistics.Interval
	resolution          resolution
	// zeros says that a share was zero in every trial. looked is of how many packets, requests
	// or connections at least, 0 where nobody knows, and unseen how many such shares may have
	// made the effect as large, each with a bound of its own.
	zeros      bool
	looked     float64
	unseen     int
	familySize int
	alpha      float64
	minBlocks  int
}

// newEstimate is one of which nothing is worked out yet.
func newEstimate(contrast result.Contrast, test result.TestInfo, m measurement.Metric, opts Options) *costEstimate {
	c := &costEstimate{metric: m, alpha: opts.Alpha, minBlocks: opts.MinBlocks, logarithmic: m.ByRatio()}
	c.Effect = result.Effect{Path: contrast.Path, Baseline: contrast.Baseline, Against: contrast.Against, Test: test.Name, Metric: m.Name,
		Primary: m.PrimaryIn(test.Spec.Kind), Margin: opts.margin(m)}
	c.lower, c.upper = limits(m, c.Margin)
	return c
}

// compareAll works out every cost of the report, verdicts included.
func compareAll(set *dataset, opts Options) ([]*costEstimate, []result.Note) {
	contrasts, notes := contrastsOf(set, opts)
	if len(contrasts) == 0 {
		return nil, notes
	}
	var all []*costEstimate
	for _, contrast := range contrasts {
		for _, t := range set.tests {
			for _, m := range measurement.ComparedOf(t.Spec.Kind) {
				c := pairedEstimate(set, contrast, t, m, opts)
				// A secondary metric may rightly be missing, such as a
				// percentile with too few samples. A primary one leaves a hole
				// that the report has to show.
				if c.N > 0 || c.leads {
					all = append(all, c)
				}
			}
			if contrast.Against == nil {
				if c := brokenEstimate(set, contrast, t, opts); c != nil {
					all = append(all, c)
				}
			}
		}
	}
	correct(all)
	notes = append(notes, pairNotes(set, all)...)
	notes = append(notes, powerNotes(all, result.NoteTooFewBlocks)...)
	indicate(all)
	for _, c := range all {
		c.findCollapse()
		c.decide()
	}
	assessPower(all)
	checkAssumptions(set, all)
	notes = append(notes, driftNotes(all)...)
	return all, notes
}

// contrastsOf are the comparisons that the options ask for, of paths that there
// are; else that of each path with the baseline.
func contrastsOf(set *dataset, opts Options) ([]result.Contrast, []result.Note) {
	if len(opts.Contrasts) > 0 {
		known := func(name string) bool {
			return slices.ContainsFunc(set.paths, func(p result.PathInfo) bool { return p.Name == name })
		}
		return slices.DeleteFunc(slices.Clone(opts.Contrasts), func(c result.Contrast) bool {
			return !known(c.Path) || !known(c.Baseline) || c.Against != nil && (!known(c.Against.Path) || !known(c.Against.Baseline))
		}), nil
	}
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
	var out []result.Contrast
	for _, p := range set.paths {
		if !p.Baseline {
			out = append(out, result.Contrast{Path: p.Name, Baseline: baseline.Name})
		}
	}
	return out, nil
}

// pairedEstimate pairs the trials within their blocks and estimates the effect.
func pairedEstimate(set *dataset, contrast result.Contrast, test result.TestInfo, m measurement.Metric, opts Options) *costEstimate {
	c := newEstimate(contrast, test, m, opts)
	c.leads = m.Leads(test.Spec.Kind)
	base, other := set.outcomes(contrast.Baseline, test.Name, m), set.outcomes(contrast.Path, test.Name, m)
	// Whose effect is subtracted from that of a block: another contrast's.
	subtracted := func(int) (base, other float64, ok bool) { return 0, 0, true }
	if contrast.Against != nil {
		from, against := set.outcomes(contrast.Against.Baseline, test.Name, m), set.outcomes(contrast.Against.Path, test.Name, m)
		subtracted = func(block int) (float64, float64, bool) {
			a, has := from[block]
			b, both := against[block]
			return a, b, has && both
		}
	}
	reference, path := cellKey{contrast.Baseline, test.Name}, cellKey{contrast.Path, test.Name}
	valueless := func(a, b float64) bool { return math.IsInf(a, 0) && a == b }
	var logs, differences []float64
	ratios := true
	brokenAlone(c, set, reference, path, func(block int) bool {
		_, has := base[block]
		_, both := other[block]
		_, _, ok := subtracted(block)
		return has && both && ok
	})
	takePairs(c, set.blocks, base, other, func(block int) bool {
		a, b := base[block], other[block]
		if m.ByRatio() && a <= 0 && b <= 0 && a == b && !math.IsInf(a, 0) {
			return false // nothing to nothing has no ratio
		}
		from, against, ok := subtracted(block)
		if !ok {
			return false
		}
		difference := statistics.Minus(statistics.Minus(b, a), statistics.Minus(against, from))
		logarithm := statistics.Minus(logRatio(b, a), logRatio(against, from))
		if set.broken[reference][block] {
			c.ReferenceBroken++
		}
		if set.broken[path][block] {
			c.Broken++
		}
		if valueless(a, b) || valueless(from, against) || difference == 0 && (math.IsInf(a, 0) || math.IsInf(b, 0)) {
			c.WithoutValue++
			return false
		}
		c.base, c.other = append(c.base, a), append(c.other, b)
		differences, logs = append(differences, difference), append(logs, logarithm)
		ratios = ratios && (a > 0 || math.IsInf(a, 0)) && (b > 0 || math.IsInf(b, 0))
		return true
	})
	if c.n == 0 {
		return c
	}
	c.ReferenceMedian, c.Median = statistics.Median(bounded(c.base)), statistics.Median(bounded(c.other))
	c.effects, c.resolution = differences, set.contrastResolution(contrast, test, m)
	if c.logarithmic {
		c.effects = logs
	}
	var walshLogs []float64
	c.differences = differences
	if c.logarithmic || ratios {
		c.logs = logs
		walshLogs = statistics.WalshAverages(logs)
	}
	c.fill(walshLogs, statistics.WalshAverages(differences), func(walsh []float64) (statistics.Interval, bool) {
		if c.n < c.minBlocks {
			return statistics.Interval{}, false
		}
		return statistics.SignedRankInterval(walsh, c.n, 1-c.alpha)
	})
	if c.n >= c.minBlocks {
		c.judgeP(statistics.SignedRankP(c.effects))
	}
	if m.Unit == measurement.Fraction {
		c.withholdMean()
		lows, highs := set.lookedAt(contrast, test)
		c.ofZeroCounts(c.n, lows, highs, c.base, c.other, c.effects)
	}
	if len(bounded(c.effects)) == c.n {
		c.testDrift()
	}
	return c
}

// takePairs takes the blocks that have an outcome on both sides, unless take
// refuses, and counts those that lack one.
func takePairs[V any](c *costEstimate, blocks int, base, other map[int]V, take func(block int) bool) {
	onlyBase := 0
	for _, block := range slices.Sorted(maps.Keys(base)) {
		if _, ok := other[block]; !ok {
			onlyBase++
		} else if take(block) {
			c.blocks = append(c.blocks, block)
		}
	}
	c.n, c.N, c.Blocks = len(c.blocks), len(c.blocks)+c.WithoutValue, blocks
	c.Missing, c.ReferenceMissing = blocks-len(other), blocks-len(base)
	c.withhold(onlyBase, len(other)-len(base)+onlyBase)
}
