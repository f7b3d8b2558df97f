// Package kind says, as data, which kinds of test there are, which options each
// takes, within what bounds, and what it brings back. The loader of experiment
// files, the flags of the command line, the JSON Schema, the checks at both ends
// of a test, shell completion and docs/options.md are loops over these tables.
// How a kind is measured is package probe's.
package kind

import "github.com/hopbench/hopbench/internal/measurement"

// Kind is a kind of test.
type Kind struct {
	Name measurement.Kind
	// Doc is what it measures, in one line.
	Doc string
	// NoServer says that the other end need not run hopbench serve.
	NoServer bool
	// Fills says that a test fills the path for its duration, which the command
	// line can set for all tests of a run.
	Fills bool
	// Streams says that its payload is that of TCP connections whose window and
	// congestion control an experiment's endpoints decide.
	Streams bool
	// Implied says that flags alone can choose this kind; the first of All that
	// takes all flags is meant, as for iperf3.
	Implied bool
	// Datagrams says that it measures UDP, whatever its protocol.
	Datagrams bool
	// check compares the values of a complete spec with each other.
	check func(measurement.Spec, *Problems)
}

// All lists the kinds, in the order in which documents name them and flags are
// tried on them.
func All() []Kind { return kinds }

// Of is the descriptor of a kind; false when there is no such kind.
func Of(name measurement.Kind) (Kind, bool) {
	for _, k := range kinds {
		if k.Name == name {
			return k, true
		}
	}
	return Kind{}, false
}

// OverUDP says that the two ends of a test send each other packets of UDP.
func OverUDP(s measurement.Spec) bool {
	k, _ := Of(s.Kind)
	return k.Datagrams || s.Protocol == measurement.OverUDP && !k.NoServer
}

// Defaults is the spec of a test of which nothing is said.
func (k Kind) Defaults() measurement.Spec { return measurement.Spec{Kind: k.Name}.Defaults() }
