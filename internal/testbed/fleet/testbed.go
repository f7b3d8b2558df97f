package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/agent"
	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/fleet/bus"
	"github.com/hopbench/hopbench/internal/fleet/subject"
	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testbed"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
)

// Bed is the testbed of an experiment: pairs of machines, of which each destination listens
// and each source has reached it on every path.
type Bed struct {
	fleet  *Fleet
	seats  *seats
	e      *experiment.Experiment
	ways   []inventory.Path // the experiment's paths
	places []result.TestbedPath
	limits testbed.Limits

	closing  chan struct{}
	watching sync.WaitGroup
	lost     chan struct{} // closed when a machine is lost
	mu       sync.Mutex
	err      error          // why
	pairs    []*pair        // by their seats
	seatOf   map[string]int // of both machines of each pair, by their names
	paths    []testbed.Path
	attempt  int // at the trial that began last, 0 where no samples are kept
	robbed   int // trials one after the other before which leases were lost and no machine
	// untraced says of machines that cannot trace a path why, by path and machine.
	untraced map[string]map[string]string
}

// Build makes pairs of machines for an experiment, once enough are there: those that a run
// had before stay together. Tell, which may be nil, hears who is there. What keeps a machine
// from measuring is the error, of all machines at once.
func (f *Fleet) Build(ctx context.Context, e *experiment.Experiment, tell func([]Role)) (*Bed, error) {
	s, err := f.openSeats(ctx)
	if err != nil {
		return nil, fmt.Errorf("fleet %s: %w", f.Inventory.Name, err)
	}
	b := &Bed{
		fleet: f, seats: s, e: e, pairs: make([]*pair, e.Pairs),
		closing: make(chan struct{}), lost: make(chan struct{}), untraced: map[string]map[string]string{},
		limits: testbed.Limits{
			SourceEgressBitsPerSecond:      f.endpoint(e.Source).EgressBitsPerSecond,
			DestinationEgressBitsPerSecond: f.endpoint(e.Destination).EgressBitsPerSecond,
		},
	}
	for _, p := range e.Paths {
		all := f.Inventory.Paths
		way := all[slices.IndexFunc(all, func(i inventory.Path) bool { return i.Name == p.Name })]
		b.ways = append(b.ways, way)
		place := result.TestbedPath{Name: way.Name, To: way.Network.String(), Device: way.Device}
		if way.DSCP > 0 {
			place.DSCP = way.DSCP
		}
		b.places = append(b.places, place)
	}
	if err := b.seat(ctx, tell); err != nil {
		return nil, errors.Join(fmt.Errorf("fleet %s: %w", f.Inventory.Name, err), b.Close())
	}
	b.watching.Go(b.watch)
	return b, nil
}

// watch waits until a machine of a pair is lost, or the testbed closed.
func (b *Bed) watch() {
	for {
		b.fleet.mu.Lock()
		changed := b.fleet.changed
		b.fleet.mu.Unlock()
		if gone := b.gone(); gone != nil {
			b.mu.Lock()
			b.err = gone
			b.mu.Unlock()
			close(b.lost)
			return
		}
		select {
		case <-changed:
		case <-b.closing:
			return
		}
	}
}

// gone says which machines of pairs are lost, nil for none.
func (b *Bed) gone() *testbed.Fault {
	var fault *testbed.Fault
	for _, m := range b.members() {
		err := m.client.Err()
		switch {
		case err == nil:
			continue
		case fault == nil:
			fault = &testbed.Fault{Err: fmt.Errorf("machine %s is gone: %w", m.Name, err)}
		}
		fault.Ends = append(fault.Ends, m.Name)
	}
	return fault
}

// members are the machines of all pairs, the sources first.
func (b *Bed) members() []*member {
	b.mu.Lock()
	defer b.mu.Unlock()
	var clients, servers []*member
	for _, p := range b.pairs {
		if p != nil {
			clients, servers = append(clients, p.client), append(servers, p.server)
		}
	}
	return slices.Concat(clients, servers)
}

// mostEnds bounds how many machines a result names, half of them sources.
const mostEnds = 128

// Info says where the paths are.
func (b *Bed) Info() result.Testbed {
	bed := result.Testbed{Kind: result.TestbedFleet, Name: b.fleet.Inventory.Name, Paths: b.places}
	if b.shared() {
		bed.Relative = true
		bed.Note = "machines of the fleet share one computer: absolute figures say as much about it as about the path"
	}
	all := b.members()
	ends := all
	if len(all) > mostEnds {
		half := len(all) / 2
		ends = slices.Concat(all[:mostEnds/2], all[half:half+mostEnds/2])
		bed.MoreEndpoints = len(all) - len(ends)
	}
	for i, m := range ends {
		h, egress := m.client.Hello(), b.limits.SourceEgressBitsPerSecond
		if i >= len(ends)/2 {
			egress = b.limits.DestinationEgressBitsPerSecond
		}
		bed.Endpoints = append(bed.Endpoints, result.TestbedEndpoint{
			Name: m.Name, Reach: string(inventory.ReachFleet), Host: h.Host, Version: h.Version, EgressBitsPerSecond: egress, Environment: h.Environment,
		})
	}
	return bed
}

// shared says whether two machines are on one computer.
func (b *Bed) shared() bool {
	seen := map[string]bool{}
	for _, m := range b.members() {
		id := m.client.Hello().HostID
		if id != "" && seen[id] {
			return true
		}
		seen[id] = true
	}
	return false
}

// Environment is empty: each machine has its own, in Info.
func (b *Bed) Environment() map[string]string { return nil }

// Facts are the machines of another version, and those that cannot trace.
func (b *Bed) Facts() []string {
	var others []string
	facts := b.unproven()
	own := hostinfo.Version()
	for _, m := range b.members() {
		if m.client.Hello().Version != own {
			others = append(others, m.Name)
		}
	}
	if len(others) > 0 {
		facts = append(facts, fmt.Sprintf("Machines of the fleet do not run hopbench %s, as this one does: %s.", own, names(others)))
	}
	return facts
}

// Paths are those of the experiment. Their pairs may be others after Begin.
func (b *Bed) Paths() []testbed.Path {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.paths
}

// Begin has seats that are not whole any more taken anew, and the sources of all pairs send
// samples of the next tests as those of another attempt at a trial.
func (b *Bed) Begin(ctx context.Context, trial string) error {
	// Where a machine is gone the testbed is built anew.
	lost := b.gone() == nil && slices.ContainsFunc(b.pairs, func(p *pair) bool { return !b.seats.whole(p.place) })
	if b.robbed++; !lost {
		b.robbed = 0
	}
	if b.robbed > mostStrays {
		return fmt.Errorf("fleet %s: seats were lost before each of the last %d trials: %w", b.fleet.Inventory.Name, b.robbed, b.seats.reason(errShared))
	}
	if lost {
		if err := b.seat(ctx, nil); err != nil {
			return fmt.Errorf("fleet %s: %w", b.fleet.Inventory.Name, err)
		}
	}
	if b.fleet.Samples == nil {
		return nil
	}
	agents := make([]subject.Agent, len(b.pairs))
	for i, p := range b.pairs {
		agents[i] = p.client.Agent
	}
	attempt, err := b.fleet.Samples.Begin(ctx, trial, agents)
	if err != nil {
		return err
	}
	b.mu.Lock()
	b.attempt = attempt
	b.mu.Unlock()
	return nil
}

// source is the agent of a pair's source, whose samples are those of a seat.
type source struct {
	*agent.Client
	bed  *Bed
	seat int // from 1
}

// Run does a test, of which the agent sends samples. A trace is none of them: what is kept of it
// would be of no attempt that was begun.
func (s source) Run(ctx context.Context, r probe.Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
	s.bed.mu.Lock()
	if s.bed.attempt > 0 && r.Spec.Kind != measurement.Trace {
		r.Sampled = &probe.Sampled{Seat: s.seat, Attempt: s.bed.attempt}
	}
	s.bed.mu.Unlock()
	return s.Client.Run(ctx, r, progress)
}

// Agent is that of a machine.
func (b *Bed) Agent(name string) (testbed.Agent, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i, is := b.seatOf[name]
	if !is {
		return nil, fmt.Errorf("no machine %q is in the run", name)
	}
	if p := b.pairs[i]; name != p.client.Name {
		return p.server.client, nil
	}
	return source{Client: b.pairs[i].client.client, bed: b, seat: i + 1}, nil
}

// Away is how long a machine may have no connection to the broker, and go on with its test.
func (b *Bed) Away() time.Duration { return bus.AwayTime }

// Done is closed when a machine is lost.
func (b *Bed) Done() <-chan struct{} { return b.lost }

// Err says which machine was lost.
func (b *Bed) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// closeTime is how long machines may take to end what they do.
const closeTime = 30 * time.Second

// Close has the destinations listen no more. The machines stay in the fleet. A second Close
// does nothing.
func (b *Bed) Close() error {
	select {
	case <-b.closing:
		return nil
	default:
		close(b.closing)
	}
	b.watching.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	return each(ctx, b.pairs, func(ctx context.Context, _ int, p *pair) error { return b.unlisten(ctx, p) })
}
