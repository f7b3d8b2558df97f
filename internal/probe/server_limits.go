package probe

import (
	"time"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/session"
)

// Limits bound one test, whatever is asked. What is zero is not bounded.
type Limits struct {
	// MaxRateBitsPerSecond is of payload, of all flows together.
	MaxRateBitsPerSecond float64
	// MaxDuration is of all parts of a test together.
	MaxDuration time.Duration
	// MaxFlows are in each direction.
	MaxFlows int
}

// Refuse says why a test is beyond the limits, nil if it is not. Its error is ready to be
// sent. The spec has passed kind.Check and has its defaults.
func (l Limits) Refuse(spec measurement.Spec) error {
	if total := l.length(spec); l.MaxDuration > 0 && total > l.MaxDuration {
		return session.Refusal(Limit, "a test of %v is longer than this end allows (%v; --max-duration)", total, l.MaxDuration)
	}
	if l.MaxFlows > 0 && spec.Flows > l.MaxFlows {
		return session.Refusal(Limit, "%d flows are more than this end allows in one test (%d; --max-flows)", spec.Flows, l.MaxFlows)
	}
	if asked := kinds[spec.Kind].AskedRate(spec); l.MaxRateBitsPerSecond > 0 && asked > l.MaxRateBitsPerSecond {
		return session.Refusal(Limit, "%s are more than this end allows in one test (%s; --max-rate)", session.BitRate(asked), session.BitRate(l.MaxRateBitsPerSecond))
	}
	if l.MaxRateBitsPerSecond > 0 && spec.MPTCP {
		return session.Refusal(Limit, "this end bounds the rate of a test (%s; --max-rate), and Linux does not pace connections of MPTCP: test without --mptcp", session.BitRate(l.MaxRateBitsPerSecond))
	}
	return nil
}

// length is the longest that a test lasts from START on.
func (l Limits) length(spec measurement.Spec) time.Duration {
	if kinds[spec.Kind].OpenEnded {
		return l.MaxDuration // a transfer that stands still ends much sooner
	}
	return planned(spec)
}

// planned is how long a test lasts from START on, at most.
func planned(spec measurement.Spec) time.Duration {
	k := kinds[spec.Kind]
	if k.Planned == nil {
		return spec.ExpectedDuration().Duration()
	}
	return spec.StartSpan().Duration() + k.Planned(spec)
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
	if n := hostinfo.MaxThreads(); n > 0 {
		tests[admission.Threads] = int64(min(maxThreads, max(n/2, 1)))
	}
	if have := hostinfo.MaxMemoryBytes(); tests[admission.Bytes] == 0 {
		tests[admission.Bytes] = have / 2
	}
	return tests, door
}
