package result

import (
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
)

// ComparisonFormat is the version of what `hopbench compare --json` prints.
const ComparisonFormat = "hopbench.comparison/2"

// Comparison compares runs with published figures and with each other.
type Comparison struct {
	Format string        `json:"format"`
	Runs   []ComparedRun `json:"runs"`
	// Paths and Tests are those of the first run, with their titles.
	Paths []Title `json:"paths"`
	Tests []Title `json:"tests"`
	// Changes compare each later run with the first.
	Changes []Effect `json:"changes,omitempty"`
	// Notes are what a reader of the whole must know: different testbeds,
	// versions, scales, tests.
	Notes []Note `json:"notes,omitempty"`
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
	Broken      int               `json:"broken_trials,omitempty"`
	// Published compares published figures with what this run measured.
	Published []PublishedComparison `json:"published,omitempty"`
}

// Title is what people call a path or a test.
type Title struct {
	Name  string `json:"name"`
	Title string `json:"title,omitempty"`
}

// PathTitles are those of a run's paths.
func PathTitles(paths []PathInfo) []Title {
	out := make([]Title, len(paths))
	for i, p := range paths {
		out[i] = Title{p.Name, p.Title}
	}
	return out
}

// TestTitles are those of a run's tests.
func TestTitles(tests []TestInfo) []Title {
	out := make([]Title, len(tests))
	for i, t := range tests {
		out[i] = Title{t.Name, t.Title}
	}
	return out
}

// Basis says which value of a published figure is compared.
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
	Inside      Judgement = "inside"       // the whole interval is within the tolerance
	Outside     Judgement = "outside"      // the whole interval is beyond it
	Undecided   Judgement = "undecided"    // the interval is on both sides, or there is none
	NotJudged   Judgement = "not-judged"   // the figure has no tolerance
	NotMeasured Judgement = "not-measured" // no trial of it counts
)

// Missing is why a published figure was not measured.
type Missing string

// The reasons.
const (
	MissingTrial       Missing = "no-trial"     // none was done of it
	MissingAllExcluded Missing = "all-excluded" // gates excluded every trial
	MissingMetric      Missing = "no-metric"    // no trial that counts brought the metric back
)

// PublishedComparison is a published figure and what a run measured of it.
type PublishedComparison struct {
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
	// OtherFlows and OtherDuration are what the test had where the figure was
	// published with others; the judgement is then not counted.
	OtherFlows    int                 `json:"other_flows,omitempty"`
	OtherDuration measurement.Seconds `json:"other_duration_seconds,omitempty"`
	// Missing is why there is no measurement, where there is none, and
	// ExcludedTrials how many trials of it gates excluded then.
	Missing        Missing `json:"missing,omitempty"`
	ExcludedTrials int     `json:"excluded_trials,omitempty"`
}

// SameConditions says that the test had the flows and the duration that the
// figure was published with, or that none were.
func (p PublishedComparison) SameConditions() bool { return p.OtherFlows == 0 && p.OtherDuration == 0 }

// PublishedCount counts comparisons with published figures.
type PublishedCount struct {
	// Inside, Outside and Undecided are of predictions that count, Uncounted
	// predictions of other flows or another duration.
	Inside, Outside, Undecided, Uncounted int
	Planted, Open                         int // figures
}

// Predictions are those that count.
func (c PublishedCount) Predictions() int { return c.Inside + c.Outside + c.Undecided }

// CountPublished counts.
func CountPublished(all []PublishedComparison) PublishedCount {
	var c PublishedCount
	for _, p := range all {
		switch {
		case p.Kind == FigurePlanted:
			c.Planted++
		case p.Kind == FigureOpen:
			c.Open++
		case p.Judgement == NotMeasured || p.Judgement == NotJudged:
		case !p.SameConditions():
			c.Uncounted++
		case p.Judgement == Inside:
			c.Inside++
		case p.Judgement == Outside:
			c.Outside++
		default:
			c.Undecided++
		}
	}
	return c
}
