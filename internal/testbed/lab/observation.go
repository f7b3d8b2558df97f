package lab

import (
	"context"
	"slices"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/lab"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/testbed"
)

// observation is what the lab does and counts during a test: its hops grow, and
// their counters and the tunnel's flows are read.
type observation struct {
	*growth
	l      *Lab
	path   lab.Path
	began  time.Time
	hops   *hopWatch
	tunnel *tunnelWatch
}

// Reset brings the hops of a path back to the instances that a trial begins with, and has them
// forget the flows of earlier trials where these count.
func (l *Lab) Reset(ctx context.Context, name string) error {
	path, err := l.laid(name)
	if err != nil {
		return err
	}
	if nodes := limitedNodes(l.e, path); len(nodes) > 0 {
		if err := l.lab.ForgetFlows(ctx, nodes); err != nil {
			return err
		}
	}
	return shrink(ctx, path.ScaleOuts, l.scale(path))
}

// limitedNodes are those of a path's hops that let only so many flows pass.
func limitedNodes(e *experiment.Experiment, path lab.Path) (nodes []string) {
	i := slices.IndexFunc(e.Paths, func(p experiment.Path) bool { return p.Name == path.Name })
	for _, n := range path.HopNodes {
		if slices.ContainsFunc(e.Paths[i].Hops, func(h experiment.Hop) bool { return h.FlowLimit > 0 && h.Label() == n.Hop }) {
			nodes = append(nodes, n.Node)
		}
	}
	return nodes
}

// Observe has the hops of a path grow and reads their counters.
func (l *Lab) Observe(ctx context.Context, name string, spec measurement.Spec) testbed.Observation {
	path, _ := l.laid(name) // Reset found it
	return &observation{
		growth: grow(ctx, path.ScaleOuts, l.scale(path)), l: l, path: path, began: time.Now(),
		hops:   watchHops(ctx, l.lab.Counters, hostinfo.ReadCPU, path, hopInterval(spec)),
		tunnel: l.watchTunnel(ctx, path),
	}
}

func (l *Lab) scale(path lab.Path) func(ctx context.Context, hop string, instances int) error {
	return func(ctx context.Context, hop string, instances int) error {
		return l.lab.Scale(ctx, path, hop, instances)
	}
}

// Hops is what the hops have counted so far.
func (o *observation) Hops() []measurement.HopSeries { return o.hops.now() }

// End ends everything. When the test failed, it also gives the lab a moment to
// notice that a process of it died.
func (o *observation) End(ctx context.Context, out *measurement.Outcome, failed error) error {
	o.tunnel.end(out)
	o.hops.end(ctx, out)
	o.growth.end()
	if failed != nil {
		o.l.awaitDeath(ctx)
	}
	out.Facts = slices.Concat(out.Facts, o.growth.facts, o.l.backendFacts(o.path, o.began))
	return o.growth.err
}
