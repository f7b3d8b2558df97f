package probe

import (
	"context"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/crr"
	"github.com/hopbench/hopbench/internal/probe/ftp"
	"github.com/hopbench/hopbench/internal/probe/icmp"
	"github.com/hopbench/hopbench/internal/probe/load"
	"github.com/hopbench/hopbench/internal/probe/mtu"
	"github.com/hopbench/hopbench/internal/probe/rr"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/probe/tcp"
	"github.com/hopbench/hopbench/internal/probe/trace"
	"github.com/hopbench/hopbench/internal/probe/udp"
)

// kinds is the one table of how each kind of test is done. Nobody writes to it.
var kinds = map[measurement.Kind]session.Kind{
	measurement.TCP:   tcp.Kind(),
	measurement.UDP:   udp.Kind(),
	measurement.PPS:   udp.Kind(),
	measurement.RR:    rr.Kind(),
	measurement.CRR:   crr.Kind(),
	measurement.Load:  load.Kind(),
	measurement.FTP:   ftp.Kind(),
	measurement.MTU:   mtu.Kind(),
	measurement.Ping:  {Run: runPing, Rate: icmp.Rate},
	measurement.Trace: {Run: runTrace},
}

func runPing(ctx context.Context, req Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
	return icmp.Run(ctx, icmp.Request{Spec: req.Spec, Target: req.Target.Addr(), Source: req.Source}, progress)
}

func runTrace(ctx context.Context, req Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
	return trace.Run(ctx, trace.Request{Spec: req.Spec, Target: req.Target, Source: req.Source}, progress)
}
