package watch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
)

// Keeper keeps rounds and what was announced of them, all or nothing.
type Keeper interface {
	Put(ctx context.Context, r Round, announced []Event) error
}

// Measure does a round. It asks for each test whether the budget allows it. The tests tell
// what they moved; number, times and budget are filled in by who called. Its error is one
// that ends the watch.
type Measure func(ctx context.Context, allowed func(test string) bool) (Round, error)

// Options of a watch.
type Options struct {
	Head    Head
	Measure Measure
	Keeper  Keeper
	// Before are the rounds that were kept, in their order. New reads them, and keeps none:
	// those of a year are 100 MB.
	Before []Round
	// Newest is the number of the newest round that was kept, if that is none of Before.
	Newest int64
	// Jitter is by how much of its interval a round may come later, at random: so that it
	// does not keep step with what else happens every so often.
	Jitter float64
	// Budget is what the rounds of a day may move, in bytes; 0 is no bound. Always are tests
	// that are never left out: what they move is little, known, and taken from the budget.
	Budget float64
	Always []string
	// Announce hears of every event, from one goroutine.
	Announce func(Event)
	// Wall is the clock that people see, time.Now by default. The cadence does not follow it.
	Wall func() time.Time
}

// mostWaiting bounds the rounds that wait for a store that cannot be written.
const mostWaiting = 10_000

// leastStep is the least by which a clock is off that is worth a word; a clock that is
// steered gains or loses less than steered of the time meanwhile (ntp_adjtime(2): 500 ppm).
const (
	leastStep = time.Second
	steered   = 0.001
)

// Watch is one under way.
type Watch struct {
	o       Options
	tracker *Tracker
	bucket  bucket
	waiting []kept
	newest  int64 // number of the newest round

	mutex sync.Mutex
	state State
}

// kept is a round that is to be kept.
type kept struct {
	round  Round
	events []Event
}

// New takes up a watch where the rounds before it ended. Nothing of them is announced again.
func New(o Options) *Watch {
	if o.Wall == nil {
		o.Wall = time.Now
	}
	if o.Announce == nil {
		o.Announce = func(Event) {}
	}
	w := &Watch{o: o, tracker: NewTracker(o.Head.Rules), bucket: newBucket(o.Budget), state: State{Head: o.Head, Events: map[Code]int64{}}}
	for _, r := range o.Before {
		for _, e := range w.tracker.Add(r) {
			w.state.Events[e.Code]++
		}
		w.bucket.learn(r)
		w.note(r)
	}
	if n := len(o.Before); n > 0 {
		last := o.Before[n-1]
		w.bucket.left = last.Left
		w.bucket.fill(max(o.Wall().Sub(last.Start), 0))
	}
	w.o.Before = nil
	w.newest = max(o.Newest, w.state.Last.Number)
	return w
}

// State is how the watch stands, for any goroutine.
func (w *Watch) State() State {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	s := w.state
	s.Events = maps.Clone(s.Events)
	s.Series = slices.Clone(s.Series)
	return s
}

// note takes a round into the state.
func (w *Watch) note(r Round) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.state.Rounds++
	w.state.Last = r
	w.state.Series, w.state.Route, w.state.Outage = w.tracker.Series(), w.tracker.route, w.tracker.outage != nil
	for _, n := range r.Payload {
		w.state.Payload += n
	}
}

// announce has an event heard of.
func (w *Watch) announce(e Event) {
	w.mutex.Lock()
	w.state.Events[e.Code]++
	w.state.Waiting = len(w.waiting)
	w.mutex.Unlock()
	w.o.Announce(e)
}

// Run measures until ctx ends, which is no error. Rounds that still wait for the store then
// are tried once more.
func (w *Watch) Run(ctx context.Context) (err error) {
	w.announce(Event{Format: Format, Code: Started, Time: w.o.Wall(), Round: w.newest, Head: &w.o.Head, Rounds: w.state.Rounds})
	defer func() {
		err = errors.Join(err, w.flush(context.WithoutCancel(ctx)))
		if n := len(w.waiting); n > 0 {
			err = errors.Join(err, fmt.Errorf("%d rounds could not be kept", n))
		}
		w.announce(Event{Code: Stopped, Time: w.o.Wall(), Round: w.newest, Rounds: w.state.Rounds})
	}()
	every := w.o.Head.Rules.Every.Duration()
	begun, goesOn := time.Now(), w.newest > 0
	last, lastWall := begun, w.o.Wall()
	for slot := 0; ; slot++ {
		due := begun.Add(time.Duration(slot) * every)
		if slot > 0 || goesOn {
			due = due.Add(time.Duration(w.o.Jitter * rand.Float64() * float64(every)))
		}
		if !sleep(ctx, time.Until(due)) {
			return nil
		}
		start, wall := time.Now(), w.o.Wall()
		passed := start.Sub(last)
		w.bucket.fill(passed)
		var promised float64
		r, err := w.o.Measure(ctx, func(test string) bool {
			ok := slices.Contains(w.o.Always, test) || w.bucket.allows(test, promised)
			if ok {
				delete(w.bucket.waited, test)
				promised += float64(w.bucket.costs[test])
			}
			return ok
		})
		if ctx.Err() != nil {
			return nil // what was under way is torn
		}
		if err != nil {
			return err
		}
		w.newest++
		r.Number, r.Start, r.Elapsed = w.newest, wall.Round(time.Millisecond), measurement.SecondsOf(time.Since(start))
		if step := wall.Round(0).Sub(lastWall.Round(0)) - passed; step.Abs() > max(leastStep, time.Duration(steered*float64(passed))) {
			r.ClockStep = measurement.SecondsOf(step)
		}
		last, lastWall = start, wall
		w.end(ctx, r)
		// A round that took longer than its interval has the next ones left out. After one that
		// only began late, the next one may begin late, too.
		late := time.Duration(0)
		if time.Since(start) <= every {
			late = time.Duration(w.o.Jitter * float64(every))
		}
		for time.Since(begun) > time.Duration(slot+1)*every+late {
			slot++
		}
	}
}

// end judges, keeps and announces a round.
func (w *Watch) end(ctx context.Context, r Round) {
	w.bucket.learn(r)
	r.Left = w.bucket.left
	events := w.tracker.Add(r)
	w.note(r)
	w.waiting = append(w.waiting, kept{r, events})
	before := len(w.waiting) - 1
	err := w.flush(ctx)
	for _, e := range events {
		w.announce(e)
	}
	w.announce(Event{Code: RoundEnded, Time: r.Start, Round: r.Number, Of: &r})
	switch {
	case err != nil && before == 0:
		w.announce(Event{Code: StoreFailed, Time: r.Start, Round: r.Number, Text: err.Error(), Rounds: int64(len(w.waiting))})
	case err == nil && before > 0:
		w.announce(Event{Code: StoreWorks, Time: r.Start, Round: r.Number, Rounds: int64(before)})
	}
	if over := len(w.waiting) - mostWaiting; over > 0 {
		w.waiting = slices.Delete(w.waiting, 0, over)
	}
}

// flush keeps what waits, as far as it can be.
func (w *Watch) flush(ctx context.Context) error {
	for len(w.waiting) > 0 {
		if err := w.o.Keeper.Put(ctx, w.waiting[0].round, w.waiting[0].events); err != nil {
			return err
		}
		w.waiting = w.waiting[1:]
	}
	return nil
}

// sleep waits, and says whether it did to the end.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}

// bucket holds the budget: it fills with time, and tests take from it. A test whose cost is
// not known yet may be done while anything is left, and what it takes more is owed.
type bucket struct {
	perSecond, most, left float64
	costs                 map[string]int64
	waited                map[string]int // rounds in a row for which it did not suffice, by test
}

// burst is the part of a day whose budget can be saved up.
const burst = 24

func newBucket(perDay float64) bucket {
	return bucket{perSecond: perDay / (24 * time.Hour.Seconds()), most: perDay / burst, left: perDay / burst, costs: map[string]int64{}, waited: map[string]int{}}
}

func (b *bucket) fill(passed time.Duration) {
	b.left = min(b.left+b.perSecond*passed.Seconds(), b.most)
}

// allows says whether a test may be done besides those that were promised as many bytes. What
// others need that have waited longer is left to them: else one that is always asked for first,
// or needs less, would never let enough be saved up for them.
func (b *bucket) allows(test string, promised float64) bool {
	for other, rounds := range b.waited {
		if rounds > b.waited[test] {
			promised += float64(b.costs[other])
		}
	}
	return b.perSecond == 0 || b.left > promised && b.left-promised >= float64(b.costs[test])
}

// learn takes what a round cost.
func (b *bucket) learn(r Round) {
	for test, n := range r.Payload {
		b.costs[test] = n
		if b.perSecond > 0 { // without a budget nothing is owed
			b.left -= float64(n)
		}
	}
	maps.DeleteFunc(b.waited, func(test string, _ int) bool { return !slices.Contains(r.Skipped, test) })
	for _, test := range r.Skipped {
		b.waited[test]++
	}
	var all float64 // what a whole round takes can be saved up
	for _, n := range b.costs {
		all += float64(n)
	}
	b.most = max(b.most, all)
}
