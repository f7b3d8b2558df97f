// Package load measures round-trip time while a tcp test loads the path: it is made of tests of
// packages rr and tcp.
package load

import (
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/rr"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/probe/tcp"
)

// Kind is the round-trip time while a tcp test loads the path. A server sees the
// tests that it consists of.
func Kind() session.Kind {
	return session.Kind{Run: Run, PreparesItself: true, Planned: session.Planned, Grace: rr.Grace, Files: kind.Connections, Rate: rate}
}

// rate is that of the faster of the tests that it consists of, each of which is bounded.
func rate(spec measurement.Spec) float64 {
	return max(tcp.Kind().AskedRate(spec), rr.Kind().AskedRate(spec))
}
