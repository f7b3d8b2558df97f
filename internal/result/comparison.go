package result

import (
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
)

// ComparisonFormat is the version of what `hopbench compare --json` prints.
const ComparisonFormat = "hopbench.comparison/1"

// Comparison holds runs against published figures and against each other.
type Comparison struct {
	Format string        `json:"format"`
	Runs   []ComparedRun `json:"runs"`
	// Changes are each later run against the first.
	Changes []Change `json:"changes,omitempty"`
	// Notes are what a reader of the whole must know: different testbeds,
	// versions, scales, tests.
	Notes []string `json:"notes,omitempty"`
}

// ComparedRun is a run of a Comparison.
type ComparedRun struct {
	// Label is what the comparison calls it: A, B, ...
	Label       string            `json:"label"`
	Source      string            `json:"source"` // the folder or file it was read from
	Experiment  string            `json:"experiment"`
	Title       string            `json:"title,omitempty"`
	Started     time.Time         `json:"started"`
	Seed        uint64            `json:"seed"`
	Scale       float64           `json:"scale"`
	Testbed     Testbed           `json:"testbed"`
	Environment map[string]string `json:"environment"`
	Trials      int               `json:"trials"`
	Excluded    int               `json:"excluded_trials"`
	// Held are the published figures beside what this run measured.
	Held []Held `json:"published,omitempty"`
}

// Basis is what of a published figure is compared.
type Basis string

// The bases.
const (
	// BasisValue compares the value itself, scaled.
	BasisValue Basis = "value"
	// BasisRatio compares the ratio of the path to the baseline: what a testbed
	// can bear whose absolute figures are relative.
	BasisRatio Basis = "ratio"
)

// Judgement is whether a measurement agrees with a published figure.
type Judgement string

// The judgements.
const (
	Within      Judgement = "within"       // no further off than the tolerance
	Outside     Judgement = "outside"      // further off
	NotJudged   Judgement = "not-judged"   // the figure has no tolerance
	NotMeasured Judgement = "not-measured" // no trial of it counts
)

// Held is a published figure held against a run.
type Held struct {
	Figure
	// N is how many trials count, Measured their median times Factor, which is
	// the experiment's scale for what scales with rate, and 1 otherwise. Low
	// and High are the 95 % interval of Measured.
	N        int      `json:"n"`
	Factor   float64  `json:"factor"`
	Measured float64  `json:"measured"`
	Low      *float64 `json:"low,omitempty"`
	High     *float64 `json:"high,omitempty"`
	// Ratio is Measured / Value, 0 where there is none.
	Ratio float64 `json:"ratio,omitempty"`

	// Basis says which of the two the judgement compares. For BasisRatio,
	// PublishedRatio and MeasuredRatio are those of the path to the baseline;
	// RatioLow and RatioHigh are the 95 % interval of the latter.
	Basis          Basis    `json:"basis"`
	PublishedRatio float64  `json:"published_ratio,omitempty"`
	MeasuredRatio  float64  `json:"measured_ratio,omitempty"`
	RatioLow       *float64 `json:"ratio_low,omitempty"`
	RatioHigh      *float64 `json:"ratio_high,omitempty"`

	// Off is how far what was measured is from what was published, on that
	// basis, as a fraction of the latter; absent where either is not known.
	Off *float64 `json:"off_fraction,omitempty"`
	// InInterval says whether what was published lies within the interval of
	// what was measured; absent where there is no interval.
	InInterval *bool     `json:"in_interval,omitempty"`
	Judgement  Judgement `json:"judgement"`
	// Reason is what the judgement rests on, without naming the figure; why
	// there is none, where there is none.
	Reason   string `json:"reason"`
	Sentence string `json:"sentence"`
}

// Change is a metric of a test on a path in one run against another run of the
// same experiment.
type Change struct {
	Run       string `json:"run"` // labels
	Reference string `json:"reference"`
	Path      string `json:"path"`
	Test      string `json:"test"`
	Metric    string `json:"metric"`
	// N and ReferenceN are the trials of each that count.
	N               int     `json:"n"`
	ReferenceN      int     `json:"reference_n"`
	Median          float64 `json:"median"`
	ReferenceMedian float64 `json:"reference_median"`
	// Ratio is run/reference, from the shift between the two samples of
	// logarithms (Hodges–Lehmann), with its 95 % interval; 0 when not all
	// values are positive.
	Ratio    float64  `json:"ratio"`
	Low      *float64 `json:"low,omitempty"`
	High     *float64 `json:"high,omitempty"`
	Coverage float64  `json:"coverage,omitempty"`
	// Difference is run − reference in the metric's unit, likewise.
	Difference     float64  `json:"difference"`
	DifferenceLow  *float64 `json:"difference_low,omitempty"`
	DifferenceHigh *float64 `json:"difference_high,omitempty"`
	// P is the exact two-sided rank-sum p, PHolm after Holm's correction.
	P     *float64 `json:"p,omitempty"`
	PHolm *float64 `json:"p_holm,omitempty"`
	// Verdict on the run, the reference taken as the baseline.
	Verdict        Verdict `json:"verdict"`
	Bound          float64 `json:"bound,omitempty"`
	SmallestEffect float64 `json:"smallest_effect,omitempty"`
	// TrialsNeeded is about how many trials in each run would resolve it, 0 if
	// resolved.
	TrialsNeeded int    `json:"trials_needed,omitempty"`
	Primary      bool   `json:"primary,omitempty"`
	Sentence     string `json:"sentence"`
}

// Worse says that the run is worse than the reference beyond chance, and by at
// least the smallest effect that matters.
func (c Change) Worse() bool {
	if c.Verdict != Costs {
		return false
	}
	metric, _ := measurement.MetricNamed(c.Metric)
	switch {
	case c.Ratio > 0 && metric.HigherIsBetter:
		return c.Ratio <= 1-c.SmallestEffect
	case c.Ratio > 0:
		return c.Ratio >= 1+c.SmallestEffect
	}
	return true // no ratio: the difference alone was judged
}
