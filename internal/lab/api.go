package lab

import (
	"os"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab/apply"
	"github.com/hopbench/hopbench/internal/lab/layout"
	"github.com/hopbench/hopbench/internal/lab/message"
	"github.com/hopbench/hopbench/internal/lab/topology"
)

// The types that users of a lab see. They are those of the packages below, of which
// only this one knows all.
type (
	Topology     = topology.Topology
	Node         = topology.Node
	Link         = topology.Link
	End          = topology.End
	Path         = layout.Path
	HopNode      = layout.HopNode
	Device       = layout.Device
	ReturnMeter  = layout.ReturnMeter
	ScaleOut     = layout.ScaleOut
	OuterPath    = layout.OuterPath
	Death        = message.Death
	SwitchedPath = message.SwitchedPath

	Counters          = message.Counters
	LinkCounters      = message.LinkCounters
	NodeCounters      = apply.NodeCounters
	InterfaceCounters = apply.InterfaceCounters

	// Rules are the rule files that an experiment names.
	Rules         = layout.Rules
	RuleFileError = layout.RuleFileError
)

// InitialTTL is what Linux gives packets it sends.
const InitialTTL = topology.InitialTTL

// FromExperiment lays the paths of e out as a topology.
func FromExperiment(e *experiment.Experiment) (Topology, []Path, error) {
	return layout.FromExperiment(e)
}

// RuleFiles reads and checks every rule file that e names.
func RuleFiles(e *experiment.Experiment) (Rules, error) { return layout.RuleFiles(e) }

// Options of Start. The zero value suits a topology without agents.
type Options struct {
	// NodeCommand are the arguments, after the program name, with which
	// Executable runs in nodes that have an Agent. Its control socket is file
	// descriptor 3. Required when the topology has agents.
	NodeCommand []string
	// Executable is the program that becomes supervisor, agents and link emulators; its
	// main function calls Main first. Empty is the running program itself.
	Executable string
}

// Command is a program to run in a node.
type Command struct {
	// Argv is the program and its arguments; a name without a slash is looked
	// up in the PATH of Env.
	Argv []string
	// Env is the environment, nil for that of the calling process.
	Env []string
	// Dir is the working directory, empty for that of the calling process.
	Dir string
	// Stdin, Stdout and Stderr of the program; nil is the null device.
	Stdin, Stdout, Stderr *os.File
	// Signals are passed on to the program; may be nil.
	Signals <-chan os.Signal
}

// Finding is one line of Check: something that a lab needs or can use.
type Finding struct {
	Name string
	OK   bool
	// Required marks what no lab works without.
	Required bool
	Detail   string // what was found
	Remedy   string // how to get it, when it is not OK
}
