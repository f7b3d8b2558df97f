// Package watch measures the same again and again for as long as it is left alone, keeps
// what each round brought, and announces once what has changed: a level, a route, that the
// other end is away. How it measures and where it keeps are given to it.
package watch

import (
	"slices"
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

// testOf names a test of a path.
type testOf struct{ path, test string }

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
}

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

// tracked is a series with its detector.
type tracked struct {
	Status
	detector *detect.Detector
	// first is the round that had it first, samples how many it has since.
	first   int64
	samples int
}

// isRare has a series that not all rounds have, as the budget allows, learned from a day of
// what it has, too: when that is over, and there are leastLearned.
func (s *tracked) isRare(r Rules, round int64) {
	if elapsed := float64(round - s.first); s.Limits == nil && s.samples == leastLearned && elapsed >= r.perDay() {
		share := float64(s.samples) / elapsed
		s.detector.Rare(max(int(share*r.perDay()), leastLearned), 365*r.perDay()*share)
	}
}

// confirm is how many rounds in a row have to agree that a route, or a test, is not as it
// was.
const confirm = detect.Run

// mostRoutes bounds the routes that are remembered.
const mostRoutes = 64

// Tracker turns rounds into events. It depends on nothing but the rounds that it was given.
type Tracker struct {
	rules  Rules
	series []*tracked
	// routes are those that are no news, former those before the last change: they are news
	// again. last are the newest, at most confirm; the route in force is the newest that is
	// no news.
	routes   [][]string
	former   [][]string
	last     [][]string
	route    []string
	seen     int            // rounds with a route
	failing  map[testOf]int // rounds in a row
	outage   *Event
	lasted   measurement.Seconds
	previous time.Time
}

// NewTracker is one that was given nothing.
func NewTracker(rules Rules) *Tracker { return &Tracker{rules: rules, failing: map[testOf]int{}} }

// Add takes the next round and says what is to be announced.
func (t *Tracker) Add(r Round) (events []Event) {
	tell := func(e Event) {
		e.Time, e.Round = r.Start, r.Number
		events = append(events, e)
	}
	if r.ClockStep != 0 {
		tell(Event{Code: ClockStepped, Step: r.ClockStep})
	}
	t.reach(r, tell)
	t.previous = r.Start
	if r.Outage {
		return events
	}
	t.follow(r.Route, tell)
	t.fail(r, tell)
	for _, p := range r.Points {
		t.judge(p, r, tell)
	}
	return events
}

// reach follows whether the other end is there.
func (t *Tracker) reach(r Round, tell func(Event)) {
	switch {
	case r.Outage && t.outage == nil:
		t.outage, t.lasted = &Event{Rounds: 1}, 0
		e := Event{Code: OutageBegan}
		if len(r.Failed) > 0 {
			e.Failure = &r.Failed[0]
		}
		tell(e)
	case r.Outage:
		t.outage.Rounds++
		t.lasted += t.since(r)
	case t.outage != nil:
		tell(Event{Code: OutageEnded, Rounds: t.outage.Rounds, Lasted: t.lasted + t.since(r)})
		t.outage = nil
	}
}

// since is how much time passed since the round before: what a clock that was set adds is
// taken off.
func (t *Tracker) since(r Round) measurement.Seconds {
	if t.previous.IsZero() {
		return 0
	}
	return max(measurement.SecondsOf(r.Start.Sub(t.previous))-r.ClockStep, 0)
}

// follow takes a route.
func (t *Tracker) follow(route []string, tell func(Event)) {
	if route == nil {
		return
	}
	t.seen++
	if t.last = append(t.last, route); len(t.last) > confirm {
		t.last = t.last[1:]
	}
	switch {
	case oneOf(t.routes, route):
		t.route = route
		return
	case t.seen <= t.rules.Learn() && len(t.routes) < mostRoutes && !oneOf(t.former, route):
		t.routes, t.route = append(t.routes, route), route
		return
	case len(t.last) < confirm || slices.ContainsFunc(t.last, func(one []string) bool { return oneOf(t.routes, one) }):
		return
	}
	tell(Event{Code: RouteChanged, Was: t.route, Route: route})
	t.former, t.routes, t.route, t.seen = t.routes, slices.Clone(t.last), route, confirm
}

func oneOf(routes [][]string, route []string) bool {
	return slices.ContainsFunc(routes, func(one []string) bool { return sameRoute(one, route) })
}

// sameRoute says that two routes may be one: a hop that was silent may have any address.
func sameRoute(a, b []string) bool {
	return slices.EqualFunc(a, b, func(x, y string) bool { return x == y || x == "" || y == "" })
}

// fail follows which tests bring nothing.
func (t *Tracker) fail(r Round, tell func(Event)) {
	now := map[testOf]bool{}
	for _, f := range r.Failed {
		of := testOf{f.Path, f.Test}
		if now[of] {
			continue
		}
		now[of] = true
		if t.failing[of]++; t.failing[of] == confirm {
			tell(Event{Code: TestFails, Failure: &f})
		}
	}
	for _, p := range r.Points {
		of := testOf{p.Path, p.Test}
		if now[of] {
			continue
		}
		if t.failing[of] >= confirm {
			tell(Event{Code: TestWorks, Failure: &Failure{Path: p.Path, Test: p.Test}})
		}
		delete(t.failing, of)
	}
}

// judge gives a point to its detector.
func (t *Tracker) judge(p Point, r Round, tell func(Event)) {
	i := slices.IndexFunc(t.series, func(s *tracked) bool { return s.Series == p.Series })
	if i < 0 {
		i = len(t.series)
		t.series = append(t.series, &tracked{Status: Status{Series: p.Series}, detector: detect.New(t.rules.options(p.Series)), first: r.Number})
	}
	s := t.series[i]
	s.Last, s.At = p.Value, r.Start
	s.samples++
	s.isRare(t.rules, r.Number)
	before := limitsOf(s.detector)
	found := s.detector.Add(p.Value, p.Least)
	s.Limits = limitsOf(s.detector)
	s.Missing, _ = s.detector.Learning()
	switch found.Kind {
	case detect.Learned:
		tell(Event{Code: Learned, Series: &s.Series, Limits: s.Limits})
	case detect.Changed:
		s.Changes++
		tell(Event{Code: LevelChanged, Series: &s.Series, Before: found.Before, Now: found.Now, Limits: before})
	case detect.Back:
		tell(Event{Code: LevelBack, Series: &s.Series, Before: found.Before, Now: found.Now, Limits: s.Limits})
	}
}

func limitsOf(d *detect.Detector) *Limits {
	l, ok := d.Limits()
	if !ok {
		return nil
	}
	return &Limits{Level: l.Level, Low: l.Low, High: l.High, SmallestDrop: l.SmallestDrop, SmallestRise: l.SmallestRise, Block: l.Block, BlockDrop: l.SlowDrop, BlockRise: l.SlowRise, Samples: l.Samples}
}

// Series are those that were seen, in the order in which they were first.
func (t *Tracker) Series() []Status {
	var out []Status
	for _, s := range t.series {
		out = append(out, s.Status)
	}
	return out
}
