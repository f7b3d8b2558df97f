package result

import (
	"encoding/json"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
)

// NoteCode says what a Note is about.
type NoteCode string

// The codes. Their parameters are the fields of Note that docs/data-format.md
// lists for each.
const (
	NoteText             NoteCode = "text"                // a person's or another layer's own words
	NoteNotFinite        NoteCode = "not_finite"          // values that were NaN or infinite are left out
	NoteExcludedTrials   NoteCode = "excluded_trials"     // by gates
	NoteBrokenTrials     NoteCode = "broken_trials"       // by their paths
	NoteRepeatedTrials   NoteCode = "repeated_trials"     // of a cell in one block
	NoteForeignTrials    NoteCode = "foreign_trials"      // of no path or test of the experiment
	NoteNoBaseline       NoteCode = "no_baseline"         // so no costs
	NoteTwoBaselines     NoteCode = "two_baselines"       // likewise
	NoteLostBlocks       NoteCode = "lost_blocks"         // a primary cost has fewer pairs than blocks
	NoteTooFewBlocks     NoteCode = "too_few_blocks"      // for any effect to be beyond chance
	NoteTooFewTrials     NoteCode = "too_few_trials"      // likewise, of two runs
	NoteDrift            NoteCode = "drift"               // an effect changed during the run
	NoteDriftTested      NoteCode = "drift_tested"        // how many were tested for it
	NoteResumedDiffers   NoteCode = "resumed_differs"     // in its environment
	NoteRunsDiffer       NoteCode = "runs_differ"         // in something else than what is compared
	NoteScalesDiffer     NoteCode = "scales_differ"       // of two runs
	NoteTestsDiffer      NoteCode = "tests_differ"        // in their settings
	NotePathsDiffer      NoteCode = "paths_differ"        // in their hops
	NoteRelativeMachines NoteCode = "relative_machines"   // two machines, and figures that depend on them
	NoteNoPath           NoteCode = "no_path"             // a run lacks a path of the other, or a comparison of it
	NoteNoTest           NoteCode = "no_test"             // a run lacks a test of the other
	NoteNothingToCompare NoteCode = "nothing_to_compare"  // no block of one of two runs has trials that count on all compared paths, or values of a metric
	NoteOldFormat        NoteCode = "old_format"          // a test of a run of format 1 cannot be compared
	NoteReadings         NoteCode = "readings_of_one_run" // readings in one run are one trial
	NoteRepeatedBlock    NoteCode = "repeated_block"      // torn by an interruption
	NoteFullCPUs         NoteCode = "full_cpus"           // of the ends, in some trials
	NoteInterim          NoteCode = "interim"             // a run with verdicts lacks blocks: it was stopped, or goes on
	NoteCutShort         NoteCode = "cut_short"           // likewise, one that cannot be resumed
	NoteSameHops         NoteCode = "same_hops"           // a trace sees no difference between two paths
	NoteRejudged         NoteCode = "rejudged"            // by a margin that the run was not made with
	NoteDamaged          NoteCode = "damaged"             // trials that cannot be read from the run's file
	NoteTunnelMeetsRules NoteCode = "tunnel_meets_rules"  // every packet of a tunnel meets all rules of a firewall
)

// NoteCodes lists the codes.
func NoteCodes() []NoteCode {
	return []NoteCode{NoteText, NoteNotFinite, NoteExcludedTrials, NoteBrokenTrials, NoteRepeatedTrials, NoteForeignTrials, NoteNoBaseline, NoteTwoBaselines,
		NoteLostBlocks, NoteTooFewBlocks, NoteTooFewTrials, NoteDrift, NoteDriftTested, NoteResumedDiffers, NoteRunsDiffer, NoteScalesDiffer,
		NoteTestsDiffer, NotePathsDiffer, NoteRelativeMachines, NoteNoPath, NoteNoTest, NoteNothingToCompare, NoteOldFormat, NoteReadings, NoteRepeatedBlock, NoteFullCPUs, NoteRejudged, NoteInterim, NoteCutShort, NoteSameHops, NoteDamaged, NoteTunnelMeetsRules}
}

// LeavesOut says that a note names something of the first of two runs that is not compared.
func (n Note) LeavesOut() bool {
	switch n.Code {
	case NoteNoPath, NoteNoTest, NoteNothingToCompare, NoteOldFormat:
		return true
	}
	return false
}

// Note is something that a reader must know: a code and its parameters.
type Note struct {
	Code NoteCode `json:"code"`
	Text string   `json:"text,omitempty"` // of NoteText
	// What it speaks of, by name.
	Run          string    `json:"run,omitempty"`
	ReferenceRun string    `json:"reference_run,omitempty"`
	Path         string    `json:"path,omitempty"`
	Baseline     string    `json:"baseline,omitempty"`
	Against      *Contrast `json:"against,omitempty"` // as in Effect
	Test         string    `json:"test,omitempty"`
	Metric       string    `json:"metric,omitempty"`
	// Count is how many, Of how many there are, Needed how many would do.
	Count  int `json:"count,omitempty"`
	Of     int `json:"of,omitempty"`
	Needed int `json:"needed,omitempty"`
	// ByGate counts excluded trials by the gate that excluded them; Findings are
	// the first of them.
	ByGate   map[string]int `json:"by_gate,omitempty"`
	Findings []Exclusion    `json:"findings,omitempty"`
	// Level is what a p or an autocorrelation was compared with.
	Level           float64             `json:"level,omitempty"`
	Drift           *Drift              `json:"drift,omitempty"`
	Autocorrelation *float64            `json:"autocorrelation,omitempty"` // at lag 1
	Margin          *measurement.Margin `json:"margin,omitempty"`
	Block           int                 `json:"block,omitempty"` // counted from 1
	// Stolen is the largest share of an end's CPU time that a hypervisor took.
	Stolen float64 `json:"stolen_fraction,omitempty"`
	// Name is what differs, Was and Is its values, empty where not known.
	Name           string    `json:"name,omitempty"`
	Was            string    `json:"was,omitempty"`
	Is             string    `json:"is,omitempty"`
	Scale          float64   `json:"scale,omitempty"`
	ReferenceScale float64   `json:"reference_scale,omitempty"`
	Started        time.Time `json:"started,omitzero"`
}

// Exclusion is a trial that a gate excluded.
type Exclusion struct {
	Trial   string               `json:"trial"`
	Finding *measurement.Finding `json:"finding,omitempty"` // nil where none was recorded
}

// TextNote is a note of one's own words.
func TextNote(text string) Note { return Note{Code: NoteText, Text: text} }

// UnmarshalJSON reads a note; format 1 wrote each as a sentence.
func (n *Note) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		*n = Note{Code: NoteText}
		return json.Unmarshal(data, &n.Text)
	}
	type plain Note
	return json.Unmarshal(data, (*plain)(n))
}
