package collect

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hopbench/hopbench/internal/agent"
	"github.com/hopbench/hopbench/internal/fleet/samples"
	"github.com/hopbench/hopbench/internal/fleet/subject"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/testutil"
)

func (d *disk) PutLate(ctx context.Context, results []samples.Result) (int, error) {
	d.mu.Lock()
	before, after := d.before, d.after
	d.mu.Unlock()
	if before != nil {
		return 0, before
	}
	n, err := d.Store.PutLate(ctx, results)
	return n, errors.Join(err, after)
}

// lateOf are the results that came after their trials, by trial, attempt and agent.
func lateOf(t *testing.T, d *disk) []string {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(d.Dir(), "run.sqlite"))
	testutil.OK(t, err)
	defer db.Close()
	rows, err := db.Query("SELECT trial, seat, attempt, agent FROM late_result ORDER BY trial, attempt")
	testutil.OK(t, err)
	defer rows.Close()
	var out []string
	for rows.Next() {
		var name, who string
		var seat, attempt int
		testutil.OK(t, rows.Scan(&name, &seat, &attempt, &who))
		out = append(out, fmt.Sprint(name, " ", seat, " ", attempt, " ", who))
	}
	testutil.OK(t, rows.Err())
	return out
}

func (m *machine) finish(key samples.Key) {
	m.box.Finished(samples.Result{Key: key, Outcome: []byte(`{"metrics":{"rate":5}}`)})
}

// A result that comes after its trial is kept once, however often connections and the disk
// fail, and the agent then lets go of it; one that a stored trial has is not kept again.
func TestKilledResults(t *testing.T) {
	for seed := range uint64(testutil.Repeat(3, 200)) {
		random := rand.New(rand.NewPCG(seed, 4))
		d := newDisk(t)
		m, c := joined(t, d, Options{})
		m.cut()
		var want []string
		for i := range 4 {
			id := fmt.Sprint("b0", i, "-a")
			for n := range 2 {
				attempt, err := c.Begin(t.Context(), id, []subject.Agent{m.who})
				testutil.OK(t, err)
				m.finish(samples.Key{Trial: id, Seat: 1, Attempt: attempt})
				if n == 0 || i != 2 {
					want = append(want, fmt.Sprint(id, " 1 ", attempt, " m"))
				}
			}
		}
		// The coordinator was killed before it could tell the agent that this is stored.
		testutil.OK(t, d.Put(t.Context(), measurement.Trial{ID: "b02-a", Outcome: measurement.Outcome{Metrics: measurement.Metrics{"rate": 5}}}))
		_, err := c.Begin(t.Context(), "b09-a", []subject.Agent{m.who}) // the trials before are over
		testutil.OK(t, err)
		for len(m.box.Results()) > 0 {
			m.connect(c)
			switch full := errors.New("disk full"); random.IntN(4) {
			case 0:
				d.set(full, nil)
			case 1:
				d.set(nil, full)
			default:
				d.set(nil, nil)
			}
			for range random.IntN(3) {
				stored := c.next()
				m.poke()
				<-stored
			}
			m.cut()
		}
		d.set(nil, nil)
		testutil.OK(t, c.Drain(t.Context()))
		if got := lateOf(t, d); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("seed %d: kept are %v, want %v", seed, got, want)
		}
	}
}

// next is closed after the next transaction.
func (c *Collector) next() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stored
}

// A trial that is stored is settled with its agents; what they bring of others' tests is
// refused.
func TestSettled(t *testing.T) {
	d := newDisk(t)
	m, c := joined(t, d, Options{})
	m.finish(m.key)
	c.Stored("b09-another")
	if len(m.box.Results()) != 1 {
		t.Error("a result of a trial that is not stored is let go of")
	}
	c.Stored(trial)
	for len(m.box.Results()) > 0 {
		m.poke()
	}
	m.cut()
	m.finish(samples.Key{Trial: trial, Seat: 1, Attempt: 1})
	m.connect(c)
	<-m.client.Done()
	if err := m.client.Err(); !errors.Is(err, ErrForeign) {
		t.Error(err)
	}
	m.cut()
	testutil.OK(t, c.Drain(t.Context()))
	if c.Late() != 0 {
		t.Errorf("%d late results", c.Late())
	}
	s := c.Join(subject.Agent{Name: "n"}, noAgent{})
	if err := errors.Join(s.takeResult(agent.SeatResult{Key: samples.Key{Trial: "a"}}), s.takeResult(agent.SeatResult{Key: samples.Key{Trial: "b"}})); !errors.Is(err, ErrForeign) {
		t.Errorf("two results at a time: %v", err)
	}
}

// A result that comes again before its trial is stored is late only if the trial lacks it: the
// connection ended after it had come, or before.
func TestResultOfThePresentTrial(t *testing.T) {
	with := measurement.Trial{ID: trial, Outcome: measurement.Outcome{Pairs: []measurement.Pair{{Source: "other"}, {Source: "m"}}}}
	without := measurement.Trial{ID: trial, Outcome: measurement.Outcome{Pairs: []measurement.Pair{{Source: "other"}, {Source: "m", Error: "gone"}}}}
	for name, stored := range map[string]*measurement.Trial{"in it": &with, "not in it": &without, "another attempt begins": nil} {
		d := newDisk(t)
		m, c := joined(t, d, Options{})
		m.cut()
		m.finish(m.key)
		for range 2 { // and again
			m.connect(c)
			for !c.holds(m.sender) {
				m.poke()
			}
			<-c.next()
			testutil.OK(t, c.Drain(t.Context()))
			if n := len(m.box.Results()); n != 1 || c.Late() != 0 {
				t.Errorf("%s: the agent has %d results, and %d are late", name, n, c.Late())
			}
			m.cut()
		}
		m.connect(c)
		want := 1
		if stored == nil {
			_, err := c.Begin(t.Context(), trial, []subject.Agent{{Name: "other"}, m.who})
			testutil.OK(t, err)
		} else {
			testutil.OK(t, d.Put(t.Context(), *stored))
			c.Stored(trial)
		}
		if stored == &with {
			want = 0
		}
		for len(m.box.Results()) > 0 {
			m.poke()
		}
		testutil.OK(t, c.Drain(t.Context()))
		if got := lateOf(t, d); len(got) != want || c.Late() != want {
			t.Errorf("%s: late are %v, and %d are said", name, got, c.Late())
		}
	}
}

// holds says whether a result of a connection is there.
func (c *Collector) holds(s *Sender) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.results, func(r result) bool { return r.from == s })
}

// noAgent is a connection over which nothing comes.
type noAgent struct{}

func (noAgent) TakeSamples(func(samples.Block, bool) error) {}
func (noAgent) TakeResults(func(agent.SeatResult) error)    {}
func (noAgent) SayKept(agent.Kept) error                    { return nil }
func (noAgent) SaySettled(samples.Key) error                { return nil }
func (noAgent) Refuse(error)                                {}
