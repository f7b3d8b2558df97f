package event

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// readAll reads a stream to its end, and counts what was lost.
func readAll(t *testing.T, r *Reader) (events []Event, lost int64) {
	t.Helper()
	for {
		more, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return events, lost
		}
		testutil.OK(t, err)
		for _, e := range more {
			if e.Code == Lost {
				lost += e.LostEvents
			} else {
				events = append(events, e)
			}
		}
	}
}

// Everybody gets every event once and in order, or is told how many are missing.
func TestEveryReaderKnowsWhatItLost(t *testing.T) {
	const published, readers = 1000, 100
	s := newStream(64)
	var all sync.WaitGroup
	for i := range readers {
		r := s.Follow()
		all.Go(func() {
			var next int64 = 1
			for {
				events, err := r.Next(t.Context())
				if errors.Is(err, io.EOF) {
					break
				}
				for _, e := range events {
					if e.Code == Lost {
						next += e.LostEvents
						continue
					}
					if e.Number != next || e.Block != int(next) {
						t.Errorf("reader %d: event %d of block %d, want %d", i, e.Number, e.Block, next)
						return
					}
					next++
				}
			}
			if next != published+1 {
				t.Errorf("reader %d knows of %d events of %d", i, next-1, published)
			}
		})
	}
	never := s.Follow() // reads nothing until all is over
	for i := range published {
		s.Publish(Event{Code: BlockStarted, Block: i + 1})
	}
	s.Close()
	all.Wait()
	events, lost := readAll(t, never)
	if len(events) != 64 || lost != published-64 {
		t.Errorf("who never read got %d events and lost %d", len(events), lost)
	}
	events, lost = readAll(t, s.Read(published-3))
	if len(events) != 3 || lost != 0 || events[0].Number != published-2 {
		t.Errorf("who comes back got %d events, lost %d", len(events), lost)
	}
	// A number of another stream is none of this one.
	if events, lost = readAll(t, s.Read(1<<60)); len(events) != 0 || lost != 0 {
		t.Errorf("got %d events, lost %d", len(events), lost)
	}
	s.Publish(Event{Code: Note})
	if s.State().Number != published {
		t.Error("something was published after the end")
	}
}

// What is kept is bounded also where a second has thousands of pairs.
func TestManyPairsAreBounded(t *testing.T) {
	s := NewStream()
	second := &Second{Pairs: make([]PairSecond, 10_000)}
	for range 100 {
		s.Publish(Event{Code: Measured, Second: second})
	}
	s.Close()
	if s.weight > mostWeight {
		t.Errorf("%d events and pairs are kept", s.weight)
	}
	if _, lost := readAll(t, s.Read(0)); lost == 0 {
		t.Error("nothing was let go")
	}
}

func TestReaderIsInterrupted(t *testing.T) {
	s := NewStream()
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Read(0).Next(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Who comes late knows where the run is.
func TestState(t *testing.T) {
	s := NewStream()
	defer s.Close()
	publish := func(e Event) { s.Publish(e) }
	trial := &PlannedTrial{ID: "b01-a-x", Block: 1, Path: "a", Test: "x", Kind: measurement.TCP}
	publish(Event{Code: RunStarted, Run: &RunStart{Name: "earlier"}})
	publish(Event{Code: TrialEnded, Trial: trial, Ended: &TrialEnd{Gate: measurement.Gate{Passed: true}}})
	publish(Event{Code: RunEnded, End: &RunEnd{}})
	publish(Event{Code: RunStarted, Run: &RunStart{Name: "now"}, Planned: 4})
	publish(Event{Code: BlockStarted, Block: 1, Planned: 4})
	publish(Event{Code: TrialStarted, Trial: trial, Planned: 4})
	publish(Event{Code: Measured, Trial: trial, Second: &Second{At: 1, Throughput: new(1e9)}, Hops: []HopTotals{{Name: "box"}}, Planned: 4})
	before := s.State()
	if before.Trial != trial || before.Second.Rate() != 1e9 || len(before.Hops) != 1 || before.Planned != 4 || before.End != nil || len(before.Cells) != 0 {
		t.Errorf("%+v", before)
	}
	for _, gate := range []measurement.Gate{{Passed: true}, {Broken: true}, {}} {
		publish(Event{Code: TrialEnded, Trial: trial, Ended: &TrialEnd{Gate: gate, Stored: 0.5}, Done: 1, Planned: 4})
	}
	publish(Event{Code: Fault})
	now := s.State()
	tally := now.Cells[Cell{"a", "x"}]
	for _, state := range TrialStates() {
		if tally.Trials[state] != 1 {
			t.Errorf("%d trials are %s", tally.Trials[state], state)
		}
	}
	if now.Run.Name != "now" || now.Trial != nil || now.Second != nil || now.Stored != 0.5 || now.Faults != 1 || tally.Last == nil || len(before.Cells) != 0 {
		t.Errorf("%+v", now)
	}
	// Of machines that join one after the other the log has the last.
	logged := len(now.Log)
	for machines := 1; machines <= 500; machines++ {
		publish(Event{Code: Joined, Fleet: &Fleet{Machines: machines}})
	}
	publish(Event{Code: Left, Fleet: &Fleet{Machines: 499}})
	publish(Event{Code: Left, Fleet: &Fleet{Machines: 498, Seats: Seats{Lost: 1}}})
	publish(Event{Code: StoreLag, Lag: &Lag{Coarsened: 4, Dropped: 5}})
	now = s.State()
	if now.Fleet.Machines != 498 || now.Fleet.Seats.Lost != 1 || len(now.Log) != logged+4 || now.Coarsened != 4 || now.Dropped != 5 || now.Lag != nil {
		t.Errorf("%+v", now)
	}
	if now.Events[Joined] != 500 || now.Events[RunStarted] != 2 || now.Events[Lost] != 0 {
		t.Errorf("counted %v", now.Events)
	}
	for range 2 * mostLogged {
		publish(Event{Code: Note})
	}
	if n := len(s.State().Log); n != mostLogged {
		t.Errorf("the log has %d events", n)
	}
}
