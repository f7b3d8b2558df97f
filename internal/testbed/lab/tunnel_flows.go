package lab

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hopbench/hopbench/internal/lab"
	"github.com/hopbench/hopbench/internal/measurement"
)

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
	w := &tunnelWatch{stop: stop, ports: make([]map[uint16]bool, max(len(path.Pairs), 1))}
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
