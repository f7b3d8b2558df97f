// Package kind says, as data, what each kind of test is (kinds.go), which options it
// takes and within what bounds (options.go). The loader of experiment files, the flags
// of the command line, the JSON Schema, the checks at both ends of a test, shell
// completion and docs/options.md are loops over these tables. How a kind is measured
// is package probe's.
package kind

import (
	"math"

	"github.com/hopbench/hopbench/internal/measurement"
)

// Kind is a kind of test.
type Kind struct {
	Name measurement.Kind
	// Doc is what it measures, in one line.
	Doc string
	// Title is what a test is called, empty for the number of its flows. Flow is what one
	// of several flows is called, empty for "flow", and Several what follows their number.
	Title, Flow, Several string

	// NoServer says that the other end need not run hopbench serve.
	NoServer bool
	// Fills says that a test fills the path for its duration, which the command
	// line can set for all tests of a run.
	Fills bool
	// Attributed says that the time of its TCP flows is divided among what may limit them
	// (package cause).
	Attributed bool
	// OneServer says that all connections of a test belong to one server.
	OneServer bool
	// Implied says that flags alone can choose this kind; the first of All that
	// takes all flags is meant, as for iperf3.
	Implied bool
	// Datagrams says that it measures UDP, whatever its protocol.
	Datagrams bool
	// FlowRTTs says that of several pairs each has the RTT of its flows.
	FlowRTTs bool

	// Latencies are the distributions that a test brings back. Each is judged.
	Latencies []Latency
	// Gates are the other judgements of what it brings back.
	Gates []Gate
	// Figures are the metrics of the line of figures that stands for a test.
	Figures []string
	// Details are the few metrics without which the primary one does not answer its
	// question; of a test of both directions, BothWays if there are any. The rest
	// stand in result.json and trials.csv.
	Details, BothWays []string
	// Watched are the metrics whose level a watch follows.
	Watched []string
	// SharesOf is the metric of how many packets or connections a second the shares of a
	// trial are of, such as that of those lost; empty for its round trips.
	SharesOf string
	// tracked is how many flows a hop that tracks connections sees of a test of so many, where
	// it is not each of them: over UDP each of what it sends is two.
	tracked func(flows, each int) int
	// check compares the values of a complete spec with each other.
	check func(measurement.Spec, *Problems)
}

// Latency is a distribution that a test brings back.
type Latency struct {
	// Label is what it is of, for an axis. Part is the part of the test in which it was
	// taken, empty for all of it.
	Label, Part string
	// Idle says that this is the part before a load.
	Idle bool
	// Metrics is what the names of its metrics begin with: those of a round trip have
	// "rtt" instead.
	Metrics string
}

// Of is the distribution that an outcome has, nil for none.
func (l Latency) Of(o measurement.Outcome) *measurement.Distribution {
	if l.Idle {
		return o.IdleLatency
	}
	return o.Latency
}

// FewestRoundTrips is how many a median is taken of at least.
const FewestRoundTrips = 10

// Asked is how many round trips a test asks for. How many are due by a clock is the test's;
// where each answer releases the next request, it is the path's, and there is no end to them.
func (l Latency) Asked(s measurement.Spec) float64 {
	switch {
	case s.Count > 0:
		return float64(s.Count)
	case s.RequestsPerSecond > 0 && l.Idle:
		return s.RequestsPerSecond * float64(s.IdleDuration)
	case s.RequestsPerSecond > 0:
		return s.RequestsPerSecond * float64(s.Duration)
	}
	return math.Inf(1)
}

// Gate is a judgement of a metric.
type Gate struct {
	Judge  Judge
	Metric string
}

// Judge is a way to judge a trial. Package gate has the code of each.
type Judge int

// The judges.
const (
	JudgeFlows       Judge = iota // TCP flows, whose rate all together is the metric
	JudgePackets                  // datagrams, of which as many arrived a second
	JudgeConnections              // new connections, of which as many failed
	JudgeTransfer                 // a file, which took the time
)

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

// TimesAnswers says that a test takes the time of answers without load: what else wakes the
// CPUs is in what it measures.
func (k Kind) TimesAnswers() bool { return len(k.Latencies) > 0 && !k.Fills }

// Defaults is the spec of a test of which nothing is said.
func (k Kind) Defaults() measurement.Spec { return measurement.Spec{Kind: k.Name}.Defaults() }
