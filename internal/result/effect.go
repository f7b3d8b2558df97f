package result

import (
	"math"

	"github.com/hopbench/hopbench/internal/measurement"
)

// Effect is the difference that a path makes on one metric of one test: from
// the baseline in the same blocks (a cost of a Result), or from itself in
// another run (a change of a Comparison).
type Effect struct {
	// Run and ReferenceRun are the labels of two runs, or of two groups of runs, in a
	// change. Baseline is the path that Path is compared with: in a change with a
	// baseline it is the cost that changed, in one without it the path's level.
	Run          string `json:"run,omitempty"`
	ReferenceRun string `json:"reference_run,omitempty"`
	Path         string `json:"path"`
	Baseline     string `json:"baseline,omitempty"`
	Test         string `json:"test"`
	Metric       string `json:"metric"`
	// Against is the contrast whose own effect is subtracted from this one: a
	// difference of differences, or a ratio of ratios.
	Against *Contrast `json:"against,omitempty"`
	// N is the number of pairs of trials, one per block; of two runs, the trials
	// of Run, and ReferenceN those of ReferenceRun. Broken trials count.
	N          int `json:"n"`
	ReferenceN int `json:"reference_n,omitempty"`
	// Runs and ReferenceRuns are how many runs each side has, where they, not their
	// trials, are the unit.
	Runs          int `json:"runs,omitempty"`
	ReferenceRuns int `json:"reference_runs,omitempty"`
	// Blocks is how many blocks the run has. Broken and ReferenceBroken are the
	// pairs in which the path broke the trial of either side; Missing and
	// ReferenceMissing are the blocks without an outcome of that side. Of a change the
	// sides are Run and ReferenceRun: trials that the path broke, blocks that do not count.
	Blocks          int `json:"blocks,omitempty"`
	Broken          int `json:"broken,omitempty"`
	ReferenceBroken int `json:"reference_broken,omitempty"`
	// BrokenAlone and ReferenceBrokenAlone are the trials that the path of either side broke
	// in blocks in which the other, or a path of Against, has no outcome, and so no pair. Of a
	// change they are those of the path in either run.
	BrokenAlone          int `json:"broken_alone,omitempty"`
	ReferenceBrokenAlone int `json:"reference_broken_alone,omitempty"`
	// BaselineBroken and ReferenceBaselineBroken are, of a change, the trials that the baseline
	// broke in Run and in ReferenceRun, with which what the path broke is compared.
	BaselineBroken          int `json:"baseline_broken,omitempty"`
	ReferenceBaselineBroken int `json:"reference_baseline_broken,omitempty"`
	Missing                 int `json:"missing,omitempty"`
	ReferenceMissing        int `json:"reference_missing,omitempty"`
	// WithoutValue are those of the N pairs in which neither side has a value, since the
	// paths broke their trials or lost the requests that a percentile falls on: they say
	// nothing of what a path costs. Of a change they are those of Run, and
	// ReferenceWithoutValue those of the ReferenceN of ReferenceRun.
	WithoutValue          int `json:"without_value,omitempty"`
	ReferenceWithoutValue int `json:"reference_without_value,omitempty"`
	// Median and ReferenceMedian are those of the values that were compared, in
	// the metric's unit; broken trials have none.
	Median          float64 `json:"median"`
	ReferenceMedian float64 `json:"reference_median"`
	// BaselineMedian and ReferenceBaselineMedian are, of a cost that changed, those of the
	// baseline in Run and in ReferenceRun: it may be what changed.
	BaselineMedian          float64 `json:"baseline_median,omitempty"`
	ReferenceBaselineMedian float64 `json:"reference_baseline_median,omitempty"`
	// Ratio is that of the path to the reference (Hodges–Lehmann estimate on
	// logarithms), Low and High its 95 % interval. Ratio is 0 when there is
	// none: nothing to compare, or values that are not all positive. A metric
	// that is judged by its difference has it for information.
	Ratio float64  `json:"ratio"`
	Low   *float64 `json:"low,omitempty"`
	High  *float64 `json:"high,omitempty"`
	// Coverage is what the intervals attain, at least 0.95: rank statistics
	// come in steps.
	Coverage float64 `json:"coverage,omitempty"`
	// Difference is path − reference in the metric's unit with its interval.
	Difference     float64  `json:"difference"`
	DifferenceLow  *float64 `json:"difference_low,omitempty"`
	DifferenceHigh *float64 `json:"difference_high,omitempty"`
	// LowUnbounded, HighUnbounded and EstimateUnbounded say which of the numbers on
	// the scale that is judged are beyond any value, because broken trials are; they
	// are absent then, an estimate is 0. An unbounded estimate is on the side on
	// which the interval is.
	LowUnbounded      bool `json:"low_unbounded,omitempty"`
	HighUnbounded     bool `json:"high_unbounded,omitempty"`
	EstimateUnbounded bool `json:"estimate_unbounded,omitempty"`
	// LookedAt is set where a share was zero in every trial of both sides: the
	// fewest packets, requests or connections that a trial looked at.
	// The interval follows from it.
	LookedAt float64 `json:"looked_at_count,omitempty"`
	// Resolution is how far the estimate may be off, at 95 %, because trials count whole
	// segments, packets or steps of a clock, on the scale of Margin. Intervals and P have
	// it in them; more blocks do not make it smaller. NeedsLongerTrials says that it hides
	// both that there is an effect and that there is none that matters.
	Resolution        float64 `json:"resolution,omitempty"`
	NeedsLongerTrials bool    `json:"needs_longer_trials,omitempty"`
	// P is the exact two-sided p (signed ranks of pairs, rank sum of two runs),
	// PAdjusted is adjusted for the number of comparisons: over the primary
	// effects for a primary one, over all for the others; never below P. PHolm is
	// the same by Holm's method, for comparison; it decides nothing of pairs.
	P         *float64 `json:"p,omitempty"`
	PAdjusted *float64 `json:"p_adjusted,omitempty"`
	PHolm     *float64 `json:"p_holm,omitempty"`
	Verdict   Verdict  `json:"verdict"`
	// BeyondChance says that the effect is not zero; with no-cost it is too
	// small to matter.
	BeyondChance bool `json:"beyond_chance,omitempty"`
	// Margin is the smallest effect that matters, on the scale on which the metric
	// is judged. Bound is the size of effect that no-cost excludes, a share of the
	// reference or an amount in the metric's unit as Margin is.
	Margin measurement.Margin `json:"margin,omitzero"`
	Bound  float64            `json:"bound,omitempty"`
	// Withheld are the reasons why no-cost or gains is not given although the
	// interval would.
	Withheld []Withheld `json:"withheld,omitempty"`
	// RepetitionsNeeded is about how many blocks, or trials in each of two runs,
	// would resolve it, at most MaxRepetitionsNeeded; 0 if resolved.
	RepetitionsNeeded int          `json:"repetitions_needed,omitempty"`
	Drift             *Drift       `json:"drift,omitempty"`
	CommonLimit       *CommonLimit `json:"held_by,omitempty"`
	Primary           bool         `json:"primary,omitempty"`

	// NeededLow and NeededHigh hold RepetitionsNeeded with a chance of 80 %, given
	// how little is known of the spread; 0 where nothing is.
	NeededLow  int `json:"needed_low,omitempty"`
	NeededHigh int `json:"needed_high,omitempty"`
	// FewestBlocks is how many blocks a claim takes, where there are fewer.
	FewestBlocks int `json:"fewest_blocks,omitempty"`
	// Detectable is the smallest effect that so many blocks show with a chance of
	// 80 %, on the scale of what matters; 0 where they can show none.
	Detectable float64     `json:"detectable,omitempty"`
	Indication *Indication `json:"indication,omitempty"`
	Collapse   *Collapse   `json:"collapse,omitempty"`
	// Violations are the assumptions of the p and the interval that the trials
	// contradict.
	Violations []Violation `json:"violations,omitempty"`
}

// Indication is what fewer blocks than a claim takes indicate, if noise is normal
// and alike on all paths and tests.
type Indication struct {
	// P is that of Student's t times the number of comparisons of the family; the
	// variance is pooled over as many Comparisons, with DegreesOfFreedom.
	P                float64 `json:"p"`
	Comparisons      int     `json:"comparisons"`
	DegreesOfFreedom int     `json:"degrees_of_freedom"`
}

// Collapse is a part of the path's trials that fell far below the others.
type Collapse struct {
	Trials int `json:"trials"` // of those that count
	// ReferenceTrials are those of the baseline; of a change, of the path in ReferenceRun.
	ReferenceTrials int `json:"reference_trials,omitempty"`
	// Worst is the ratio of the worst of them to its partner.
	Worst float64 `json:"worst"`
}

// Assumption is one that a p or an interval rests on.
type Assumption string

// The assumptions.
const (
	NoDrift           Assumption = "no_drift"           // the effect does not change with the block
	IndependentBlocks Assumption = "independent_blocks" // nor depend on that of the block before
	NoCarryOver       Assumption = "no_carry_over"      // nor on which path was measured just before
	SymmetricEffects  Assumption = "symmetric_effects"  // effects lie around their middle alike on both sides
)

// Assumptions lists them.
func Assumptions() []Assumption {
	return []Assumption{NoDrift, IndependentBlocks, NoCarryOver, SymmetricEffects}
}

// Violation is an assumption that the trials contradict.
type Violation struct {
	Assumption Assumption `json:"assumption"`
	// P is that of the test, judged at Level; absent where a claim would merely not
	// survive what the trials do not exclude.
	P     *float64 `json:"p,omitempty"`
	Level float64  `json:"level,omitempty"`
	// Autocorrelation at lag 1 of the effects that was reckoned with, and as how
	// many independent ones the blocks then count.
	Autocorrelation float64 `json:"autocorrelation,omitempty"`
	EffectiveBlocks float64 `json:"effective_blocks,omitempty"`
	// AgreeingBlocks are those with an effect of the sign of most: so many alone
	// could be chance.
	AgreeingBlocks int `json:"agreeing_blocks,omitempty"`
	// After is the path whose trials change those that follow them most, by Ratio,
	// or by Difference where there is none.
	After      string  `json:"after,omitempty"`
	Ratio      float64 `json:"ratio,omitempty"`
	Difference float64 `json:"difference,omitempty"`
}

// Contrast is a comparison that an experiment asks for: of Path with Baseline,
// or, with Against, of that difference with another one.
type Contrast struct {
	Path     string    `json:"path"`
	Baseline string    `json:"baseline"`
	Against  *Contrast `json:"against,omitempty"` // itself without Against
}

// CommonLimit is what limited both sides of an effect alike, so that nothing is known
// beyond it.
type CommonLimit struct {
	Cause Cause `json:"cause"`
	// RateBitsPerSecond of the limit, 0 where it is not known.
	RateBitsPerSecond float64 `json:"rate_bits_per_second,omitempty"`
}

// MaxRepetitionsNeeded bounds the estimate; beyond it another design is needed,
// not more repetitions.
const MaxRepetitionsNeeded = 1000

// Withheld is a reason why a verdict is not given.
type Withheld string

// The reasons.
const (
	WithheldBroken        Withheld = "broken"         // the path broke trials that the reference did not
	WithheldMissingDiffer Withheld = "missing_differ" // trials of one side are missing more often, p < 0.1
	WithheldRunLevel      Withheld = "run_level"      // levels of single runs: how much runs differ by themselves is not known
	WithheldMissingMany   Withheld = "missing_many"   // more than a fifth of the blocks lack a partner
	WithheldBothBroken    Withheld = "both_broken"    // more than a fifth of the blocks lack a partner, or a value on either side; of a change, in a run, or the cost is no number in both
	WithheldCollapsed     Withheld = "collapsed"      // some trials of the path fell far below the others
	WithheldMean          Withheld = "mean"           // of a share, the mean difference is as large as what matters, though the typical one is not
)

// WithheldReasons lists the reasons.
func WithheldReasons() []Withheld {
	return []Withheld{WithheldBroken, WithheldMissingDiffer, WithheldMissingMany, WithheldBothBroken, WithheldMean, WithheldCollapsed, WithheldRunLevel}
}

// LeadsWithDifference says that this effect is judged, and read, as an amount in
// the metric's unit, not as a share of the reference.
func (e Effect) LeadsWithDifference() bool { return !measurement.MetricOf(e.Metric).ByRatio() }

// Judged is the estimate on the scale that is judged, with its interval: the
// difference in the metric's unit, or the ratio less one.
func (e Effect) Judged() (estimate float64, low, high *float64) {
	if e.LeadsWithDifference() {
		return e.Difference, e.DifferenceLow, e.DifferenceHigh
	}
	less1 := func(v *float64) *float64 {
		if v == nil {
			return nil
		}
		x := *v - 1
		return &x
	}
	return e.Ratio - 1, less1(e.Low), less1(e.High)
}

// Counted is how many pairs of trials, or trials of Run, the estimate is taken of; 0 where
// there is none.
func (e Effect) Counted() int {
	if e.ReferenceN > 0 && e.ReferenceN == e.ReferenceWithoutValue {
		return 0
	}
	return e.N - e.WithoutValue
}

// Unmeasured says that a median of a side of so many trials is of no value: its path broke
// all of them, or they lost the requests that a percentile falls on. No time is 0.
func (e Effect) Unmeasured(median float64, broken, of int) bool {
	m := measurement.MetricOf(e.Metric)
	return broken >= of && m.Name != measurement.BrokenTrials || median == 0 && m.Unit == measurement.SecondsUnit
}

// NoLevels says that neither run of a change has a level, so that its numbers are of nothing.
func (e Effect) NoLevels() bool {
	return e.Unmeasured(e.ReferenceMedian, e.ReferenceBroken, e.ReferenceN) && e.Unmeasured(e.Median, e.Broken, e.N)
}

// Worse says that the path is worse than the reference beyond chance, and by at
// least the smallest effect that matters; or that it breaks more trials.
func (e Effect) Worse() bool {
	size, _, _ := e.Judged()
	return e.Verdict == Breaks || e.Verdict == Costs && (e.EstimateUnbounded || math.Abs(size) >= max(e.Margin.Fraction, e.Margin.Amount))
}

// Drift is how an effect changed with the block's index.
type Drift struct {
	// Rho is Spearman's rank correlation of the within-block effect with the
	// index, absent where all are the same, P its p.
	Rho *float64 `json:"rho,omitempty"`
	P   *float64 `json:"p,omitempty"`
	// HalvesP is the rank-sum p between the two halves of the blocks. Their
	// effects are ratios, or differences where there is no ratio.
	HalvesP          float64 `json:"halves_p"`
	FirstRatio       float64 `json:"first_ratio,omitempty"`
	SecondRatio      float64 `json:"second_ratio,omitempty"`
	FirstDifference  float64 `json:"first_difference,omitempty"`
	SecondDifference float64 `json:"second_difference,omitempty"`
}
