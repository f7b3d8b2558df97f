// Package host is the testbed of one path: from this process to a server that is
// there already.
package host

import (
	"context"
	"os"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/testbed"
)

// Path is the name of the one path.
const Path = "path"

// RunFunc does one test: probe.Run, but in tests.
type RunFunc func(context.Context, probe.Request, func(measurement.Progress)) (measurement.Outcome, error)

// Run makes a RunFunc this process as an agent.
func (f RunFunc) Run(ctx context.Context, r probe.Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
	return f(ctx, r, progress)
}

// Host is the testbed. Nothing of the path is known beforehand.
type Host struct {
	pair testbed.Pair
	run  RunFunc
}

// New is the testbed of the path to a server. The request has the server's
// address and what else all tests need.
func New(server string, request probe.Request, run RunFunc) *Host {
	source, err := os.Hostname()
	if err != nil {
		source = "this host"
	}
	return &Host{pair: testbed.Pair{Source: source, Destination: server, Request: request}, run: run}
}

// Source is this host's name.
func (h *Host) Source() string { return h.pair.Source }

// Info says that the testbed is real.
func (h *Host) Info() measurement.Testbed { return measurement.Testbed{Kind: "hosts"} }

// Environment is empty: each end has its own.
func (h *Host) Environment() map[string]string { return nil }

// Facts are none.
func (h *Host) Facts() []string { return nil }

// Paths are the one path.
func (h *Host) Paths() []testbed.Path {
	return []testbed.Path{{Name: Path, Pairs: []testbed.Pair{h.pair}}}
}

// Agent is this process.
func (h *Host) Agent(string) (testbed.Agent, error) { return h.run, nil }

// Done is nil: the testbed cannot break.
func (h *Host) Done() <-chan struct{} { return nil }

// Err is nil.
func (h *Host) Err() error { return nil }

// Close has nothing to do.
func (h *Host) Close() error { return nil }
