// Package load measures round-trip time while a tcp test loads the path: it is made of tests of
// packages rr and tcp.
package load

import (
	"time"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/rr"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/probe/tcp"
)

// Kind is the round-trip time while a tcp test loads the path. A server sees the
// tests that it consists of.
func Kind() session.Kind {
	return session.Kind{Run: Run, PreparesItself: true, Planned: session.Planned, Grace: grace, Files: kind.Connections, Rate: rate}
}

// grace has room for the tests of round trips to connect, before the load and with it, and for
// their last answers and reports.
func grace(spec measurement.Spec) time.Duration {
	rtts := (&test{req: session.Request{Spec: spec}}).probeSpec(0, 0)
	return tcp.Kind().Grace(spec) + 2*(session.SetupTime(rtts)+rr.Grace(rtts))
}

// rate is that of the faster of the tests that it consists of, each of which is bounded.
func rate(spec measurement.Spec) float64 {
	return max(tcp.Kind().AskedRate(spec), rr.Kind().AskedRate(spec))
}
