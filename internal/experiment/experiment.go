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
	Pairs     int
	Baseline  string // name of the path that the others are compared with
	Blocks    int
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
	// SameAs names the path whose addresses, hops and tunnel this one shares,
	// empty for a path of its own. Hops and Tunnel are that path's.
	SameAs string
	// Off are the names of hops that are switched off: traffic passes them by.
	Off []string
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
	case t.Type == VXLAN:
		return fmt.Sprintf("vxlan id %d, UDP port %d, MTU %d", t.ID, t.Port, t.MTU)
	}
	return fmt.Sprintf("%s, UDP port %d, MTU %d", t.Type, t.Port, t.MTU)
}

// HopType names a kind of hop.
type HopType string

// The hop types.
const (
	Cable        HopType = "cable"        // a wire with delay, jitter, loss, rate
	Router       HopType = "router"       // an IP forwarding node
	Firewall     HopType = "firewall"     // a stateful packet filter, of one or several instances
	IDPS         HopType = "idps"         // inspects payloads against rules
	NAT          HopType = "nat"          // translates addresses
	LoadBalancer HopType = "loadbalancer" // spreads flows over back ends
	Gateway      HopType = "gateway"      // a router that never answers, with a limit of flows
)

// HopTypes lists every type of hop.
func HopTypes() []HopType {
	return []HopType{Cable, Router, Firewall, IDPS, NAT, LoadBalancer, Gateway}
}

// Hop is one element of a path. Impairments act in each direction. Those of a
// cable act on the link that it is, those of any other hop on the link that
// leaves it towards the destination (and on the way back on the same link).
type Hop struct {
	Type HopType
	Name string
	Impairment
	// MTU of the link in bytes, 0 for Ethernet's.
	MTU int
	// Silent hops never answer with ICMP.
	Silent bool
	// OneWay hops are passed by on the way back.
	OneWay bool
	// AccountCPU times the kernel's work on packets in the hop.
	AccountCPU bool

	Rules     int       // of a firewall
	Instances int       // of a firewall; Impairment acts on each
	ScaleOut  *ScaleOut // of a firewall, nil for none

	Mode IDPSMode
	// InspectRateBitsPerSecond is the rate of an idps while it inspects, 0
	// unlimited.
	InspectRateBitsPerSecond float64
	RuleFile                 string // of an idps, empty for the built-in rules
	// RuleFileLine is where the experiment file names RuleFile, counted from 1.
	RuleFileLine int

	Translate  Translation // of a nat
	SilentHops int         // of a nat, itself the last of them
	Backends   int         // of a loadbalancer
	FlowLimit  int         // of a gateway, 0 for none

	// Parameters are the fields as written, for reports: {"delay": "1.13ms"}.
	Parameters map[string]string
}

// ScaleOut is how a firewall grows in the middle of a trial.
type ScaleOut struct {
	At        time.Duration // from the start of the trial's traffic
	Instances int           // from then on
}

// IDPSMode is what an idps does with a flow that matches a rule.
type IDPSMode string

// The modes of an idps.
const (
	IDPSOff   IDPSMode = "off"
	IDPSAlert IDPSMode = "alert"
	IDPSDeny  IDPSMode = "deny"
)

// Translation is which addresses a nat replaces.
type Translation string

// The translations.
const (
	TranslateSource      Translation = "source"
	TranslateDestination Translation = "destination"
	TranslateBoth        Translation = "both"
)

// Impairment is what a hop does to frames, per direction.
type Impairment struct {
	Delay             time.Duration // one way
	Jitter            time.Duration // standard deviation of a normal variation, order kept
	LossFraction      float64
	DuplicateFraction float64
	ReorderFraction   float64
	RateBitsPerSecond float64 // 0 unlimited
	// PerFlowRateBitsPerSecond is that of each flow (addresses, protocol and
	// ports), 0 unlimited.
	PerFlowRateBitsPerSecond float64
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

// Published are the figures to hold the measurement against.
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
}

// Overrides are what a command line may change of an experiment.
type Overrides struct {
	Blocks   int           // 0 leaves the file's
	Duration time.Duration // measured time of each tcp, udp, pps and load test, 0 leaves the file's
	Full     bool          // published durations
	Quick    bool          // the shortest durations
}
