package watch

import (
	"slices"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/watch/detect"
)

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
	if elapsed := float64(round - s.first); s.Limits == nil && s.samples >= leastLearned && elapsed >= r.perDay() {
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
	failing  map[TestOf]int // rounds in a row
	outage   *Event
	lasted   measurement.Seconds
	previous time.Time
}

// NewTracker is one that was given nothing.
func NewTracker(rules Rules) *Tracker { return &Tracker{rules: rules, failing: map[TestOf]int{}} }

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
	case t.outage != nil && len(r.Skipped) > 0 && len(r.Points)+len(r.Failed) == 0:
		t.lasted += t.since(r) // the budget left nothing that would have reached it
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
	now := map[TestOf]bool{}
	for _, f := range r.Failed {
		of := TestOf{f.Path, f.Test}
		if now[of] {
			continue
		}
		now[of] = true
		if t.failing[of]++; t.failing[of] == confirm {
			tell(Event{Code: TestFails, Failure: &f})
		}
	}
	worked := slices.Clone(r.Worked)
	for _, p := range r.Points {
		worked = append(worked, TestOf{p.Path, p.Test})
	}
	for _, of := range worked {
		if now[of] {
			continue
		}
		if t.failing[of] >= confirm {
			tell(Event{Code: TestWorks, Failure: &Failure{Path: of.Path, Test: of.Test}})
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
	before := s.Limits
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
	return &Limits{Level: l.Level, Low: l.Low, High: l.High, SmallestDrop: l.SmallestDrop, SmallestRise: l.SmallestRise, Block: l.Block, BlockDrop: l.SlowDrop, BlockRise: l.SlowRise, Samples: l.Samples, Run: l.Run}
}

// Series are those that were seen, in the order in which they were first.
func (t *Tracker) Series() []Status {
	var out []Status
	for _, s := range t.series {
		out = append(out, s.Status)
	}
	return out
}
