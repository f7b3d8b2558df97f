package hosts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/hopbench/hopbench/internal/agent"
	"github.com/hopbench/hopbench/internal/meter"
	"github.com/hopbench/hopbench/internal/testbed"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
)

// meters read the figures of the paths' hops. That one does not work is never a reason
// not to measure.
type meters struct {
	hops *meter.Hops
	// appliances are the agents that only tell counters, by endpoint. Nobody waits for
	// their end: the run goes on without them.
	appliances map[string]*agent.Client
}

// openMeters reaches the agents of appliances on the experiment's paths, and asks each hop
// of a path for its figures once.
func (h *Hosts) openMeters(ctx context.Context) {
	h.appliances = map[string]*agent.Client{}
	used := *h.inventory
	used.Paths, used.Hops = nil, nil
	for _, p := range h.places {
		used.Paths = append(used.Paths, p.Path)
	}
	for _, hop := range h.inventory.Hops {
		if !slices.ContainsFunc(used.Paths, func(p inventory.Path) bool { return slices.Contains(p.Hops, hop.Name) }) {
			continue
		}
		used.Hops = append(used.Hops, hop)
		if hop.Agent != nil {
			h.reachAppliance(ctx, hop.Agent.Endpoint)
		}
	}
	var err error
	if h.hops, err = meter.Open(&used, h.counter); err != nil {
		h.found(testbed.Wrong, "hops", err.Error(), "")
		return
	}
	wrong := h.hops.Try(ctx)
	for _, name := range slices.Sorted(maps.Keys(wrong)) {
		if why := wrong[name]; why != nil {
			h.found(testbed.Warning, "hop "+name, "its figures cannot be read: "+why.Error(), "correct this, or the trials do not have these figures")
		} else {
			h.found(testbed.Note, "hop "+name, "its figures can be read", "")
		}
	}
}

// reachAppliance connects to an agent, unless that is at an end of the paths. That it cannot
// be reached is told when it is asked.
func (h *Hosts) reachAppliance(ctx context.Context, name string) {
	_, known := h.appliances[name]
	at := slices.IndexFunc(h.inventory.Endpoints, func(e inventory.Endpoint) bool { return e.Name == name })
	if known || h.ends[name] != nil || at < 0 {
		return
	}
	client, err := h.greet(ctx, h.inventory.Endpoints[at])
	if err != nil {
		h.found(testbed.Warning, "endpoint "+name, plain(err), "")
		return
	}
	h.appliances[name] = client
}

// counter is the agent of an endpoint.
func (h *Hosts) counter(name string) (meter.Counter, error) {
	if c := h.appliances[name]; c != nil {
		return c, nil
	}
	if e := h.ends[name]; e != nil && e.client != nil {
		return e.client, nil
	}
	return nil, fmt.Errorf("no agent was reached at %q", name)
}

// close ends all that reads figures.
func (m *meters) close() error {
	var err error
	if m.hops != nil {
		err = m.hops.Close()
	}
	for _, c := range m.appliances {
		select {
		case <-c.Done():
			_ = c.Close() // closing a connection that broke tells nothing new
		default:
			err = errors.Join(err, c.Close())
		}
	}
	return err
}
