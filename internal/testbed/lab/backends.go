package lab

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/agent"
	"github.com/hopbench/hopbench/internal/lab"
	"github.com/hopbench/hopbench/internal/measurement"
)

// listener is an agent that is to listen at an address of its node.
type listener struct {
	node    string
	address netip.Addr
}

// listeners are the far ends of a path: the destination, or all back ends of
// its load balancer.
func listeners(p lab.Path) []listener {
	if p.Balancer == "" {
		return []listener{{p.DestinationNode, p.Listen}}
	}
	var all []listener
	for _, b := range p.Backends {
		all = append(all, listener{b.Node, b.Address})
	}
	return all
}

// client is the client of a node's agent, whose control connection it takes up
// at the first call.
func (l *Lab) client(node string) (*agent.Client, error) {
	if a := l.agents[node]; a != nil {
		return a, nil
	}
	conn, err := l.lab.Control(node)
	if err != nil {
		return nil, fmt.Errorf("reach the agent of %s: %w", node, err)
	}
	l.agents[node] = agent.NewClient(conn)
	return l.agents[node], nil
}

// watchBackends begins the health checks of a path's load balancer.
func (l *Lab) watchBackends(ctx context.Context, p lab.Path) error {
	if p.Balancer == "" {
		return nil
	}
	return l.lab.WatchBackends(ctx, p, measurement.DefaultPort)
}

// backendFacts say which back ends a path's load balancer does without, or did at some time
// since a moment.
func (l *Lab) backendFacts(p lab.Path, since time.Time) []string {
	down, when := l.lab.BackendsDownSince(p, since), ""
	if len(down) == 0 {
		return nil
	}
	if len(l.lab.BackendsDown(p)) < len(down) {
		when = " for some of the time"
	}
	names := make([]string, len(down))
	for i, a := range down {
		names[i] = a.String()
	}
	return []string{fmt.Sprintf("the load balancer gave new flows to %d of %d back ends%s: the health check of %s failed",
		len(p.Backends)-len(down), len(p.Backends), when, strings.Join(names, ", "))}
}
