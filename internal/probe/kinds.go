package probe

import (
	"context"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/icmp"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/probe/trace"
)

// kinds is the one table of how each kind of test is done. Nobody writes to it.
var kinds = map[measurement.Kind]session.Kind{
	measurement.TCP:   tcpKind(),
	measurement.UDP:   packetKind(),
	measurement.PPS:   packetKind(),
	measurement.RR:    rrKind(),
	measurement.CRR:   crrKind(),
	measurement.Load:  loadKind(),
	measurement.FTP:   ftpKind(),
	measurement.MTU:   mtuKind(),
	measurement.Ping:  {Run: runPing},
	measurement.Trace: {Run: runTrace},
}

func runPing(ctx context.Context, req session.Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
	return icmp.Run(ctx, icmp.Request{Spec: req.Spec, Target: req.Target.Addr(), Source: req.Source}, progress)
}

func runTrace(ctx context.Context, req session.Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
	return trace.Run(ctx, trace.Request{Spec: req.Spec, Target: req.Target, Source: req.Source}, progress)
}
