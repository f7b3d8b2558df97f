package event

import (
	"maps"
	"slices"

	"github.com/hopbench/hopbench/internal/measurement"
)

// State is where a run is: what somebody has to know who comes late. It is of the last
// run that began.
type State struct {
	// Number of the last event.
	Number  int64
	Run     *RunStart // nil before
	Block   int       // 0 before
	Done    int
	Planned int
	Left    measurement.Seconds
	// Trial is under way, and did Second last; nil between trials.
	Trial  *PlannedTrial
	Second *Second
	// Hops are those of the trial under way, or of the last one.
	Hops []HopTotals
	// Clocks is of the last trial that had one.
	Clocks *ClockSpread
	// Stored is how long it took to store the last trial.
	Stored measurement.Seconds
	// Lag is what waits for the disk, nil where nothing is late.
	Lag *Lag
	// Coarsened and Dropped are those of the last Lag.
	Coarsened, Dropped int64
	// Fleet is how machines and seats stand, nil without any.
	Fleet  *Fleet
	Faults int
	// Events are how many there were of each code, over all runs.
	Events map[Code]int64
	End    *RunEnd // nil before
	// Log has the last events that people read, oldest first.
	Log []Event
	// Cells are the tests on the paths of which trials ended in this session.
	Cells map[Cell]Tally
}

// Cell is a test on a path.
type Cell struct{ Path, Test string }

// Tally is what the trials of a cell came to.
type Tally struct {
	Trials map[TrialState]int
	Kind   measurement.Kind
	// Last is the last that passed, nil before there is one.
	Last *TrialEnd
}

// mostLogged bounds the log.
const mostLogged = 200

func newState() State { return State{Cells: map[Cell]Tally{}, Events: map[Code]int64{}} }

// apply takes an event into account.
func (s *State) apply(e Event) {
	if e.Code == RunStarted {
		log, events := s.Log, s.Events
		*s = newState()
		s.Run, s.Log, s.Events = e.Run, log, events
	}
	s.Events[e.Code]++
	s.Number, s.Done, s.Planned, s.Left = e.Number, e.Done, e.Planned, e.Left
	if e.Hops != nil {
		s.Hops = e.Hops
	}
	again := false // the same as in the log
	switch e.Code {
	case StoreLag:
		again = s.Lag != nil && e.Lag.Behind > 0
		s.Coarsened, s.Dropped = e.Lag.Coarsened, e.Lag.Dropped
		if s.Lag = e.Lag; e.Lag.Behind == 0 {
			s.Lag = nil
		}
	case Joined, Left, Queued, Leased, Vacated:
		s.Fleet = e.Fleet
		// Of thousands that come one after the other the log has the last.
		if n := len(s.Log); n > 0 && s.Log[n-1].Code == e.Code && (e.Code == Joined || e.Code == Queued || e.Code == Leased) {
			s.Log = s.Log[:n-1]
		}
	case BlockStarted:
		s.Block = e.Block
	case TrialStarted:
		s.Trial, s.Second, s.Hops = e.Trial, nil, nil
	case Measured:
		s.Second = e.Second
	case TrialEnded:
		s.Trial, s.Second, s.Stored = nil, nil, e.Ended.Stored
		s.count(*e.Trial, e.Ended)
	case Spread:
		s.Clocks = e.Clocks
	case Fault:
		s.Trial, s.Second = nil, nil
		s.Faults++
	case RunEnded:
		s.Trial, s.Second, s.End = nil, nil, e.End
	}
	if e.Code != Measured && e.Code != TrialStarted && !again {
		if s.Log = append(s.Log, e); len(s.Log) > mostLogged {
			s.Log = s.Log[1:]
		}
	}
}

func (s *State) count(t PlannedTrial, end *TrialEnd) {
	c := Cell{t.Path, t.Test}
	tally := s.Cells[c]
	trials := maps.Clone(tally.Trials) // who read the state before keeps what it has
	if trials == nil {
		trials = map[TrialState]int{}
	}
	trials[end.State()]++
	tally.Trials, tally.Kind = trials, t.Kind
	if end.State() == Passed {
		tally.Last = end
	}
	s.Cells[c] = tally
}

func (s *State) clone() State {
	c := *s
	c.Log, c.Cells, c.Events = slices.Clone(s.Log), maps.Clone(s.Cells), maps.Clone(s.Events)
	return c
}
