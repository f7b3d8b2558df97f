package result

import (
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
)

// IndexFormat is the version of index.json, which `hopbench run all` writes.
const IndexFormat = "hopbench.index/2"

// Index is several experiments that were run one after the other.
type Index struct {
	Format  string    `json:"format"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"` // so far
	Seed    uint64    `json:"seed"`  // of each run
	// Quick, Full, Blocks and Duration are what was asked for, 0 the
	// experiment's own.
	Quick    bool                `json:"quick,omitempty"`
	Full     bool                `json:"full,omitempty"`
	Blocks   int                 `json:"blocks,omitempty"`
	Duration measurement.Seconds `json:"duration_seconds,omitempty"`
	Explain  bool                `json:"explain,omitempty"`
	// Matters are the command line's margins, by metric.
	Matters map[string]measurement.Margin `json:"matters,omitempty"`
	Entries []IndexEntry                  `json:"experiments"`
}

// EntryState is how far an experiment of an Index came.
type EntryState string

// The states.
const (
	EntryDone    EntryState = "done"
	EntryStopped EntryState = "stopped" // by the user, in the middle
	EntryFailed  EntryState = "failed"
	EntryNotRun  EntryState = "not-run"
)

// IndexEntry is one experiment of an Index.
type IndexEntry struct {
	Name   string     `json:"name"`
	Title  string     `json:"title,omitempty"`
	Folder string     `json:"folder"` // below that of the index
	State  EntryState `json:"state"`
	// Reason is why it stopped or failed.
	Reason  string              `json:"reason,omitempty"`
	Elapsed measurement.Seconds `json:"elapsed_seconds"`
	// Trials is how many are stored, 0 where there is no report to show.
	Trials   int     `json:"trials"`
	Planned  int     `json:"planned_trials"`
	Excluded int     `json:"excluded_trials"`
	Broken   int     `json:"broken_trials,omitempty"`
	Scale    float64 `json:"scale,omitempty"`
	// Paths and Tests are those of the run, with their titles; Costs are its
	// primary ones, in the order of a report.
	Paths     []Title               `json:"paths,omitempty"`
	Tests     []Title               `json:"tests,omitempty"`
	Costs     []Effect              `json:"costs,omitempty"`
	Published []PublishedComparison `json:"published,omitempty"`
}

// Count is how many experiments came to a state.
func (x *Index) Count(state EntryState) int {
	n := 0
	for _, e := range x.Entries {
		if e.State == state {
			n++
		}
	}
	return n
}
