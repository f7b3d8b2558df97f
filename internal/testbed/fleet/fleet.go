// Package fleet is the testbed of machines that join by themselves: it runs the broker where
// they do, keeps who is there, and makes pairs of them for as many runs of the same testbed
// as come.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/agent"
	"github.com/hopbench/hopbench/internal/event"
	"github.com/hopbench/hopbench/internal/fleet/broker"
	"github.com/hopbench/hopbench/internal/fleet/bus"
	"github.com/hopbench/hopbench/internal/fleet/collect"
	"github.com/hopbench/hopbench/internal/fleet/join"
	"github.com/hopbench/hopbench/internal/fleet/ledger"
	"github.com/hopbench/hopbench/internal/fleet/seat"
	"github.com/hopbench/hopbench/internal/fleet/subject"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
)

// Options of a fleet.
type Options struct {
	// Inventory is a testbed file of kind fleet.
	Inventory *inventory.Inventory
	Secret    join.Secret
	// Samples takes what the flows of tests count while they go on; nil where that is not
	// wanted.
	Samples *collect.Collector
	// Before is where the paths of the run were in its earlier session, if it has one.
	Before []result.TestbedPath
	// Run names the seats of the run in the queue, as subject.CheckName says, the same when the
	// run is resumed; empty for the fleet's name.
	Run string
	// Ledger keeps the seats on the disk, nil in memory alone.
	Ledger ledger.Keeper
	// OnNote hears sentences about machines that were refused or expelled, from any
	// goroutine. May be nil.
	OnNote func(string)
	// OnEvent hears of machines and seats, one after the other. It must not wait. May be nil.
	OnEvent func(event.Event)
}

// Fleet are the machines that have joined, and where others do.
type Fleet struct {
	Options
	broker *broker.Broker // nil at a cluster
	door   door
	bus    *bus.Coordinator
	ctx    context.Context //nolint:containedctx // from Open to Close
	cancel context.CancelFunc
	works  sync.WaitGroup
	crowd  *agent.Crowd
	// openQueue opens the queue of a run's seats.
	openQueue func(ctx context.Context, run string, lease time.Duration) (seat.Queue, error)
	// unlimit ends the limit of memory.
	unlimit func()

	mu      sync.Mutex
	closing bool
	members map[string]*member // by name
	changed chan struct{}      // closed at the next change of members
	seats   *seats             // of the run, nil before its first testbed
	// returned are the machines whose connection ended and that went on over another.
	returned map[string]bool
	// stopped are those that ended what they did: killed, started anew, or away for too long.
	stopped map[string]bool
	told    told
}

// door is what admits machines: a broker of this process, or what a cluster asks.
type door interface {
	Expel(subject.Agent) error
}

// member is a machine that has joined.
type member struct {
	subject.Agent
	labels []string
	client *agent.Client
	unfit  error           // why it cannot measure, while it is connected
	sender *collect.Sender // of its samples, nil where none are kept
}

// helloTime is how long a machine may take to say what it is.
const helloTime = time.Minute

// Open takes machines from then on, at a cluster, or at a broker that it starts. Close ends
// it, the context the opening alone.
func Open(opening context.Context, o Options) (*Fleet, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(opening))
	f := &Fleet{Options: o, ctx: ctx, cancel: cancel, members: map[string]*member{}, returned: map[string]bool{}, stopped: map[string]bool{}, changed: make(chan struct{}), told: told{pairs: map[int]toldPair{}}}
	f.openQueue = f.ownQueue
	f.crowd = agent.NewCrowd(f.slower)
	f.unlimit = limitMemory(o.Inventory.Broker.MaxAgents)
	options := bus.CoordinatorOptions{Fleet: o.Secret.File.Fleet, OnArrival: f.arrived, OnRefused: func(who subject.Agent, why error) {
		if errors.Is(why, bus.ErrFlood) {
			f.dropped(who, why)
			return
		}
		f.note("machine %s is refused: %v", who.Name, why)
	}, OnReturn: func(who subject.Agent) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.returned[who.Name] = true
	}, OnDisconnect: func(why error) {
		f.note("the connection to the broker ended (%v) and is made anew", why)
	}}
	var err error
	if o.Inventory.Broker.URL == "" {
		err = f.openHere(options)
	} else {
		err = f.openAt(opening, o.Inventory.Broker.URL, options)
	}
	if err != nil {
		cancel()
		f.unlimit()
		return nil, err
	}
	return f, nil
}

// openHere starts a broker.
func (f *Fleet) openHere(o bus.CoordinatorOptions) error {
	at := f.Inventory.Broker.Listen
	if !at.Addr().IsValid() {
		// As such it is the wildcard of both families (net.Listen), and there may be no IPv6.
		at = netip.AddrPortFrom(netip.IPv4Unspecified(), at.Port())
	}
	b, err := broker.Start(broker.Options{
		Listen: netip.AddrPortFrom(at.Addr(), cmp.Or(at.Port(), join.DefaultPort)), Secret: f.Secret, MaxAgents: f.Inventory.Broker.MaxAgents,
	})
	if err != nil {
		return err
	}
	f.broker, f.door = b, b
	if f.bus, err = bus.Coordinate(b, o); err != nil {
		return errors.Join(err, b.Close())
	}
	return nil
}

// openAt has machines join at a cluster.
func (f *Fleet) openAt(ctx context.Context, urls string, o bus.CoordinatorOptions) error {
	key, sign, err := broker.ClusterLogin(f.Secret)
	if err != nil {
		return err
	}
	f.bus, err = bus.CoordinateAt(ctx, bus.Cluster{
		URLs: urls, File: f.Secret.File, Key: key, Sign: sign,
		Admit: func(listens func(string) bool) (bus.Admission, error) {
			callout, err := broker.NewCallout(f.Secret, f.Inventory.Broker.MaxAgents, listens)
			f.door = callout
			return callout, err
		},
	}, o)
	return err
}

// Addr is where machines join, nothing at a cluster.
func (f *Fleet) Addr() netip.AddrPort {
	if f.broker == nil {
		return netip.AddrPort{}
	}
	return f.broker.Addr()
}

func (f *Fleet) note(format string, args ...any) {
	if f.OnNote != nil {
		f.OnNote(fmt.Sprintf(format, args...))
	}
}

// arrived takes a machine until it is gone.
func (f *Fleet) arrived(a bus.Arrival) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closing {
		_ = a.Link.Close()
		return
	}
	f.works.Go(func() { f.keep(a) })
}

// keep has a machine among the members while it is there. No goroutine waits for its end:
// of thousands the stacks would take more than all else that is kept of them.
func (f *Fleet) keep(a bus.Arrival) {
	ctx, cancel := context.WithTimeoutCause(f.ctx, helloTime, fmt.Errorf("it does not answer in %v", helloTime))
	client, err := agent.ConnectOneOf(ctx, a.Link, f.crowd)
	cancel()
	if err != nil {
		f.dropped(a.Agent, err)
		return
	}
	m := &member{Agent: a.Agent, labels: a.Labels, client: client}
	if f.Samples != nil {
		m.sender = f.Samples.Join(a.Agent, client)
	}
	f.change(func() {
		f.members[a.Name] = m
		f.tell(event.Joined, event.Fleet{Machine: a.Name}, nil)
	})
	f.works.Add(1)
	client.AfterEnd(func() {
		defer f.works.Done()
		f.left(m)
	})
}

// left ends what there is of a member whose connection has ended.
func (f *Fleet) left(m *member) {
	f.change(func() {
		if !f.closing {
			f.stopped[m.Name] = true
		}
		if f.members[m.Name] == m {
			delete(f.members, m.Name)
			f.tellLeft(m.Name, m.client.Err())
		}
	})
	f.dropped(m.Agent, m.client.Err())
	if m.sender != nil {
		m.sender.Gone()
	}
	_ = m.client.Close() // what broke says no more
}

// signsEvery is how often each machine gives a sign of life, with which its clock is followed.
func (f *Fleet) signsEvery() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return inventory.SignsEvery(len(f.members))
}

// slower is how many times as rarely than of a few machines their clocks are followed.
func (f *Fleet) slower() int { return int(f.signsEvery() / time.Second) }

// dropped says what has to be said of a machine whose connection has ended.
func (f *Fleet) dropped(who subject.Agent, why error) {
	switch {
	case f.ctx.Err() != nil:
	case errors.Is(why, bus.ErrFlood), errors.Is(why, collect.ErrForeign):
		f.note("machine %s is expelled: %v", who.Name, errors.Join(why, f.door.Expel(who)))
	default:
		f.note("machine %s is gone: %v", who.Name, why)
	}
}

// change changes the members, and wakes who waits for that.
func (f *Fleet) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
	close(f.changed)
	f.changed = make(chan struct{})
}

// with are the members that have a label and can measure, by their names, and what is closed
// once that may not be so any more.
func (f *Fleet) with(label string) (found []*member, changed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.members {
		if slices.Contains(m.labels, label) && m.unfit == nil {
			found = append(found, m)
		}
	}
	slices.SortFunc(found, func(a, b *member) int { return strings.Compare(a.Name, b.Name) })
	return found, f.changed
}

// Returned are the names of machines whose connection ended and that went on with what they
// were at over another.
func (f *Fleet) Returned() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.returned))
}

// Stopped are the names of machines that had joined and ended what they did, whether or not
// they came back.
func (f *Fleet) Stopped() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.stopped))
}

// Close has all machines end what they do, and ends the broker.
func (f *Fleet) Close() error {
	f.mu.Lock()
	f.closing = true
	s := f.seats
	f.mu.Unlock()
	var err error
	if s != nil {
		err = s.close()
	}
	f.cancel()
	err = errors.Join(err, f.bus.Close())
	f.works.Wait()
	f.unlimit()
	if f.broker != nil {
		err = errors.Join(err, f.broker.Close())
	}
	return err
}
