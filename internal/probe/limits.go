package probe

import (
	"time"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/measurement"
)

// lengthOf is the longest that a test holds the server from START on.
func (s *Server) lengthOf(spec measurement.Spec) time.Duration {
	if kinds[spec.Kind].OpenEnded {
		return s.opts.MaxDuration // a transfer that stands still ends much sooner
	}
	return kinds[spec.Kind].Planned(spec)
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
