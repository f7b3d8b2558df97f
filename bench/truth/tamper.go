package main

import (
	"context"
	"slices"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/testbed"
	testbedlab "github.com/hopbench/hopbench/internal/testbed/lab"
)

// tampering is what is changed between the coordinator and the agent of one source, or in
// what the coordinator knows of a path.
type tampering struct {
	source  string                     // node, empty for none
	late    time.Duration              // that it hears of a start after the others
	outcome func(*measurement.Outcome) // what it is made to bring; nil leaves it
	path    string                     // empty for none
	pathMTU int                        // that it is declared to have, in bytes
}

// tamper has what passes between the coordinator and the source of a pair changed during a
// trial.
func tamper(pair int, t tampering) planter {
	return func(_ context.Context, b *bed, planned experiment.PlannedTrial) (func() error, error) {
		b.tampering = t
		b.tampering.source = b.laid(planned.Path).Of(pair).SourceNode
		return func() error { b.tampering = tampering{}; return nil }, nil
	}
}

// lie has the source of a pair bring another outcome than it measured.
func lie(pair int, outcome func(*measurement.Outcome)) planter {
	return tamper(pair, tampering{outcome: outcome})
}

// What the sources are made to bring.
func moreThanSent(o *measurement.Outcome) {
	for i := range o.Flows {
		o.Flows[i].ReceivedBytes = o.Flows[i].SentBytes + 1
	}
}

func noFlows(o *measurement.Outcome)  { o.Flows = nil }
func noSeries(o *measurement.Outcome) { o.Throughput = nil }

func noRoundTrips(o *measurement.Outcome) { o.Pairs = nil }

func halfSeries(o *measurement.Outcome) {
	if b := o.Throughput; b != nil {
		b.Bytes = b.Bytes[:len(b.Bytes)/2]
	}
}

func impossibleTimes(o *measurement.Outcome) {
	if d := o.Latency; d != nil {
		d.Min, d.Max = d.Max, d.Min
	}
}

// tampered is a lab with whose agents a planter may tamper.
type tampered struct {
	*testbedlab.Lab
	bed *bed
}

// Paths are those of the lab, with what is declared of one.
func (l tampered) Paths() []testbed.Path {
	all := slices.Clone(l.Lab.Paths())
	for i, p := range all {
		if p.Name == l.bed.tampering.path {
			all[i].Pairs = slices.Clone(p.Pairs)
			all[i].Pairs[0].Expect.PathMTUBytes = l.bed.tampering.pathMTU
		}
	}
	return all
}

// Agent is that of a node, as the coordinator hears it.
func (l tampered) Agent(node string) (testbed.Agent, error) {
	a, err := l.Lab.Agent(node)
	if err != nil || l.bed.tampering.source != node {
		return a, err
	}
	return tamperedAgent{a, l.bed.tampering}, nil
}

type tamperedAgent struct {
	testbed.Agent
	tampering
}

// Run changes of a test when it starts and what it brings. A trace of the path starts with
// nobody, and brings nothing that is changed.
func (a tamperedAgent) Run(ctx context.Context, r probe.Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
	if together := r.Prepared; together != nil {
		r.Prepared = func(ctx context.Context) (time.Time, error) {
			moment, err := together(ctx)
			time.Sleep(a.late)
			return moment, err
		}
	}
	o, err := a.Agent.Run(ctx, r, progress)
	if err == nil && a.outcome != nil {
		a.outcome(&o)
	}
	return o, err
}
