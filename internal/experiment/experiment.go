// Package experiment reads an experiment file into a validated Experiment and
// turns that into a Plan: every trial of every block in a random order that
// its seed fixes. It refuses what it does not understand, naming file, line
// and column, all errors at once. It touches neither network nor clock.
package experiment

import (
	"fmt"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
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
	// Pairs of a source and a destination that do every test at the same time.
	Pairs    int
	Baseline string // name of the path that the others are compared with
	Blocks   int
	// TwoStage plans for paths that take long to switch between; see Plan.
	TwoStage bool
	// Rest is the pause before each trial.
	Rest time.Duration
	// Matters are the smallest effects that matter, by the full names of metrics.
	Matters map[string]measurement.Margin
	// Contrasts are the comparisons that the file asks for; see Comparisons.
	Contrasts []result.Contrast
	Paths     []Path
	Tests     []Test
	Published *Published
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
	// SoftwareSwitch puts a software switch between the endpoint and the network.
	SoftwareSwitch bool
	// NICs over which its paths are spread; they share the egress.
	NICs int
}

// Path is a named, ordered list of hops from source to destination.
type Path struct {
	Name  string
	Title string
	Hops  []Hop
	// VariantOf names the path whose addresses, hops and tunnel this one shares,
	// empty for a path of its own. Hops and Tunnel are that path's.
	VariantOf string
	// Bypass are the names of the hops that traffic of a variant bypasses.
	Bypass []string
	// Settle is how long after switching nothing is measured.
	Settle time.Duration
	// Tunnel between the endpoints over all hops, nil for none.
	Tunnel *Tunnel
	// Attachment of both endpoints to this path, nil for what each says itself:
	// true puts a software switch between.
	SoftwareSwitch *bool
}

// TunnelType names a kind of encapsulation.
type TunnelType string

// The tunnel types.
const (
	VXLAN     TunnelType = "vxlan"     // RFC 7348
	WireGuard TunnelType = "wireguard" // in the kernel
)

// Tunnel is an encapsulation between the endpoints of a path.
type Tunnel struct {
	Type TunnelType
	ID   int // VXLAN network identifier
	Port int // of UDP
	MTU  int // inside, in bytes
}

// String is the tunnel in a few words, empty for none.
func (t *Tunnel) String() string {
	switch {
	case t == nil:
		return ""
	case t.Port == 0: // of real hosts
		return string(t.Type)
	case t.Type == VXLAN:
		return fmt.Sprintf("vxlan id %d, UDP port %d, MTU %d", t.ID, t.Port, t.MTU)
	}
	return fmt.Sprintf("%s, UDP port %d, MTU %d", t.Type, t.Port, t.MTU)
}

// Test is a named measurement that every path gets in every block.
type Test struct {
	Name  string
	Title string
	Spec  measurement.Spec
	// Full is the same test with the published durations, for --full.
	Full measurement.Spec
	// Quick is the same test as short as it can be, for --quick.
	Quick measurement.Spec
}

// Published are the figures to compare the measurement with.
type Published struct {
	Source  string
	Figures []result.Figure
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
	// Rest is the pause before it.
	Rest time.Duration
}

// Trial is what is kept of it before it has brought anything.
func (p PlannedTrial) Trial() measurement.Trial {
	return measurement.Trial{ID: p.ID, Block: p.Block, Order: p.Order, Path: p.Path, Test: p.Test}
}

// Overrides are what a command line may change of an experiment.
type Overrides struct {
	Blocks   int           // 0 leaves the file's
	Duration time.Duration // measured time of each tcp, udp, pps and load test, 0 leaves the file's
	Full     bool          // published durations
	Quick    bool          // the shortest durations
	TwoStage bool          // for paths that take long to switch between
	// Matters are margins that go before those of the file.
	Matters map[string]measurement.Margin
}
