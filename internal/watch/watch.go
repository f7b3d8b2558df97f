// Package watch measures the same again and again for as long as it is left alone, keeps
// what each round brought, and announces once what has changed: a level, a route, that the
// other end is away. How it measures and where it keeps are given to it.
package watch

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/watch/detect"
)

// Format is that of the lines of events of a watch.
const Format = "hopbench.watch/1"

// Head is what a watch is of. It is the same for all its life.
type Head struct {
	Name string `json:"name"`
	// Target is the host or the experiment, as it was named.
	Target string `json:"target"`
	// Subject is a digest of what an experiment measures and where, empty of a host.
	Subject string    `json:"subject_sha256,omitempty"`
	Begun   time.Time `json:"begun"`
	Rules   Rules     `json:"rules"`
}

// Rules are by what changes are found.
type Rules struct {
	// Every is how far apart rounds are.
	Every measurement.Seconds `json:"every_seconds"`
	// Series is how many there are at most: they share the false alarms.
	Series int `json:"series"`
	// Tests are those of a host, by name; nil of an experiment, whose subject has them, and of
	// older versions.
	Tests []string `json:"tests,omitempty"`
	// FalseAlarmsPerYear is how many all series together may bring.
	FalseAlarmsPerYear float64 `json:"false_alarms_per_year"`
	// Matters are the smallest effects that matter, by metric, over the default ones.
	Matters map[string]measurement.Margin `json:"matters,omitempty"`
}

// DefaultFalseAlarms is how many false alarms a year may bring.
const DefaultFalseAlarms = 0.25

// Series is what is watched: the level of a metric on a path, or, with a baseline, the effect
// of the path on it.
type Series struct {
	Path     string `json:"path,omitempty"` // of an experiment
	Baseline string `json:"baseline,omitempty"`
	Test     string `json:"test"`
	Metric   string `json:"metric"`
}

// Point is what a round brought of a series: in the unit of the metric, or, of an effect
// that is judged so, a ratio.
type Point struct {
	Series
	Value float64 `json:"value"`
	// Least is the smallest difference that the test can show: some packets of those sent.
	Least float64 `json:"least,omitempty"`
}

// Failure is a test that brought nothing that counts.
type Failure struct {
	Path string `json:"path,omitempty"`
	Test string `json:"test,omitempty"`
	// Findings are those of its gate, Error is of a round that did not come to tests.
	Findings []measurement.Finding `json:"findings,omitempty"`
	Error    string                `json:"error,omitempty"`
}

// TestOf names a test, of a path in an experiment.
type TestOf struct {
	Path string `json:"path,omitempty"`
	Test string `json:"test"`
}

// Round is one time that all tests were done.
type Round struct {
	Number int64 `json:"round"`
	// Start is by the wall clock; ClockStep is by how much more than the time that passed
	// that clock went on since the round before, if somebody set it or the machine slept.
	Start     time.Time           `json:"start"`
	ClockStep measurement.Seconds `json:"clock_step_seconds,omitempty"`
	Elapsed   measurement.Seconds `json:"elapsed_seconds"`
	Points    []Point             `json:"points,omitempty"`
	Failed    []Failure           `json:"failed,omitempty"`
	// Worked are tests that brought what counts, and no point: a route has none.
	Worked []TestOf `json:"worked,omitempty"`
	// Outage says that no test that needs the other end reached it.
	Outage bool `json:"outage,omitempty"`
	// Route has the address of each hop, empty of one that is silent; nil where the round
	// has none.
	Route []string `json:"route,omitempty"`
	// Payload is what each test moved, both ways, in bytes; Left is what the budget has left
	// after the round.
	Payload map[string]int64 `json:"payload_bytes,omitempty"`
	Left    float64          `json:"budget_left_bytes,omitempty"`
	// Skipped are tests for which the budget did not suffice.
	Skipped []string `json:"skipped,omitempty"`
}

// Code says what an event is about.
type Code string

// The codes.
const (
	Started      Code = "started"
	RoundEnded   Code = "round"
	Learned      Code = "learned"
	LevelChanged Code = "level-changed"
	LevelBack    Code = "level-back"
	RouteChanged Code = "route-changed"
	OutageBegan  Code = "outage"
	OutageEnded  Code = "outage-over"
	TestFails    Code = "test-fails"
	TestWorks    Code = "test-works"
	ClockStepped Code = "clock-stepped"
	StoreFailed  Code = "store-failed"
	StoreWorks   Code = "store-works"
	Stopped      Code = "stopped"
)

// Codes are all of them.
func Codes() []Code {
	return []Code{Started, RoundEnded, Learned, LevelChanged, LevelBack, RouteChanged, OutageBegan, OutageEnded, TestFails, TestWorks, ClockStepped, StoreFailed, StoreWorks, Stopped}
}

// Event is something that is announced, once.
type Event struct {
	Format string    `json:"format,omitempty"` // of Started
	Time   time.Time `json:"time"`             // of the wall clock
	Round  int64     `json:"round"`
	Code   Code      `json:"code"`

	Head    *Head    `json:"head,omitempty"`    // of Started
	Of      *Round   `json:"of,omitempty"`      // of RoundEnded
	Series  *Series  `json:"series,omitempty"`  // of Learned, LevelChanged and LevelBack
	Limits  *Limits  `json:"limits,omitempty"`  // of Learned, LevelChanged and LevelBack: those that were in force, or now are
	Before  float64  `json:"before,omitempty"`  // of LevelChanged and LevelBack
	Now     float64  `json:"now,omitempty"`     // of LevelChanged and LevelBack
	Route   []string `json:"route,omitempty"`   // of RouteChanged
	Was     []string `json:"was,omitempty"`     // of RouteChanged
	Failure *Failure `json:"failure,omitempty"` // of OutageBegan, TestFails and TestWorks
	Text    string   `json:"text,omitempty"`    // of StoreFailed
	// Rounds are those that an outage took, or that wait or waited for the store.
	Rounds int64 `json:"rounds,omitempty"`
	// Lasted is how long an outage did, and Step is that of a clock.
	Lasted measurement.Seconds `json:"lasted_seconds,omitempty"`
	Step   measurement.Seconds `json:"step_seconds,omitempty"`
}

// MarshalJSON writes both levels of a change, be one of them 0: that of a loss usually is.
func (e Event) MarshalJSON() ([]byte, error) {
	type plain Event
	if e.Code != LevelChanged && e.Code != LevelBack {
		return json.Marshal(plain(e))
	}
	return json.Marshal(struct {
		plain
		Before float64 `json:"before"`
		Now    float64 `json:"now"`
	}{plain(e), e.Before, e.Now})
}

// Limits of a series, in the unit of its points.
type Limits struct {
	Level        float64 `json:"level"`
	Low          float64 `json:"low"`
	High         float64 `json:"high"`
	SmallestDrop float64 `json:"smallest_drop"`
	SmallestRise float64 `json:"smallest_rise"`
	// BlockDrop and BlockRise are those that the medians of blocks of so many samples show,
	// a day's usually; 0 where there are too few blocks.
	Block     int     `json:"block_samples"`
	BlockDrop float64 `json:"block_drop,omitempty"`
	BlockRise float64 `json:"block_rise,omitempty"`
	Samples   int     `json:"samples"`
	// Run is how many samples in a row beyond a limit are a change; 0, of an older version,
	// is detect.Run.
	Run int `json:"run_samples,omitempty"`
}

// InARow is how many samples in a row beyond a limit are a change.
func (l Limits) InARow() int { return cmp.Or(l.Run, detect.Run) }

// Status is how a series stands.
type Status struct {
	Series
	// Last is the newest value, and At when it was measured.
	Last float64
	At   time.Time
	// Limits are nil while the first reference is learned; Missing is how many samples it,
	// or that after a change, lacks.
	Limits  *Limits
	Missing int
	// Changes is how often its level changed.
	Changes int
}

// State is how a watch stands.
type State struct {
	Head   Head
	Rounds int64
	// Last is the newest round; its number is 0 if there is none.
	Last   Round
	Series []Status
	Route  []string
	// Outage says that the other end is away.
	Outage bool
	// Events counts those of a code.
	Events map[Code]int64
	// Payload is what all rounds moved, in bytes; Waiting is how many rounds wait for the
	// store.
	Payload int64
	Waiting int
}

// leastLearned is the fewest samples of a reference.
const leastLearned = 24

// Learn is how many samples make a reference: a day of them, and at least leastLearned.
func (r Rules) Learn() int { return max(int(r.perDay()), leastLearned) }

// perDay is how many rounds a day has.
func (r Rules) perDay() float64 { return 24 * time.Hour.Seconds() / float64(r.Every) }

// lossScale is the share from which on shares are judged by their ratio, and below it by
// their difference: a loss of 0.1 % is not twice as bad as one of 0.05 %.
const lossScale = 0.01

// options of the detector of a series.
func (r Rules) options(s Series) detect.Options {
	metric := measurement.MetricOf(s.Metric)
	margin := metric.Margin
	if m, ok := r.Matters[s.Metric]; ok {
		margin = m
	}
	o := detect.Options{
		Fraction: margin.Fraction, Amount: margin.Amount, Learn: r.Learn(),
		FalseAlarmsPerYear: r.FalseAlarmsPerYear / float64(max(r.Series, 1)), SamplesPerYear: 365 * r.perDay(),
	}
	switch {
	case s.Baseline != "" && !metric.ByRatio():
		o.Scale = detect.Difference
	case metric.Unit == measurement.Fraction:
		o.Offset = lossScale
	}
	return o
}
