package lab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/hopbench/hopbench/internal/idps"
	"github.com/hopbench/hopbench/internal/lab/message"
)

// SetMode changes what the idps that is a node does with flows that match a
// rule. When it returns, the next frame is treated so.
func (l *Lab) SetMode(ctx context.Context, node string, mode idps.Mode) error {
	_, err := l.request(ctx, message.Mode, message.ModeRequest{Node: node, Mode: mode}, nil, nil)
	if err != nil {
		return fmt.Errorf("set the mode %q: %w", mode, err)
	}
	return nil
}

// Alerts are the latest of the idps that is a node, the oldest first.
func (l *Lab) Alerts(ctx context.Context, node string) ([]idps.AlertRecord, error) {
	alerts, err := call[[]idps.AlertRecord](ctx, l, message.Alerts, node)
	if err != nil {
		return nil, fmt.Errorf("read alerts: %w", err)
	}
	return alerts, nil
}

// Scale has new flows on a path spread over so many instances of a hop of the
// path's ScaleOuts. With more, the flows that have begun stay where they are;
// with fewer, all are spread anew.
func (l *Lab) Scale(ctx context.Context, p Path, hop string, instances int) error {
	i := slices.IndexFunc(p.ScaleOuts, func(s ScaleOut) bool { return s.Hop == hop })
	if i < 0 {
		return fmt.Errorf("scale hop %s of path %s: it does not grow", hop, p.Name)
	}
	_, err := l.request(ctx, message.Scale, message.ScaleRequest{Nodes: p.ScaleOuts[i].Nodes, Instances: instances}, nil, nil)
	if err != nil {
		return fmt.Errorf("scale hop %s of path %s to %d instances: %w", hop, p.Name, instances, err)
	}
	return nil
}

// ForgetFlows has the limits of flows of nodes begin to count anew.
func (l *Lab) ForgetFlows(ctx context.Context, nodes []string) error {
	if _, err := l.request(ctx, message.Forget, nodes, nil, nil); err != nil {
		return fmt.Errorf("forget the flows of earlier trials: %w", err)
	}
	return nil
}

// OuterPorts looks for some 20 ms at what a tunnel sends in its source node and
// returns the UDP source ports that it saw, in ascending order: those that a
// balancer on the way tells flows apart by.
func (l *Lab) OuterPorts(ctx context.Context, node string, outer OuterPath) ([]uint16, error) {
	ports, err := call[[]uint16](ctx, l, message.OuterPorts, message.OuterPortsRequest{Node: node, Interface: outer.Interface, Port: outer.Port})
	if err != nil {
		return nil, fmt.Errorf("look at the packets of a tunnel: %w", err)
	}
	return ports, nil
}

// WatchBackends starts the health checks of a path's load balancer: it returns
// when every back end was tried once. From then on, one whose port does not
// accept TCP connections gets no new flows. Before, all do.
func (l *Lab) WatchBackends(ctx context.Context, p Path, port uint16) error {
	fail := func(err error) error {
		return fmt.Errorf("watch the back ends of path %s: %w", p.Name, err)
	}
	if p.Balancer == "" {
		return fail(errors.New("it has no load balancer"))
	}
	known := l.healthChanged(p.Balancer)
	if _, err := l.request(ctx, message.Watch, message.WatchRequest{Node: p.Balancer, Port: port, RoundTrip: p.BackendRoundTrip}, nil, nil); err != nil {
		return fail(err)
	}
	select {
	case <-known:
		return nil
	case <-l.Done():
		return fail(l.Err())
	case <-ctx.Done():
		return fail(ctx.Err())
	}
}

// BackendsDown are the back ends of a path that get no new flows because their
// health check fails.
func (l *Lab) BackendsDown(p Path) []netip.Addr {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.health[p.Balancer].down)
}

// BackendsDownSince are those that are down, or were at some time since a moment.
func (l *Lab) BackendsDownSince(p Path, since time.Time) (down []netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.health[p.Balancer]
	for _, b := range p.Backends {
		if slices.Contains(h.down, b.Address) || h.well[b.Address].After(since) {
			down = append(down, b.Address)
		}
	}
	return down
}

// backendHealth is what is known of a load balancer.
type backendHealth struct {
	down []netip.Addr
	// well is when those that were down were last found well again.
	well    map[netip.Addr]time.Time
	changed chan struct{} // closed with the next finding; nil when nobody waits
}

// healthChanged is closed when the load balancer of a node has found out more.
func (l *Lab) healthChanged(node string) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.health[node]
	if h.changed == nil {
		h.changed = make(chan struct{})
		l.health[node] = h
	}
	return h.changed
}

// tookHealth notes a finding.
func (l *Lab) tookHealth(found message.HealthReport) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.health[found.Node]
	if h.changed != nil {
		close(h.changed)
	}
	for _, a := range h.down {
		if h.well == nil {
			h.well = make(map[netip.Addr]time.Time)
		}
		if !slices.Contains(found.Down, a) {
			h.well[a] = time.Now()
		}
	}
	l.health[found.Node] = backendHealth{down: found.Down, well: h.well}
}
