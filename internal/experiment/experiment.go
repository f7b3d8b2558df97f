// Package experiment reads an experiment file into a validated Experiment and
// turns that into a Plan: every trial of every block in a random order that
// its seed fixes. It refuses what it does not understand, naming file, line
// and column, all errors at once. It touches neither network nor clock.
package experiment

import (
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
)

// Format is the version of experiment files.
const Format = "hopbench.experiment/1"

// Experiment is a validated experiment file. Rates and byte counts are those
// of the published setting; Scaled divides them for a scaled-down testbed.
type Experiment struct {
	Name        string
	Title       string
	Description string
	// Scale is how many times smaller than the published setting the testbed
	// is: "1:10" in the file is 10 here, 1 when the file says nothing.
	Scale       float64
	Endpoints   []Endpoint
	Source      string // name of the endpoint that paths start at
	Destination string
	Baseline    string // name of the path that the others are compared with
	Blocks      int
	Paths       []Path
	Tests       []Test
	Published   *Published
	// Model says how the hops' parameters were derived, for the report.
	Model string
	// File is where it was read from, Text its bytes.
	File string
	Text string

	// scaled says that Scale was applied already.
	scaled bool
}

// Endpoint is a host at an end of every path.
type Endpoint struct {
	Name string
	// Egress is the metered rate of all that the endpoint sends, 0 unmetered.
	EgressBitsPerSecond float64
	// ReceiveWindowBytes clamps what the endpoint advertises per flow, 0 no clamp.
	ReceiveWindowBytes int64
	// CongestionControl of its flows, empty for the lab's default (cubic).
	CongestionControl string
}

// Path is a named, ordered list of hops from source to destination.
type Path struct {
	Name  string
	Title string
	Hops  []Hop
}

// HopType names a kind of hop.
type HopType string

// The hop types.
const (
	Cable  HopType = "cable"  // a wire with delay, jitter, loss, rate
	Router HopType = "router" // an IP forwarding node
)

// Hop is one element of a path. Impairments act in each direction. A router's
// impairments act on the link that leaves it towards the destination (and on
// the way back on the same link), a cable's on the link that it is.
type Hop struct {
	Type HopType
	Name string
	Impairment
	// Parameters are the fields as written, for reports: {"delay": "1.13ms"}.
	Parameters map[string]string
}

// Impairment is what a hop does to frames, per direction.
type Impairment struct {
	Delay             time.Duration // one way
	Jitter            time.Duration // standard deviation of a normal variation, order kept
	LossFraction      float64
	DuplicateFraction float64
	ReorderFraction   float64
	RateBitsPerSecond float64 // 0 unlimited
}

// Test is a named measurement that every path gets in every block.
type Test struct {
	Name  string
	Title string
	Spec  measurement.Spec
	// Full is the same test with the published durations, for --full.
	Full measurement.Spec
}

// Published are the figures to hold the measurement against.
type Published struct {
	Source  string
	Figures []measurement.Figure
	// Open is what the published study left open.
	Open []string
}

// Plan is every trial of a run in its order.
type Plan struct {
	Seed   uint64
	Trials []PlannedTrial
}

// PlannedTrial is one trial to be done.
type PlannedTrial struct {
	ID    string // "b03-one-appliance-flows-10"
	Block int    // counted from 1
	Order int    // counted from 1
	Path  string
	Test  string
	Spec  measurement.Spec
}

// Overrides are what a command line may change of an experiment.
type Overrides struct {
	Blocks   int           // 0 leaves the file's
	Duration time.Duration // measured time of each tcp, udp, pps and load test, 0 leaves the file's
	Full     bool          // published durations
}
