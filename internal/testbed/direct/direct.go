// Package direct is the testbed of paths from this process to servers that are
// there already.
package direct

import (
	"context"
	"os"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testbed"
)

// OnlyPath is the name of a path that is not compared with another.
const OnlyPath = "path"

// RunFunc does one test: probe.Run, but in tests.
type RunFunc func(context.Context, probe.Request, func(measurement.Progress)) (measurement.Outcome, error)

// Run makes a RunFunc this process as an agent.
func (f RunFunc) Run(ctx context.Context, r probe.Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
	return f(ctx, r, progress)
}

// Testbed is those paths. Nothing of its paths is known beforehand.
type Testbed struct {
	paths []testbed.Path
	run   RunFunc
}

// Path is a path of that name to a server. The request has the server's address
// and what else all tests on the path need, such as their interface.
func Path(name, server string, request probe.Request) testbed.Path {
	source, err := os.Hostname()
	if err != nil {
		source = "this host"
	}
	return testbed.Path{Name: name, Pairs: []testbed.Pair{{Source: source, Destination: server, Request: request}}}
}

// New is the testbed of some paths.
func New(run RunFunc, paths ...testbed.Path) *Testbed { return &Testbed{paths: paths, run: run} }

// Info says that the testbed is real.
func (t *Testbed) Info() result.Testbed { return result.Testbed{Kind: result.TestbedHosts} }

// Environment is empty: each end has its own.
func (t *Testbed) Environment() map[string]string { return nil }

// Facts are none.
func (t *Testbed) Facts() []string { return nil }

// Paths are those that it was made of.
func (t *Testbed) Paths() []testbed.Path { return t.paths }

// Agent is this process.
func (t *Testbed) Agent(string) (testbed.Agent, error) { return t.run, nil }

// Done is nil: the testbed cannot break.
func (t *Testbed) Done() <-chan struct{} { return nil }

// Err is nil.
func (t *Testbed) Err() error { return nil }

// Close has nothing to do.
func (t *Testbed) Close() error { return nil }
