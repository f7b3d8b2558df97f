package analysis

import (
	"cmp"
	"maps"
	"math"
	"reflect"
	"slices"

	"github.com/hopbench/hopbench/internal/analysis/statistics"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// LabelledRun is a run with the name that a comparison gives it.
type LabelledRun struct {
	Label  string
	Result *result.Result
}

// Side is one run, or several of the same setting, with the name that a comparison
// gives them together.
type Side struct {
	Label string
	Runs  []*result.Result
}

// CompareRuns compares each side with the reference, all in one family: by how much
// what a path costs has changed, on every test and metric that both have. A cost is
// taken within blocks, so that what a run as a whole met (the hour, the load, the
// machine) is in both of its paths and cancels. Only where the runs have a single
// path its level is compared, and then it has a verdict only with three or more runs
// a side, which show how much runs differ by themselves. The notes say what a reader
// must know of it.
func CompareRuns(reference Side, sides []Side, opts Options) ([]result.Effect, []result.Note) {
	opts = opts.Defaults()
	before, notes := runsOf(reference)
	var all []*costEstimate
	for _, side := range sides {
		after, more := runsOf(side)
		notes = append(notes, more...)
		runs := slices.Concat(before, after)
		contrasts, otherContrasts := commonContrasts(runs)
		tests, otherTests := commonTests(runs)
		notes = slices.Concat(notes, otherContrasts, otherTests)
		for _, contrast := range contrasts {
			for _, t := range tests {
				if why := oldFormat(contrast, t, before, after); why != nil {
					why.Run, why.ReferenceRun = side.Label, reference.Label
					notes = append(notes, *why)
					continue
				}
				var lacking []string // primary metrics; a secondary one may rightly be missing
				compared := len(all)
				for _, m := range measurement.ComparedOf(t.Spec.Kind) {
					was, is := samplesOf(before, contrast, t.Name, m, opts), samplesOf(after, contrast, t.Name, m, opts)
					if c := changeEstimate(was, is, contrast, t, m, opts); c != nil {
						c.Run, c.ReferenceRun = side.Label, reference.Label
						all = append(all, c)
					} else if m.Leads(t.Spec.Kind) || m.PrimaryIn(t.Spec.Kind) && len(was) > 0 {
						lacking = append(lacking, m.Name)
					}
				}
				if len(all) == compared && lacking != nil {
					lacking = []string{""} // no trial counts
				}
				for _, metric := range lacking {
					notes = append(notes, result.Note{Code: result.NoteNothingToCompare, Run: side.Label, ReferenceRun: reference.Label, Path: contrast.Path, Baseline: contrast.Baseline, Against: contrast.Against, Test: t.Name, Metric: metric})
				}
			}
		}
	}
	correct(all)
	ofRuns := func(c *costEstimate) bool { return c.ofRunLevels() || c.Runs > 0 } // trials do not tell
	notes = append(notes, powerNotes(slices.DeleteFunc(slices.Clone(all), ofRuns), result.NoteTooFewTrials)...)
	out := make([]result.Effect, len(all))
	for i, c := range all {
		c.decide()
		if c.ofRunLevels() {
			c.Verdict, c.Bound, c.RepetitionsNeeded, c.Withheld = result.NotResolved, 0, 0, []result.Withheld{result.WithheldRunLevel}
		}
		out[i] = c.Effect
	}
	return out, notes
}

// sideRun is one run of a side.
type sideRun struct {
	*dataset
	side      string // its label
	contrasts []result.Contrast
	scale     float64
	old       bool
	// excluded counts the trials of a cell that do not count, for whatever reason.
	excluded map[cellKey]int
}

// runsOf are the runs of a side, with notes of what is wrong in them: of all together, since
// the side has one name.
func runsOf(side Side) (out []sideRun, notes []result.Note) {
	trials := 0
	for _, r := range side.Runs {
		set, more := gather(r.Trials, r.Tests, r.Paths)
		contrasts, missing := contrastsOf(set, Options{Contrasts: r.Experiment.Contrasts})
		for _, n := range r.Notes {
			switch n.Code {
			case result.NoteDamaged, result.NoteInterim, result.NoteCutShort:
				more = append(more, n)
			}
		}
		for _, n := range append(more, missing...) {
			n.Run = side.Label
			notes = together(notes, n)
		}
		trials += len(r.Trials)
		run := sideRun{dataset: set, side: side.Label, contrasts: contrasts, scale: cmp.Or(r.Experiment.Scale, 1), old: r.OldFormat, excluded: map[cellKey]int{}}
		for _, t := range r.Trials {
			if !t.Gate.Passed {
				run.excluded[cellKey{t.Path, t.Test}]++
			}
		}
		out = append(out, run)
	}
	for i := range notes {
		if notes[i].ByGate != nil { // of the trials of runs without such ones, too
			notes[i].Of = trials
		}
	}
	return out, notes
}

// together adds a note of a run to those of the runs before it: to one that counts the same.
func together(notes []result.Note, n result.Note) []result.Note {
	i := slices.IndexFunc(notes, func(m result.Note) bool { return m.Code == n.Code && m.Path == n.Path && m.Baseline == n.Baseline })
	if i < 0 {
		return append(notes, n)
	}
	notes[i].Count, notes[i].Of = notes[i].Count+n.Count, notes[i].Of+n.Of
	for gate, count := range n.ByGate {
		notes[i].ByGate[gate] += count
	}
	findings := slices.Concat(notes[i].Findings, n.Findings)
	notes[i].Findings = findings[:min(len(findings), maxFindings)]
	return notes
}

// lacking is the side of the last of the runs that lacks something, empty where none does.
func lacking(runs []sideRun, has func(sideRun) bool) string {
	for _, r := range slices.Backward(runs) {
		if !has(r) {
			return r.side
		}
	}
	return ""
}

// commonContrasts are the comparisons that all runs make, and notes of the others: of
// their paths, or of what a run compares them with. Runs that compare nothing have their
// paths compared: contrasts without a baseline.
func commonContrasts(runs []sideRun) (common []result.Contrast, others []result.Note) {
	withoutPath := func(path string) string {
		return lacking(runs, func(r sideRun) bool {
			return slices.ContainsFunc(r.paths, func(p result.PathInfo) bool { return p.Name == path })
		})
	}
	for _, c := range runs[0].contrasts {
		n := result.Note{Code: result.NoteNoPath, Path: c.Path, Baseline: c.Baseline}
		n.Run = lacking(runs, func(r sideRun) bool {
			return slices.ContainsFunc(r.contrasts, func(d result.Contrast) bool { return reflect.DeepEqual(c, d) })
		})
		if n.Run == "" {
			common = append(common, c)
			continue
		}
		if side := withoutPath(c.Path); side != "" {
			n.Run, n.Baseline = side, ""
		}
		if !slices.ContainsFunc(others, func(m result.Note) bool { return m.Path == n.Path && m.Baseline == n.Baseline }) {
			others = append(others, n)
		}
	}
	if len(runs[0].contrasts) > 0 {
		return common, others
	}
	for _, p := range runs[0].paths {
		if side := withoutPath(p.Name); side != "" {
			others = append(others, result.Note{Code: result.NoteNoPath, Run: side, Path: p.Name})
		} else {
			common = append(common, result.Contrast{Path: p.Name})
		}
	}
	return common, others
}

// commonTests are the tests of the first run that all have, and notes of the others of
// those that are compared at all.
func commonTests(runs []sideRun) (common []result.TestInfo, others []result.Note) {
	for _, t := range runs[0].tests {
		side := lacking(runs, func(r sideRun) bool {
			return slices.ContainsFunc(r.tests, func(u result.TestInfo) bool { return u.Name == t.Name && u.Spec.Kind == t.Spec.Kind })
		})
		switch {
		case side == "":
			common = append(common, t)
		case len(measurement.ComparedOf(t.Spec.Kind)) > 0:
			others = append(others, result.Note{Code: result.NoteNoTest, Run: side, Test: t.Name})
		}
	}
	return common, others
}

// oldFormat says why a test of a run of format 1 cannot be compared, nil where it
// can. Format 1 took trials that their path broke for missing, and the goodput of
// packets over UDP from another window than what was sent.
func oldFormat(c result.Contrast, t result.TestInfo, before, after []sideRun) *result.Note {
	runs := slices.Concat(before, after)
	if !slices.ContainsFunc(runs, func(r sideRun) bool { return r.old }) {
		return nil
	}
	n := &result.Note{Code: result.NoteOldFormat, Path: c.Path, Test: t.Name}
	for _, r := range runs {
		if r.old {
			n.Count += r.excluded[cellKey{c.Path, t.Name}] + r.excluded[cellKey{c.Baseline, t.Name}]
		}
	}
	if n.Count == 0 && t.Spec.Kind != measurement.UDP && t.Spec.Kind != measurement.PPS {
		return nil
	}
	return n
}

// sample is what one run says of a cost, or of a level: a value for each block or
// trial on the scale of the metric, the same as logarithms where there are ratios
// and as differences, and the values of the path and of its baseline.
type sample struct {
	effects, logs, differences, levels, baseline []float64
	// lows and highs are how much was looked at where a share was zero.
	lows, highs []float64
	resolution  resolution
	// broken are the trials that the path broke, referenceBroken those that its baseline
	// did, brokenAlone and referenceBrokenAlone those of them that are in no pair, pairs the
	// blocks with an outcome, withoutValue those of them as in result.Effect, and missing the
	// other blocks of the run.
	broken, referenceBroken, brokenAlone, referenceBrokenAlone, withoutValue, pairs, missing int
	// collapsed are the trials of the path that fell far below the others, and worst is how
	// far, as in result.Collapse.
	collapsed int
	worst     float64
}

// samplesOf are those of the runs of a side; nil where one of them has none. How much a
// trial looked at, and what it resolves, is by the settings that the test has in its own run.
func samplesOf(runs []sideRun, contrast result.Contrast, name string, m measurement.Metric, opts Options) (out []sample) {
	for _, r := range runs {
		test := r.run().Test(name)
		s := sample{resolution: r.contrastResolution(contrast, test, m)}
		if contrast.Baseline != "" {
			c := pairedEstimate(r.dataset, contrast, test, m, opts)
			s.logs, s.differences, s.levels, s.baseline, s.pairs = c.logs, c.differences, c.other, c.base, c.N
			s.broken, s.referenceBroken, s.withoutValue = c.Broken, c.ReferenceBroken, c.WithoutValue
			s.brokenAlone, s.referenceBrokenAlone = c.BrokenAlone, c.ReferenceBrokenAlone
			if c.findCollapse(); c.Collapse != nil {
				s.collapsed, s.worst = c.Collapse.Trials, c.Collapse.Worst
			}
			s.lows, s.highs = r.lookedAt(contrast, test)
		} else {
			levels := r.outcomes(contrast.Path, test.Name, m)
			for _, block := range slices.Sorted(maps.Keys(levels)) {
				s.levels = append(s.levels, levels[block])
			}
			s.differences, s.pairs = s.levels, len(s.levels)
			s.broken = len(r.broken[cellKey{contrast.Path, test.Name}])
			s.highs = []float64{r.fewestLookedAt(contrast.Path, test)}
		}
		if s.missing = r.blocks - s.pairs; s.pairs == 0 {
			return nil
		}
		if m.ScalesWithRate {
			s.levels, s.differences, s.baseline = scaled(s.levels, r.scale), scaled(s.differences, r.scale), scaled(s.baseline, r.scale)
			s.resolution.amount *= r.scale
		}
		if known := bounded(s.levels); contrast.Baseline == "" && (len(known) > 0 && slices.Min(known) > 0 || m.ByRatio()) {
			s.logs = logarithms(s.levels)
		}
		s.effects = s.differences
		if m.ByRatio() {
			s.effects = s.logs
		}
		out = append(out, s)
	}
	return out
}

// scaled are values at the published scale.
func scaled(values []float64, factor float64) []float64 {
	out := slices.Clone(values)
	for i := range out {
		out[i] *= factor
	}
	return out
}

// estimate is the centre of a run's effects, and how uncertain it is by those of trials
// that did not break.
func (s sample) estimate() runEstimate {
	known := bounded(s.effects)
	r := runEstimate{value: statistics.HodgesLehmann(s.effects), n: len(known)}
	if r.n > 1 {
		r.variance = statistics.Square((&costEstimate{n: r.n, effects: known}).spread()) / float64(r.n)
	}
	return r
}

// changeEstimate estimates how far one side lies from the reference: by all runs of
// either where there are enough, else by the blocks of one run of either. nil where
// one of them has nothing to compare.
func changeEstimate(before, after []sample, contrast result.Contrast, test result.TestInfo, m measurement.Metric, opts Options) *costEstimate {
	if len(before) == 0 || len(after) == 0 {
		return nil
	}
	c := newEstimate(contrast, test, m, opts)
	c.unpaired = true
	c.resolution = ofRuns(before).and(ofRuns(after))
	levels := func(samples []sample) (pairs int, median, baseline float64) {
		var all, base []float64
		for _, s := range samples {
			all, base, pairs = append(all, s.levels...), append(base, s.baseline...), pairs+s.pairs
		}
		return pairs, statistics.Median(bounded(all)), statistics.Median(bounded(base))
	}
	c.ReferenceN, c.ReferenceMedian, c.ReferenceBaselineMedian = levels(before)
	c.N, c.Median, c.BaselineMedian = levels(after)
	c.withholdChange(before, after)
	ofRuns := len(before) > 1 || len(after) > 1
	if ofRuns {
		c.Runs, c.ReferenceRuns = len(after), len(before)
	}
	unknown := func(s sample) bool { return len(s.effects) == 0 } // no block of the run has a value
	before, after = slices.DeleteFunc(before, unknown), slices.DeleteFunc(after, unknown)
	switch {
	case len(before) == 0 || len(after) == 0:
		return c
	case ofRuns:
		return c.fillRuns(before, after)
	}
	a, b := before[0], after[0]
	c.n = min(len(a.effects), len(b.effects))
	c.base, c.other = a.effects, b.effects
	c.effects = slices.Concat(around0(a.effects), around0(b.effects))
	var logs []float64
	if a.logs != nil && b.logs != nil {
		logs = statistics.Shifts(a.logs, b.logs)
	}
	c.fill(logs, statistics.Shifts(a.differences, b.differences), func(s []float64) (statistics.Interval, bool) {
		return statistics.RankSumInterval(s, len(a.effects), len(b.effects), 1-c.alpha)
	})
	if c.interval != nil {
		c.judgeP(statistics.RankSumP(a.effects, b.effects))
	}
	c.ofZeroChanges(before, after)
	return c
}

// ofRuns is the resolution of what several runs say together: that of the median one,
// since what is alike in all trials is in all runs.
func ofRuns(samples []sample) resolution {
	var amounts, shares []float64
	for _, s := range samples {
		amounts, shares = append(amounts, s.resolution.amount), append(shares, s.resolution.share)
	}
	return resolution{statistics.Median(amounts), statistics.Median(shares)}
}

// ofZeroChanges is ofZeroCounts of two sides. Several runs of a side have the bound of
// the one of them that looked least: that its share was not seen says nothing of how much
// runs differ.
func (c *costEstimate) ofZeroChanges(before, after []sample) {
	if c.metric.Unit != measurement.Fraction {
		return
	}
	n := math.MaxInt
	var values [][]float64
	for _, s := range slices.Concat(before, after) {
		n = min(n, len(s.effects))
		values = append(values, s.levels, s.effects)
	}
	least := func(side []sample, looked func(sample) []float64) []float64 {
		out := slices.Clone(looked(side[0]))
		for _, s := range side[1:] {
			for i, l := range looked(s) {
				out[i] = math.Min(out[i], l)
			}
		}
		return out
	}
	lows, highs := func(s sample) []float64 { return s.lows }, func(s sample) []float64 { return s.highs }
	c.ofZeroCounts(n, slices.Concat(least(after, lows), least(before, highs)), slices.Concat(least(after, highs), least(before, lows)), values...)
}

// fillRuns fills in the estimate from runs as the unit.
func (c *costEstimate) fillRuns(before, after []sample) *costEstimate {
	c.Runs, c.ReferenceRuns = len(after), len(before)
	c.n = min(len(before), len(after))
	known := true // on which side of any value those without bound are
	estimates := func(samples []sample) (out []runEstimate, values []float64) {
		for _, s := range samples {
			e := s.estimate()
			if math.IsNaN(e.value) {
				e.value, known = math.Inf(1), false
			}
			out, values = append(out, e), append(values, e.value)
		}
		return out, values
	}
	x, base := estimates(before)
	y, other := estimates(after)
	c.base, c.other, c.effects = base, other, slices.Concat(around0(base), around0(other))
	if len(bounded(base)) < len(base) || len(bounded(other)) < len(other) {
		// Most trials of a run broke: no mean of runs is known, but how often they do is.
		c.effects = slices.Concat(base, other)
		side := 0.0
		if known {
			side = statistics.Minus(statistics.Median(other), statistics.Median(base))
		}
		c.EstimateUnbounded, c.LowUnbounded, c.HighUnbounded = true, !(side > 0), !(side < 0)
		if d, ok := compareGroups(unboundedShares(before), unboundedShares(after), 1-c.alpha); ok && math.IsInf(side, 0) && d.estimate*side > 0 {
			c.estimate, c.ofBreaking = side, true
			c.judgeP(d.p)
		}
		return c
	}
	d, ok := compareGroups(x, y, 1-c.alpha)
	if !ok { // runs in which neither path has a value are left out
		c.estimate = statistics.Mean(other) - statistics.Mean(base)
		if c.Difference = c.estimate; c.logarithmic {
			c.Difference, c.Ratio = 0, math.Exp(c.estimate)
		}
		return c
	}
	c.estimate, c.spreading, c.Coverage = d.estimate, &d.interval, d.interval.Coverage
	i := widened(d.interval, d.estimate, c.reach())
	c.interval = &i
	c.judgeP(d.p)
	low, high := i.Low, i.High
	if c.logarithmic {
		low, high = math.Exp(low), math.Exp(high)
		c.Ratio, c.Low, c.High = math.Exp(d.estimate), &low, &high
	} else {
		c.Difference, c.DifferenceLow, c.DifferenceHigh = d.estimate, &low, &high
	}
	c.ofZeroChanges(before, after)
	return c
}

// unboundedShares are which share of the effects of each run is without bound, those that
// are so downwards being negative. What few trials show is as uncertain as two more of each
// run would make it, one with and one without a bound (Agresti & Caffo 2000).
func unboundedShares(samples []sample) (out []runEstimate) {
	for _, s := range samples {
		r := runEstimate{n: s.pairs}
		for _, sign := range []float64{-1, 1} {
			count := 0.0
			for _, v := range s.effects {
				if math.IsInf(v, int(sign)) {
					count++
				}
			}
			n := float64(s.pairs) + 2
			share := (count + 1) / n
			r.value += sign * count / float64(s.pairs)
			r.variance += share * (1 - share) / n
		}
		out = append(out, r)
	}
	return out
}

// withholdChange finds what forbids to call two sides equal, or the later one better, on
// the trials that there are: as withhold does of two paths.
func (c *costEstimate) withholdChange(before, after []sample) {
	was, is := togetherOf(before), togetherOf(after)
	c.ReferenceBroken, c.ReferenceBrokenAlone, c.ReferenceMissing, c.ReferenceWithoutValue = was.broken, was.brokenAlone, was.missing, was.withoutValue
	c.Broken, c.BrokenAlone, c.Missing, c.WithoutValue = is.broken, is.brokenAlone, is.missing, is.withoutValue
	c.ReferenceBaselineBroken, c.BaselineBroken = was.referenceBroken+was.referenceBrokenAlone, is.referenceBroken+is.referenceBrokenAlone
	// How often the path broke a trial in excess of its baseline.
	excess := func(s sample) float64 {
		alone := s.brokenAlone + s.referenceBrokenAlone
		return float64(s.broken+s.brokenAlone-s.referenceBroken-s.referenceBrokenAlone) / float64(s.pairs+alone)
	}
	if excess(is) > excess(was) {
		c.againstEqual = append(c.againstEqual, result.WithheldBroken)
	}
	// How much of its trials fell far below the others, which no rank of them shows.
	fell := func(s sample) float64 { return float64(s.collapsed) / float64(s.pairs) }
	if fell(is) > fell(was) {
		c.Collapse = &result.Collapse{Trials: is.collapsed, ReferenceTrials: was.collapsed, Worst: is.worst}
		c.againstEqual = append(c.againstEqual, result.WithheldCollapsed)
	}
	if c.metric.Unit == measurement.Fraction && math.Abs(statistics.Mean(bounded(is.effects))-statistics.Mean(bounded(was.effects))) >= c.upper {
		c.againstEqual = append(c.againstEqual, result.WithheldMean)
	}
	many := func(n int, of sample) bool { return float64(n) > mostMissing*float64(of.missing+of.pairs) }
	// Of costs that are no number in either run nothing is known.
	unbounded := func(s sample) bool { return many(len(s.effects)-len(bounded(s.effects)), s) }
	switch {
	case many(was.missing, was) || many(is.missing, is):
		c.missing = append(c.missing, result.WithheldMissingMany)
	case many(was.missing+was.withoutValue, was) || many(is.missing+is.withoutValue, is):
		c.missing = append(c.missing, result.WithheldBothBroken)
	case unbounded(was) && unbounded(is):
		c.againstEqual = append(c.againstEqual, result.WithheldBothBroken)
	}
}

// togetherOf are the trials of all runs of a side as those of one.
func togetherOf(samples []sample) (all sample) {
	for _, s := range samples {
		all.effects, all.pairs = append(all.effects, s.effects...), all.pairs+s.pairs
		all.broken, all.referenceBroken = all.broken+s.broken, all.referenceBroken+s.referenceBroken
		all.brokenAlone, all.referenceBrokenAlone = all.brokenAlone+s.brokenAlone, all.referenceBrokenAlone+s.referenceBrokenAlone
		all.withoutValue, all.missing = all.withoutValue+s.withoutValue, all.missing+s.missing
		if s.collapsed > 0 && (all.collapsed == 0 || math.Abs(math.Log(s.worst)) > math.Abs(math.Log(all.worst))) {
			all.worst = s.worst
		}
		all.collapsed += s.collapsed
	}
	return all
}

// around0 is each value's distance from the median of those that are bounded.
func around0(values []float64) []float64 {
	centre := statistics.Median(bounded(values))
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = v - centre
	}
	return out
}

// fewestTrials is the smallest n of each of two runs at which the rank-sum test
// can be significant at all in a family of this size: 2/C(2n, n) < alpha/size. Of
// sides of several runs, it is how many runs each must have.
func (c *costEstimate) fewestTrials() int {
	if c.Runs > 0 {
		return FewestRuns
	}
	ways, n := 2.0, 1
	for 2/ways*float64(max(1, c.familySize)) >= c.alpha {
		n++
		ways *= float64(2*n) * float64(2*n-1) / float64(n*n)
	}
	return n
}

// ofRunLevels says that it is of the levels of two single runs, of which more trials would
// not tell anything, either.
func (c *costEstimate) ofRunLevels() bool { return c.Baseline == "" && c.Runs == 0 }

// evenSize is the n of two samples of equal size that estimate as precisely:
// the harmonic mean of their sizes.
func (c *costEstimate) evenSize() float64 {
	n, m := float64(len(c.base)), float64(len(c.other))
	return 2 * n * m / (n + m)
}

// shiftSpread is costEstimate.spread for two samples: the estimate's standard
// error times the root of evenSize.
func (c *costEstimate) shiftSpread() float64 {
	if i := c.spreading; i != nil {
		quantile := statistics.NormalQuantile((1 + i.Coverage) / 2)
		if c.Runs > 0 { // as compareGroups made it
			quantile = statistics.StudentQuantile((1+i.Coverage)/2, c.Runs+c.ReferenceRuns-2)
		}
		return (i.High - i.Low) / (2 * quantile) * math.Sqrt(c.evenSize())
	}
	if len(c.effects) < 3 {
		return math.Inf(1)
	}
	sum := 0.0
	for _, v := range c.effects {
		sum += statistics.Square(v)
	}
	return math.Sqrt(2 * sum / float64(len(c.effects)-2) * math.Pi / 3)
}
