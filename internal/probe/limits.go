package probe

import (
	"time"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/sockets"
)

// cost is what the server's end of a whole test takes at most, from its spec alone.
// The spec has passed checkSpec.
func (k kind) cost(spec measurement.Spec) admission.Cost {
	n := int64(connections(spec))
	cost := admission.Cost{admission.Tests: 1, admission.Descriptors: n, admission.Bytes: testBytes + n*flowBytes}
	k.demand(spec, &cost)
	return cost
}

// mostConnections is how many connections of a test a server takes at a time.
func (k kind) mostConnections(spec measurement.Spec) int {
	if k.atOnce == nil {
		return connections(spec)
	}
	return k.atOnce(spec)
}

// askedRate is the rate of payload that a spec asks for, in bit/s, 0 where it asks
// for what the path carries.
func (k kind) askedRate(spec measurement.Spec) float64 {
	if k.rate == nil {
		return 0
	}
	return k.rate(spec)
}

// leastBytes is how many bytes of payload a test moves in [stillTime] at least.
func (k kind) leastBytes(spec measurement.Spec) int64 {
	if k.least == nil {
		return 0
	}
	return k.least(spec)
}

// lengthOf is the longest that a test holds the server from START on.
func (s *Server) lengthOf(spec measurement.Spec) time.Duration {
	if kinds[spec.Kind].openEnded {
		return s.opts.MaxDuration // a transfer that stands still ends much sooner
	}
	return kinds[spec.Kind].planned(spec)
}

// limitsOf is what a server spends on tests: what the options say, and no more than
// part of what this process may have. Half of the memory and more than half of the
// threads are for all else, and so are the descriptors of those at the door.
func limitsOf(o ServerOptions) (tests admission.Cost, door int) {
	door = max(o.MaxConnections/4, 1)
	tests = admission.Cost{
		admission.Tests:       int64(o.MaxTests),
		admission.Descriptors: int64(max(o.MaxConnections-door, 1)),
		admission.Threads:     maxThreads,
		admission.Bytes:       o.MaxMemoryBytes,
	}
	if n := sockets.MaxThreads(); n > 0 {
		// The runtime's own threads come with its processors, of which flows add some.
		tests[admission.Threads] = int64(min(maxThreads, max((n-sockets.MostAddedProcessors)/2, n/4, 1)))
	}
	if have := sockets.MaxMemoryBytes(); tests[admission.Bytes] == 0 {
		tests[admission.Bytes] = have / 2
	}
	return tests, door
}
