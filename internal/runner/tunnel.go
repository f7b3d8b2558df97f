package runner

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hopbench/hopbench/internal/lab"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
)

// traceOuter traces the path that a tunnel takes, nil when there is none. A trace
// inside sees the other end of the tunnel as its only hop, whatever lies
// between; so one outside must show that it is the path that was built. Nobody
// listens outside: the destination's kernel refuses the connection, which ends
// the trace as well as an answer would. There is one for each pair.
func (l *Lab) traceOuter(ctx context.Context, trial string, path lab.Path) ([][]measurement.TraceHop, error) {
	if path.Outer == nil {
		return nil, nil
	}
	seen := make([][]measurement.TraceHop, pairsOf(path))
	group, ctx := errgroup.WithContext(ctx)
	for k := range seen {
		one := path.Of(k)
		group.Go(func() error {
			outcome, err := l.agents[one.SourceNode].Run(ctx, probe.Request{
				ID:     trial + "-outer-fingerprint",
				Spec:   fingerprintTrace(),
				Target: netip.AddrPortFrom(one.Outer.Destination, agentPort), Source: one.Outer.Source, Token: l.token,
			}, nil)
			if err != nil {
				return fmt.Errorf("trace the path below the tunnel of %s: %w", nameOf(one), err)
			}
			seen[k] = outcome.Hops
			return nil
		})
	}
	return seen, group.Wait()
}

// fingerprintTrace looks as far as packets get that start with a time to live
// of lab.InitialTTL.
func fingerprintTrace() measurement.Spec {
	return measurement.Spec{Kind: measurement.Trace, Protocol: measurement.OverTCP, MaxHops: lab.InitialTTL}.Defaults()
}

// withTunnel adds to the fingerprint of what is inside a tunnel, if the path has
// one, what was seen below it: the path that was built must be there, and TCP
// must have found the MTU of the tunnel.
func withTunnel(path lab.Path, outer []measurement.TraceHop, f measurement.Fingerprint) measurement.Fingerprint {
	if path.Outer == nil {
		return f
	}
	f.OuterHops = outer
	below := fingerprint(lab.Path{Hops: path.Outer.Hops, Others: path.Outer.Others}, outer, measurement.Outcome{})
	switch {
	case !f.Matches:
	case !below.Matches:
		f.Matches, f.Why = false, "below the tunnel "+below.Why
	case f.PathMTU != 0 && f.PathMTU != int64(path.Outer.MTU):
		f.Matches, f.Why = false, fmt.Sprintf("TCP found a path MTU of %d where the tunnel has %d", f.PathMTU, path.Outer.MTU)
	}
	return f
}

// betweenLooks is from one look at the packets of a tunnel to the next. A look
// takes 20 ms, so what it costs is paid a tenth of the time.
const betweenLooks = 180 * time.Millisecond

// tunnelWatch counts the outer flows of a tunnel during a test, or of the
// tunnels of all pairs together: how many a balancer on the way could tell
// apart. It looks at samples, so a flow that is seldom may be missed.
type tunnelWatch struct {
	stop    context.CancelFunc
	looking errgroup.Group
	ports   []map[uint16]bool // by pair
}

// watchTunnel begins to watch, nil when the path has no tunnel.
func (l *Lab) watchTunnel(ctx context.Context, path lab.Path) *tunnelWatch {
	if path.Outer == nil {
		return nil
	}
	ctx, stop := context.WithCancel(ctx)
	w := &tunnelWatch{stop: stop, ports: make([]map[uint16]bool, pairsOf(path))}
	for k := range w.ports {
		w.ports[k] = make(map[uint16]bool)
		w.looking.Go(func() error { return look(ctx, l.lab, path.Of(k), w.ports[k]) })
	}
	return w
}

// look adds the ports that it sees until ctx ends.
func look(ctx context.Context, l *lab.Lab, path lab.Path, seen map[uint16]bool) error {
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
		}
		ports, err := l.OuterPorts(ctx, path.SourceNode, *path.Outer)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		for _, p := range ports {
			seen[p] = true
		}
		next.Reset(betweenLooks)
	}
}

// end stops watching and adds what was seen.
func (w *tunnelWatch) end(o *measurement.Outcome) {
	if w == nil {
		return
	}
	w.stop()
	if err := w.looking.Wait(); err != nil {
		o.Facts = append(o.Facts, fmt.Sprintf("The tunnel's outer flows could not be counted: %v.", err))
		return
	}
	flows := 0
	for _, ports := range w.ports {
		flows += len(ports)
	}
	if flows > 0 {
		if o.Effective == nil {
			o.Effective = make(map[string]string)
		}
		o.Effective["outer_flows_count"] = strconv.Itoa(flows)
	}
}
