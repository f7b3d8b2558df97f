package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"go.uber.org/goleak"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	quarter = Rules{Every: 900, Series: 2, FalseAlarmsPerYear: DefaultFalseAlarms}
	rtt     = Series{Test: "latency", Metric: "rtt_p50_seconds"}
	loss    = Series{Test: "latency", Metric: "loss_fraction"}
)

// path makes rounds of one, 15 minutes apart.
type path struct {
	random *rand.Rand
	number int64
	at     time.Time
	rtt    float64 // seconds
	loss   float64
	route  []string
}

func newPath() *path {
	return &path{random: rand.New(rand.NewPCG(1, 2)), at: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), rtt: 1e-3, route: []string{"10.0.0.1", "10.0.1.1", "10.0.2.1"}}
}

func (p *path) round() Round {
	p.number++
	p.at = p.at.Add(15 * time.Minute)
	return Round{Number: p.number, Start: p.at, Route: p.route, Points: []Point{
		{Series: rtt, Value: p.rtt * (1 + 0.02*p.random.NormFloat64())}, {Series: loss, Value: p.loss, Least: 0.005},
	}}
}

// days has a tracker see rounds of a path, and says what was announced.
func days(t *Tracker, p *path, rounds int) (events []Event) {
	for range rounds {
		events = append(events, t.Add(p.round())...)
	}
	return events
}

func codes(events []Event) (out []Code) {
	for _, e := range events {
		out = append(out, e.Code)
	}
	return out
}

func want(t *testing.T, what string, events []Event, want ...Code) {
	t.Helper()
	if got := codes(events); !slices.Equal(got, want) {
		t.Errorf("%s: %v was announced, want %v", what, got, want)
	}
}

func TestALevelThatChangesIsAnnouncedOnce(t *testing.T) {
	tracker, p := NewTracker(quarter), newPath()
	want(t, "the first day", days(tracker, p, 96), Learned, Learned)
	want(t, "ten days more", days(tracker, p, 960))
	before := tracker.Series()[0].Limits
	p.rtt = before.Level + 2*before.SmallestRise
	events := days(tracker, p, 3)
	want(t, "three rounds after a change", events, LevelChanged)
	if e := events[0]; *e.Series != rtt || e.Before < 0.98e-3 || e.Before > 1.02e-3 || e.Now < 0.95*p.rtt || e.Now > 1.05*p.rtt {
		t.Errorf("%+v", e)
	}
	want(t, "the rest of the day", days(tracker, p, 96), Learned)
	want(t, "the new level", days(tracker, p, 960))
}

func TestALevelThatComesBackIsAnnouncedOnce(t *testing.T) {
	tracker, p := NewTracker(quarter), newPath()
	days(tracker, p, 960)
	p.rtt = 3e-3
	want(t, "worse", days(tracker, p, 10), LevelChanged)
	p.rtt = 9e-3
	want(t, "worse still", days(tracker, p, 10), LevelChanged)
	p.rtt = 1e-3
	want(t, "as before", days(tracker, p, 10), LevelBack)
	want(t, "and so it stays", days(tracker, p, 960))
}

// What the budget allows once in some rounds is learned all the same: from a day, or from as
// many days as bring enough.
func TestARareSeriesIsLearned(t *testing.T) {
	for every, want := range map[int64]int64{2: 98, 3: 99, 4: 100, 10: 240} {
		tracker, p := NewTracker(quarter), newPath()
		send := Series{Test: "send", Metric: "goodput_bits_per_second"}
		learned := int64(0)
		for range 5 * 96 {
			r := p.round()
			if r.Number%every == 0 {
				r.Points = []Point{{Series: send, Value: 1e9}}
				for _, e := range tracker.Add(r) {
					if e.Code == Learned && *e.Series == send {
						learned = r.Number
					}
				}
			}
		}
		if learned != want {
			t.Errorf("every %d rounds: learned in round %d, want %d", every, learned, want)
		}
	}
}

// A change that is too small for three samples is found by the next day's median.
func TestASmallChangeIsFoundByDays(t *testing.T) {
	rules := quarter
	rules.Matters = map[string]measurement.Margin{rtt.Metric: {Amount: 1e-6}}
	tracker, p := NewTracker(rules), newPath()
	days(tracker, p, 20*96)
	l := tracker.Series()[0].Limits
	if l.BlockRise == 0 || l.BlockRise > l.SmallestRise/3 {
		t.Fatalf("%+v", l)
	}
	p.rtt = l.Level + 1.5*l.BlockRise
	want(t, "two days", days(tracker, p, 2*96), LevelChanged)
	want(t, "what follows", days(tracker, p, 20*96))
}

func TestLossIsAnnouncedOnce(t *testing.T) {
	tracker, p := NewTracker(quarter), newPath()
	days(tracker, p, 960)
	p.loss = 0.002 // two packets of a thousand
	want(t, "a packet or two", days(tracker, p, 5))
	p.loss = 0.02
	want(t, "two per cent", days(tracker, p, 5), LevelChanged)
	p.loss = 0
	want(t, "none", days(tracker, p, 8), LevelBack)
}

// A program reads both levels of a change, also where one of them is 0; no other event has them.
func TestLevelsOfAChangeAreWritten(t *testing.T) {
	tracker, p := NewTracker(quarter), newPath()
	learned := days(tracker, p, 960)
	p.loss = 0.02
	worse := days(tracker, p, 5)
	p.loss = 0
	for _, c := range []struct {
		event       Event
		before, now any
	}{{learned[0], nil, nil}, {worse[0], 0.0, 0.02}, {days(tracker, p, 8)[0], 0.02, 0.0}} {
		text, err := json.Marshal(c.event)
		testutil.OK(t, err)
		var fields map[string]any
		testutil.OK(t, json.Unmarshal(text, &fields))
		near := func(got, want any) bool {
			a, is := got.(float64)
			b, should := want.(float64)
			return is == should && math.Abs(a-b) < 1e-9
		}
		if !near(fields["before"], c.before) || !near(fields["now"], c.now) || fields["code"] != string(c.event.Code) || fields["series"] == nil {
			t.Errorf("%s", text)
		}
		var back Event
		if err := json.Unmarshal(text, &back); err != nil || back.Before != c.event.Before || back.Now != c.event.Now || *back.Series != *c.event.Series {
			t.Errorf("%+v, %v", back, err)
		}
	}
}

func TestARouteThatChangesIsAnnouncedOnce(t *testing.T) {
	tracker, p := NewTracker(quarter), newPath()
	one := p.route
	other := []string{"10.0.0.1", "10.0.9.1", "10.0.2.1"}
	days(tracker, p, 50)
	p.route = other
	want(t, "a route of the first day", days(tracker, p, 10))
	p.route = one
	days(tracker, p, 100)
	p.route = []string{"10.0.0.1", "", "10.0.2.1"}
	want(t, "a hop that is silent", days(tracker, p, 10))
	p.route = other
	want(t, "a route that is known", days(tracker, p, 10))
	p.route = []string{"10.0.0.1", "10.0.7.1", "10.0.7.2", "10.0.2.1"}
	want(t, "two rounds elsewhere", days(tracker, p, 2))
	p.route = one
	days(tracker, p, 1)
	p.route = []string{"10.0.0.1", "10.0.7.1", "10.0.7.2", "10.0.2.1"}
	want(t, "a new route", days(tracker, p, 10), RouteChanged)
	p.route = one
	want(t, "the one before", days(tracker, p, 200), RouteChanged)
}

// While the other end is away nothing is said of levels, and they are as before when it is
// back.
func TestAnOutageIsAnnouncedOnceAndIsNoLevel(t *testing.T) {
	tracker, p := NewTracker(quarter), newPath()
	days(tracker, p, 300)
	var events []Event
	for range 20 {
		r := p.round()
		r.Points, r.Route, r.Outage, r.Failed = nil, nil, true, []Failure{{Test: "latency", Error: "refused"}}
		events = append(events, tracker.Add(r)...)
	}
	want(t, "away", events, OutageBegan)
	events = days(tracker, p, 20)
	want(t, "back", events, OutageEnded)
	if e := events[0]; e.Rounds != 20 || e.Lasted != 20*900 {
		t.Errorf("the outage took %d rounds and %v s", e.Rounds, e.Lasted)
	}
}

// A round that the budget leaves out does not say that the other end is back.
func TestAnOutageOutlastsRoundsThatAreSkipped(t *testing.T) {
	tracker, p := NewTracker(quarter), newPath()
	days(tracker, p, 300)
	var events []Event
	for _, r := range []Round{{Outage: true}, {Skipped: []string{"run"}}, {Skipped: []string{"send"}, Worked: []TestOf{{Test: "route"}}}, {Outage: true}} {
		of := p.round()
		r.Number, r.Start = of.Number, of.Start
		events = append(events, tracker.Add(r)...)
	}
	want(t, "away", events, OutageBegan)
	events = days(tracker, p, 1)
	want(t, "back", events, OutageEnded)
	if e := events[0]; e.Rounds != 2 || e.Lasted != 4*900 {
		t.Errorf("the outage took %d rounds and %v s", e.Rounds, e.Lasted)
	}
}

func TestATestThatFailsIsAnnouncedOnce(t *testing.T) {
	tracker, p := NewTracker(quarter), newPath()
	days(tracker, p, 100)
	var events []Event
	for range 9 {
		r := p.round()
		r.Failed = []Failure{{Test: "send", Error: "no"}}
		events = append(events, tracker.Add(r)...)
	}
	want(t, "send fails", events, TestFails)
	r := p.round()
	r.Points = append(r.Points, Point{Series: Series{Test: "send", Metric: "goodput_bits_per_second"}, Value: 1e9})
	want(t, "send works", tracker.Add(r), TestWorks)
}

// memory keeps rounds, unless it fails.
type memory struct {
	rounds []Round
	fails  atomic.Bool
}

func (m *memory) Put(_ context.Context, r Round, _ []Event) error {
	if m.fails.Load() {
		return errors.New("full")
	}
	m.rounds = append(m.rounds, r)
	return nil
}

// under runs a watch of every 15 minutes for some time in a bubble.
func under(t *testing.T, o Options, lasts time.Duration, meanwhile func(*Watch)) (events []Event, err error) {
	t.Helper()
	o.Head = Head{Name: "n", Rules: quarter}
	o.Announce = func(e Event) { events = append(events, e) }
	if o.Measure == nil {
		o.Measure = func(context.Context, func(string) bool) (Round, error) { return Round{}, nil }
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), lasts)
		defer stop()
		w := New(o)
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		if meanwhile != nil {
			meanwhile(w)
		}
		err = <-done
	})
	return events, err
}

func TestRoundsComeEverySoOftenWithJitter(t *testing.T) {
	m := &memory{}
	var starts []time.Time
	_, err := under(t, Options{Keeper: m, Jitter: 0.5, Measure: func(context.Context, func(string) bool) (Round, error) {
		starts = append(starts, time.Now())
		if len(starts) == 5 {
			time.Sleep(40 * time.Minute) // one that takes long has no others caught up after it
		}
		return Round{}, nil
	}}, 24*time.Hour-time.Second, nil)
	testutil.OK(t, err)
	if len(m.rounds) < 92 || len(m.rounds) > 94 {
		t.Errorf("%d rounds in a day", len(m.rounds))
	}
	late := map[time.Duration]bool{}
	for i, s := range starts[1:] {
		d := s.Sub(starts[0]) % (15 * time.Minute)
		if late[d] = true; d > 450*time.Second {
			t.Errorf("round %d is %v late", i+2, d)
		}
	}
	if len(late) < 20 {
		t.Errorf("only %d distances in a day", len(late))
	}
}

// A round that ends after the next one could begin, only since it began late, has none left out.
func TestLateRoundsLeaveNoneOut(t *testing.T) {
	m := &memory{}
	_, err := under(t, Options{Keeper: m, Jitter: 1, Measure: func(context.Context, func(string) bool) (Round, error) {
		time.Sleep(5 * time.Minute)
		return Round{}, nil
	}}, 24*time.Hour, nil)
	testutil.OK(t, err)
	if len(m.rounds) < 95 { // of 96; the last may have no time
		t.Errorf("%d rounds in a day", len(m.rounds))
	}
}

func TestAClockThatJumps(t *testing.T) {
	for _, jump := range []time.Duration{5 * time.Hour, -5 * time.Hour, 200 * time.Millisecond} {
		t.Run(fmt.Sprint(jump), func(t *testing.T) {
			m := &memory{}
			var set atomic.Int64
			events, err := under(t, Options{Keeper: m, Wall: func() time.Time { return time.Now().Add(time.Duration(set.Load())) }}, 10*time.Hour, func(*Watch) {
				time.Sleep(5 * time.Hour)
				synctest.Wait()
				set.Store(int64(jump))
			})
			testutil.OK(t, err)
			if n := len(m.rounds); n < 40 || n > 41 {
				t.Errorf("%d rounds in 10 hours: the cadence follows the clock that was set", n)
			}
			i := slices.IndexFunc(events, func(e Event) bool { return e.Code == ClockStepped })
			if jump.Abs() < leastStep {
				if i >= 0 {
					t.Errorf("%+v of a clock that is steered", events[i])
				}
				return
			}
			if i < 0 || events[i].Step.Duration() != jump {
				t.Fatalf("no event of a step of %v: %v", jump, codes(events))
			}
			marked := 0
			for _, r := range m.rounds {
				if r.ClockStep != 0 {
					marked++
				}
			}
			if marked != 1 {
				t.Errorf("%d rounds are marked", marked)
			}
		})
	}
}

func TestAStoreThatCannotBeWrittenForAWhile(t *testing.T) {
	m := &memory{}
	events, err := under(t, Options{Keeper: m}, 10*time.Hour, func(w *Watch) {
		time.Sleep(2*time.Hour + time.Minute)
		synctest.Wait()
		m.fails.Store(true)
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if n := w.State().Waiting; n != 12 {
			t.Errorf("%d rounds wait, want 12", n)
		}
		m.fails.Store(false)
	})
	testutil.OK(t, err)
	var told []Code
	for _, e := range events {
		if e.Code != RoundEnded {
			told = append(told, e.Code)
		}
	}
	if !slices.Equal(told, []Code{Started, StoreFailed, StoreWorks, Stopped}) {
		t.Errorf("%v was announced", told)
	}
	for i, r := range m.rounds {
		if r.Number != int64(i+1) {
			t.Fatalf("round %d is kept as number %d", r.Number, i+1)
		}
	}
	if len(m.rounds) < 40 {
		t.Errorf("%d rounds are kept", len(m.rounds))
	}
}

func TestRoundsThatAreNeverKeptAreAnError(t *testing.T) {
	m := &memory{}
	m.fails.Store(true)
	if _, err := under(t, Options{Keeper: m}, time.Hour, nil); err == nil {
		t.Error("no error")
	}
}

func TestTheBudgetHolds(t *testing.T) {
	const send, always = 100e6, 1e6
	m := &memory{}
	_, err := under(t, Options{Keeper: m, Budget: 1e9, Always: []string{"latency"}, Measure: func(_ context.Context, allowed func(string) bool) (Round, error) {
		r := Round{Payload: map[string]int64{}}
		if allowed("latency") {
			r.Payload["latency"] = always
		}
		if allowed("send") {
			r.Payload["send"] = send
		} else {
			r.Skipped = []string{"send"}
		}
		return r, nil
	}}, 10*24*time.Hour, nil)
	testutil.OK(t, err)
	var moved, sent, latency int64
	for _, r := range m.rounds {
		moved += r.Payload["latency"] + r.Payload["send"]
		sent += r.Payload["send"]
		latency += r.Payload["latency"]
	}
	if most := int64(10_000_000_000 + send + 1_000_000_000/burst); moved > most {
		t.Errorf("%d bytes in ten days, want at most %d", moved, most)
	}
	if sent < 85*send || latency < 955*always {
		t.Errorf("only %d bytes of send and %d of latency in ten days", sent, latency)
	}
}

// Tests that the budget does not suffice for together take turns.
func TestTestsTakeTurnsWithinTheBudget(t *testing.T) {
	cost := map[string]int64{"send": 300e6, "receive": 100e6}
	m := &memory{}
	_, err := under(t, Options{Keeper: m, Budget: 1e9, Measure: func(_ context.Context, allowed func(string) bool) (Round, error) {
		r := Round{Payload: map[string]int64{}}
		for _, test := range []string{"send", "receive"} {
			if allowed(test) {
				r.Payload[test] = cost[test]
			} else {
				r.Skipped = append(r.Skipped, test)
			}
		}
		return r, nil
	}}, 20*24*time.Hour, nil)
	testutil.OK(t, err)
	times := map[string]int{}
	for _, r := range m.rounds {
		for test := range r.Payload {
			times[test]++
		}
	}
	if times["send"] < 45 || times["receive"] < 45 {
		t.Errorf("within twenty days of a budget for 50 of each: %v", times)
	}
}

// What a watch without a budget moved is not owed when it is taken up with one.
func TestNothingIsOwedWithoutABudget(t *testing.T) {
	m := &memory{}
	measure := func(_ context.Context, allowed func(string) bool) (Round, error) {
		if allowed("send") {
			return Round{Payload: map[string]int64{"send": 100e6}}, nil
		}
		return Round{Skipped: []string{"send"}}, nil
	}
	_, err := under(t, Options{Keeper: m, Measure: measure}, 10*24*time.Hour, nil)
	testutil.OK(t, err)
	unlimited := len(m.rounds)
	if last := m.rounds[unlimited-1]; last.Left != 0 {
		t.Errorf("%v bytes are left of no budget", last.Left)
	}
	_, err = under(t, Options{Keeper: m, Measure: measure, Budget: 1e9, Before: slices.Clone(m.rounds)}, 24*time.Hour, nil)
	testutil.OK(t, err)
	sent := 0
	for _, r := range m.rounds[unlimited:] {
		if len(r.Skipped) == 0 {
			sent++
		}
	}
	if sent < 8 || sent > 11 {
		t.Errorf("%d rounds sent in a day that allows 10", sent)
	}
}

// A watch that is taken up goes on as if it had not stopped.
func TestAWatchGoesOn(t *testing.T) {
	p := newPath()
	whole := NewTracker(quarter)
	var rounds []Round
	for range 500 {
		rounds = append(rounds, p.round())
		whole.Add(rounds[len(rounds)-1])
	}
	w := New(Options{Head: Head{Rules: quarter}, Before: rounds, Keeper: &memory{}})
	got, want := w.State(), whole.Series()
	for i := range want {
		if *got.Series[i].Limits != *want[i].Limits || got.Series[i].Last != want[i].Last {
			t.Errorf("%+v, want %+v", got.Series[i], want[i])
		}
	}
	if got.Rounds != 500 || got.Events[Learned] != 2 {
		t.Errorf("%+v", got)
	}
}

// The rounds of years do not stay in memory for as long as a watch goes on.
func TestRoundsBeforeAreNotHeld(t *testing.T) {
	var w *Watch
	p := newPath()
	held := func() weak.Pointer[Round] {
		rounds := []Round{p.round(), p.round()}
		w = New(Options{Head: Head{Rules: quarter}, Before: rounds, Keeper: &memory{}})
		return weak.Make(&rounds[0])
	}()
	runtime.GC()
	if held.Value() != nil {
		t.Error("they are held")
	}
	if got := w.State(); got.Last.Number != 2 {
		t.Errorf("%+v", got)
	}
}

func TestEffectsOfExperimentsMayBeBelowZero(t *testing.T) {
	effect := Series{Path: "fw", Baseline: "direct", Test: "latency", Metric: "rtt_p50_seconds"}
	rules := Rules{Every: 6 * 3600, Series: 1, FalseAlarmsPerYear: DefaultFalseAlarms}
	tracker := NewTracker(rules)
	random := rand.New(rand.NewPCG(3, 4))
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	add := func(level float64) []Event {
		at = at.Add(6 * time.Hour)
		return tracker.Add(Round{Start: at, Points: []Point{{Series: effect, Value: level + 2e-6*random.NormFloat64()}}})
	}
	for range 100 {
		add(0)
	}
	l := tracker.Series()[0].Limits
	if l == nil || !(l.Low < 0 && l.High > 0) {
		t.Fatalf("limits %+v", l)
	}
	var events []Event
	for range 3 {
		events = append(events, add(2*l.SmallestRise)...)
	}
	want(t, "a cost", events, LevelChanged)
}

// A test without points fails where it does so three times in a row, and works again.
func TestTestWithoutPointsFails(t *testing.T) {
	route := TestOf{Test: "route"}
	for _, c := range []struct {
		name  string
		fails func(round int) bool
		want  []Code
	}{
		{"once a day", func(i int) bool { return i%96 == 50 }, nil},
		{"three in a row", func(i int) bool { return 100 <= i && i < 103 }, []Code{TestFails, TestWorks}},
	} {
		tracker, p := NewTracker(quarter), newPath()
		var got []Code
		for i := range 400 {
			r := p.round()
			if r.Worked = []TestOf{route}; c.fails(i) {
				r.Worked, r.Failed = nil, []Failure{{Test: route.Test, Error: "the clock was set"}}
			}
			for _, e := range tracker.Add(r) {
				if e.Failure != nil {
					got = append(got, e.Code)
				}
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// Rounds of seconds learn from a whole day, and keep one: a path that is busier at work has
// no change.
func TestFastRoundsKnowTheDay(t *testing.T) {
	every := float64(testutil.Repeat(20, 10))
	tracker := NewTracker(Rules{Every: measurement.Seconds(every), Series: 1, FalseAlarmsPerYear: DefaultFalseAlarms})
	random := rand.New(rand.NewPCG(1, 2))
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range int(4 * 86400 / every) {
		v := 1e-3 * (1 + 0.02*random.NormFloat64())
		if h := at.Hour(); h >= 9 && h < 17 {
			v *= 1.3
		}
		for _, e := range tracker.Add(Round{Number: int64(i + 1), Start: at, Points: []Point{{Series: rtt, Value: v}}}) {
			if e.Code == LevelChanged || e.Code == LevelBack {
				t.Fatalf("%v: %+v", at, e)
			}
		}
		at = at.Add(time.Duration(every * float64(time.Second)))
	}
	if s := tracker.Series()[0]; s.Missing != 0 || s.Limits == nil || s.Limits.Samples < int(86400/every) {
		t.Errorf("%+v of %+v", s, s.Limits)
	}
}
