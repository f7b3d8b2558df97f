// Package hosts is the testbed of real hosts: it reaches the ends that a testbed file
// names, has the destination listen, proves that each path leads there, and says what
// is not as it should be.
package hosts

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hopbench/hopbench/internal/agent"
	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testbed"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
	"github.com/hopbench/hopbench/internal/testbed/switching"
)

// Options of a testbed of hosts.
type Options struct {
	// Dial makes the control connection to an endpoint, which has to be closed.
	Dial func(context.Context, inventory.Endpoint) (io.ReadWriteCloser, error)
	// Token is that of the testbed file, which servers at serve:// want proven.
	Token string
	// Journal is the file in which the values of switches are kept that were found at
	// the start, see switching.JournalOf.
	Journal string
	// Before is where the paths of a run were in its earlier session, if it has one.
	Before []result.TestbedPath
	// Again has ends be reached again that do not answer at once, since they did before.
	Again bool
	// Found, when set, gets every finding at once, one at a time.
	Found func(testbed.Finding)
}

// Hosts is the testbed.
type Hosts struct {
	Options
	inventory *inventory.Inventory
	e         *experiment.Experiment
	// token is that of this testbed, which its own servers want proven.
	token    string
	ends     map[string]*end // by endpoint
	places   []place         // of the experiment's paths, in its order
	findings []testbed.Finding
	switcher *switching.Switcher // nil where all paths are in force
	meters

	closing  chan struct{}
	watching sync.WaitGroup
	lost     context.Context // ends when an end is lost, and its cause says why
	setLost  context.CancelCauseFunc
	mu       sync.Mutex
	// clients are the source's address as the destination saw it last, by path.
	clients map[string]netip.Addr
}

// end is an endpoint that was reached.
type end struct {
	inventory.Endpoint
	client *agent.Client // nil of a server
	hello  agent.Hello
}

// New reaches the ends of an experiment's paths and makes them ready to measure. The
// inventory has all of them, see inventory.Load. What keeps it from measuring is the
// error, all of it at once; what a reader must know otherwise are Facts.
func New(ctx context.Context, inv *inventory.Inventory, e *experiment.Experiment, o Options) (*Hosts, error) {
	h := begin(inv, e, o)
	if err := h.do(ctx, h.reach, h.place, h.listen, h.awaitServer, h.prove, h.chooseProofs, h.openMeters, h.rehearse); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// Check is what New would find, and what takes a little longer to find out, without any
// load: all findings, of which those that would keep a run from measuring are Wrong.
// Without an experiment, which is nil then, it is what there is to say of the endpoints.
func Check(ctx context.Context, inv *inventory.Inventory, e *experiment.Experiment, o Options) ([]testbed.Finding, error) {
	h := begin(inv, e, o)
	steps := []func(context.Context){h.reach}
	if e != nil {
		steps = append(steps, h.place, h.listen, h.prove, h.chooseProofs, h.sizes, h.openMeters, h.rehearse, h.length, h.alike)
	}
	err := h.do(ctx, steps...)
	h.clocks(ctx)
	if _, ok := errors.AsType[*wrongError](err); ok {
		err = nil // they are among the findings
	}
	return h.findings, errors.Join(err, h.Close())
}

func begin(inv *inventory.Inventory, e *experiment.Experiment, o Options) *Hosts {
	h := &Hosts{
		Options: o, inventory: inv, e: e, token: rand.Text(), ends: map[string]*end{}, clients: map[string]netip.Addr{},
		closing: make(chan struct{}),
	}
	h.lost, h.setLost = context.WithCancelCause(context.Background())
	return h
}

// do takes one step after the other, as long as nothing is found wrong.
func (h *Hosts) do(ctx context.Context, steps ...func(context.Context)) error {
	for _, step := range steps {
		step(ctx)
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := h.wrong(); err != nil {
			return err
		}
	}
	return nil
}

// reach connects to all ends that are needed at the same time.
func (h *Hosts) reach(ctx context.Context) {
	var group sync.WaitGroup
	for _, e := range h.needed() {
		group.Go(func() { h.connect(ctx, e) })
	}
	group.Wait()
	h.compareEnds()
}

// needed are the endpoints that an agent is needed at: the experiment's, or all.
func (h *Hosts) needed() []inventory.Endpoint {
	if h.e == nil {
		return h.inventory.Endpoints
	}
	return slices.DeleteFunc(slices.Clone(h.inventory.Endpoints), func(e inventory.Endpoint) bool {
		return e.Name != h.e.Source && e.Name != h.e.Destination
	})
}

// connect reaches one endpoint and hears what it says of itself.
func (h *Hosts) connect(ctx context.Context, e inventory.Endpoint) {
	reached := &end{Endpoint: e}
	if e.Reach.Scheme != inventory.ReachServe {
		err := h.again(ctx, func() (err error) {
			reached.client, err = h.greet(ctx, e)
			return err
		})
		if err != nil {
			h.found(testbed.Wrong, "endpoint "+e.Name, plain(err), "")
			return
		}
		reached.hello = reached.client.Hello()
	}
	h.mu.Lock()
	h.ends[e.Name] = reached
	h.mu.Unlock()
	if reached.client != nil {
		h.watching.Go(func() { h.watch(reached) })
	}
}

// helloTime is how long an agent that was reached may take to say what it is.
const helloTime = time.Minute

const (
	// awayTime is for how long an end is tried that answered before: its process was
	// stopped, its machine paused, or the network cut.
	awayTime = time.Minute
	// restartTime is for how long one is tried that refuses: it has no agent, or server, any
	// more, and systemd starts one that ended again after 5 s, or 10 (packages service and cli).
	restartTime = 20 * time.Second
	// awayPause is between two tries.
	awayPause = time.Second
)

// again does what needs an end, once more for as long as one may be away that answered before.
func (h *Hosts) again(ctx context.Context, do func() error) error {
	for began := time.Now(); ; {
		err := do()
		most := awayTime
		if errors.Is(err, syscall.ECONNREFUSED) || probe.ReasonOf(err) == probe.Refused {
			most = restartTime
		}
		if err == nil || !h.Again || time.Since(began) > most {
			return err
		}
		select {
		case <-time.After(awayPause):
		case <-ctx.Done():
			return err
		}
	}
}

// greet reaches the agent of an endpoint, and hears what it says of itself.
func (h *Hosts) greet(ctx context.Context, e inventory.Endpoint) (*agent.Client, error) {
	conn, err := h.Dial(ctx, e)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, helloTime, fmt.Errorf("its agent was reached and does not answer in %v: see whether it is stopped, and start it anew", helloTime))
	defer cancel()
	return agent.Connect(ctx, conn)
}

// watch waits until an agent is lost or the testbed closed.
func (h *Hosts) watch(e *end) {
	select {
	case <-e.client.Done():
		h.lose(e, e.client.Err())
	case <-h.closing:
	}
}

// lose keeps why the first end was lost.
func (h *Hosts) lose(e *end, why error) {
	what := "agent of"
	if e.client == nil {
		what = "server at"
	}
	h.setLost(&testbed.Fault{Err: fmt.Errorf("the %s %s is gone: %w", what, e.Name, why)})
}

// source and destination are the ends; both were reached.
func (h *Hosts) source() *end      { return h.ends[h.e.Source] }
func (h *Hosts) destination() *end { return h.ends[h.e.Destination] }

// Info says where the paths are. Ends on one machine share its CPUs, as those of a lab do.
func (h *Hosts) Info() result.Testbed {
	bed := result.Testbed{Kind: result.TestbedHosts, Name: h.inventory.Name}
	if oneMachine(h.source(), h.destination()) {
		bed.Relative = true
		bed.Note = "the endpoints share one machine: absolute figures say as much about it as about the path"
	}
	for _, e := range []*end{h.source(), h.destination()} {
		bed.Endpoints = append(bed.Endpoints, e.info())
	}
	for _, p := range h.places {
		bed.Paths = append(bed.Paths, p.info())
	}
	return bed
}

// Environment is empty: each end has its own, in Info.
func (h *Hosts) Environment() map[string]string { return nil }

// Facts are what is not as it should be, and does not keep anybody from measuring.
func (h *Hosts) Facts() []string {
	var facts []string
	for _, f := range h.findings {
		if f.Severity == testbed.Warning {
			facts = append(facts, f.String())
		}
	}
	return facts
}

// Paths are those of the experiment.
func (h *Hosts) Paths() []testbed.Path {
	paths := make([]testbed.Path, len(h.places))
	for i, p := range h.places {
		paths[i] = h.asTestbed(p)
	}
	return paths
}

// Agent is that of an endpoint.
func (h *Hosts) Agent(endpoint string) (testbed.Agent, error) {
	if e := h.ends[endpoint]; e != nil && e.client != nil {
		return e.client, nil
	}
	return nil, fmt.Errorf("no agent was reached at %q", endpoint)
}

// Done is closed when an end is lost.
func (h *Hosts) Done() <-chan struct{} { return h.lost.Done() }

// Err says which end was lost.
func (h *Hosts) Err() error { return context.Cause(h.lost) }

// Close brings switches back to what they were at, and ends the agents and everything that
// they do. A second Close does nothing.
func (h *Hosts) Close() error {
	select {
	case <-h.closing:
		return nil
	default:
		close(h.closing)
	}
	h.watching.Wait()
	metered := h.meters.close()
	var restored, err error
	if h.switcher != nil {
		_, restored = h.switcher.Restore(context.Background())
	}
	for _, e := range h.ends {
		if e.client != nil {
			err = errors.Join(err, e.client.Close())
		}
	}
	if h.Err() != nil {
		return restored // closing a connection that broke tells nothing new
	}
	return errors.Join(restored, metered, err)
}
