// Package event is the stream of what a run does: one number, moment and code an
// event, published by whoever carries the run out, read by every view of it. Nobody
// who publishes ever waits for a reader: one that does not keep up loses the oldest
// events, and is told how many.
//
// docs/data-format.md documents every field of an Event.
package event

import (
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
)

// Format is that of a file of events, one JSON document a line.
const Format = "hopbench.events/1"

// Code says what an event is about.
type Code string

// The codes.
const (
	RunStarted   Code = "run-started"
	BlockStarted Code = "block-started"
	TrialStarted Code = "trial-started"
	// Switched is that commands or the lab have brought another path into force.
	Switched Code = "path-switched"
	// Measured is a second of the trial under way.
	Measured   Code = "second"
	TrialEnded Code = "trial-ended"
	// Spread is how the clocks and the starts of the trial that ended stood.
	Spread Code = "clock-spread"
	// Queued is how many seats of the fleet wait for a client.
	Queued Code = "seats-waiting"
	// StoreLag is that samples of a fleet wait for the disk, or do not any more, or that
	// machines gave some up.
	StoreLag Code = "store-lag"
	// Joined and Left are of a machine of the fleet; Leased is that a client has got a seat,
	// Vacated that nobody has it any more.
	Joined  Code = "machine-joined"
	Left    Code = "machine-left"
	Leased  Code = "seat-leased"
	Vacated Code = "seat-lost"
	// Fault is that the testbed broke, and was built again.
	Fault Code = "fault"
	// Note is a sentence on the run, Warning one that its user can do something about.
	Note     Code = "note"
	Warning  Code = "warning"
	RunEnded Code = "run-ended"
	// Lost stands, for one reader, for events that it did not get.
	Lost Code = "lost"
)

// Codes are all of them.
func Codes() []Code {
	return []Code{RunStarted, BlockStarted, TrialStarted, Switched, Measured, TrialEnded, Spread, StoreLag, Joined, Left, Queued, Leased, Vacated, Fault, Note, Warning, RunEnded, Lost}
}

// Event is a step of a run. What it holds is never changed once it is published.
type Event struct {
	// Format is that of the stream, in the event that begins a run.
	Format string `json:"format,omitempty"`
	// Number counts the events of a stream from 1. That of Lost is the last that was
	// lost.
	Number int64     `json:"number"`
	Time   time.Time `json:"time"`
	Code   Code      `json:"code"`
	// Done of Planned trials are stored, and Left is about how long the rest takes.
	Done    int                 `json:"trials_done"`
	Planned int                 `json:"trials_planned"`
	Left    measurement.Seconds `json:"left_seconds"`
	// Block is that of BlockStarted, counted from 1.
	Block int `json:"block,omitempty"`
	// Text is a sentence, of Note, Warning and Fault; of Left and Vacated it is why.
	Text string `json:"text,omitempty"`
	// LostEvents is how many this reader lost, of Lost.
	LostEvents int64 `json:"lost_events,omitempty"`

	Run *RunStart `json:"run,omitempty"` // of RunStarted
	// Trial is the one that an event is about: of TrialStarted, Switched, Measured,
	// TrialEnded and Spread.
	Trial  *PlannedTrial           `json:"trial,omitempty"`
	Switch *measurement.PathSwitch `json:"switch,omitempty"` // of Switched by commands
	Second *Second                 `json:"second,omitempty"` // of Measured
	Hops   []HopTotals             `json:"hops,omitempty"`   // of Measured and TrialEnded, where a testbed reads them
	Ended  *TrialEnd               `json:"ended,omitempty"`  // of TrialEnded
	Clocks *ClockSpread            `json:"clocks,omitempty"` // of Spread
	Lag    *Lag                    `json:"lag,omitempty"`    // of StoreLag
	Fleet  *Fleet                  `json:"fleet,omitempty"`  // of Joined, Left, Queued, Leased and Vacated
	End    *RunEnd                 `json:"end,omitempty"`    // of RunEnded
}

// RunStart is a run that begins, or goes on.
type RunStart struct {
	Name  string `json:"name"`
	Title string `json:"title,omitempty"`
	// Folder of the run, none of one that is not kept.
	Folder string `json:"folder,omitempty"`
	Blocks int    `json:"blocks"`
	// TwoStage says that all tests of a block are done on one path before the next.
	TwoStage bool                `json:"two_stage,omitempty"`
	Expected measurement.Seconds `json:"expected_seconds"`
	Paths    []string            `json:"paths"`
	Tests    []string            `json:"tests"`
}

// PlannedTrial is a trial of the plan.
type PlannedTrial struct {
	ID string `json:"id"`
	// Block is counted from 1, 0 of a trial that only explains.
	Block    int                 `json:"block"`
	Path     string              `json:"path"`
	Test     string              `json:"test"`
	Kind     measurement.Kind    `json:"kind"`
	Expected measurement.Seconds `json:"expected_seconds"`
}

// Second is what a trial did since the Second before: signs of life of the near ends,
// not results. What a test does not have is absent; a throughput of 0 is a standstill.
type Second struct {
	// At is the end of it, since the test began.
	At         measurement.Seconds `json:"at_seconds"`
	Throughput *float64            `json:"throughput_bits_per_second,omitempty"`
	RTT        measurement.Seconds `json:"rtt_seconds,omitempty"`
	// Pairs are those of a path that has several.
	Pairs []PairSecond `json:"pairs,omitempty"`
}

// Rate is the throughput in bits per second, 0 where there is none.
func (s Second) Rate() float64 { return known(s.Throughput) }

// Running is how many pairs moved something: bytes where any did, or else round trips.
func (s Second) Running() (n int) {
	for _, p := range s.Pairs {
		if p.Rate() > 0 || s.Rate() == 0 && p.RTT > 0 {
			n++
		}
	}
	return n
}

func known(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

// PairSecond is the part of one pair of ends.
type PairSecond struct {
	Source      string              `json:"source"`
	Destination string              `json:"destination"`
	Throughput  *float64            `json:"throughput_bits_per_second,omitempty"`
	RTT         measurement.Seconds `json:"rtt_seconds,omitempty"`
}

// Rate is the throughput in bits per second, 0 where there is none.
func (p PairSecond) Rate() float64 { return known(p.Throughput) }

// HopTotals are a hop's counters since the trial began, as far as they were read last.
type HopTotals struct {
	Name     string `json:"name"`
	Instance int    `json:"instance,omitempty"`
	// Counted has the counters. While the trial goes on its At is that of the Second.
	Counted measurement.HopSample `json:"counted"`
}

// TrialEnd is a trial that is stored.
type TrialEnd struct {
	Elapsed measurement.Seconds `json:"elapsed_seconds"`
	Gate    measurement.Gate    `json:"gate"`
	Metrics measurement.Metrics `json:"metrics"`
	// Stored is how long it took to store it.
	Stored measurement.Seconds `json:"stored_seconds"`
}

// TrialState is what a trial that ended is to the result, in the words of its gate.
type TrialState string

// The states.
const (
	Passed  TrialState = "passed"
	Broken  TrialState = "broken"  // its path failed
	Missing TrialState = "missing" // it does not count
)

// TrialStates are all of them.
func TrialStates() []TrialState { return []TrialState{Passed, Broken, Missing} }

// State is that of the trial.
func (t TrialEnd) State() TrialState {
	switch {
	case t.Gate.Passed:
		return Passed
	case t.Gate.Broken:
		return Broken
	}
	return Missing
}

// ClockSpread is how far apart pairs began, and how the clocks of the ends stood.
type ClockSpread struct {
	// Start is how far apart the pairs of a trial began, beyond what was planned.
	Start measurement.Seconds `json:"start_spread_seconds,omitempty"`
	// Offset is by how much the clock of an end was furthest from the coordinator's,
	// Uncertainty the greatest of any end.
	Offset      measurement.Seconds `json:"clock_offset_seconds,omitempty"`
	Uncertainty measurement.Seconds `json:"clock_uncertainty_seconds,omitempty"`
}

// Lag is the part of the samples of a fleet that waits for the coordinator's disk.
type Lag struct {
	// Behind is how long the oldest waits, 0 once none is late.
	Behind measurement.Seconds `json:"behind_seconds"`
	Blocks int                 `json:"blocks"`
	Bytes  int                 `json:"bytes"`
	// Error is why the disk did not take them, none where it is only slow.
	Error string `json:"error,omitempty"`
	// Coarsened is how many blocks machines made coarser because they could not send them,
	// Dropped how many samples they gave up, in this session.
	Coarsened int64 `json:"coarsened_blocks,omitempty"`
	Dropped   int64 `json:"dropped_samples,omitempty"`
}

// Fleet is what happened to a machine or a seat, and how all stand since.
type Fleet struct {
	Machine string `json:"machine,omitempty"` // of Joined and Left
	// Seat is counted from 1, of Leased and Vacated. Client has or had it, at Server.
	Seat   int    `json:"seat,omitempty"`
	Client string `json:"client,omitempty"`
	Server string `json:"server,omitempty"`
	// Machines are there.
	Machines int   `json:"machines"`
	Seats    Seats `json:"seats"`
}

// Seats are how many seats of a fleet there are in each state.
type Seats struct {
	// Waiting are in the queue, for a client.
	Waiting int `json:"waiting"`
	// Leased have a client, which is there.
	Leased int `json:"leased"`
	// Lost are those whose client or server is gone.
	Lost int `json:"lost"`
}

// RunEnd is how a run ended.
type RunEnd struct {
	Elapsed measurement.Seconds `json:"elapsed_seconds"`
	// Complete says that every planned trial is stored.
	Complete bool `json:"complete"`
	// Why it ended early, none if it did not.
	Why string `json:"why,omitempty"`
}
