package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hopbench/hopbench/internal/agent"
	"github.com/hopbench/hopbench/internal/clock"
	"github.com/hopbench/hopbench/internal/event"
	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/fleet/bus"
	"github.com/hopbench/hopbench/internal/fleet/collect"
	"github.com/hopbench/hopbench/internal/fleet/join"
	"github.com/hopbench/hopbench/internal/fleet/ledger"
	"github.com/hopbench/hopbench/internal/fleet/samples"
	"github.com/hopbench/hopbench/internal/fleet/servicebus/servicebustest"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, servicebustest.Renewers) }

// yard is a fleet to which machines that are simulated join.
type yard struct {
	*Fleet
	secret join.Secret
	notes  chan string
	// traces is what machines see that trace; nil where none can.
	traces func(name string, to netip.AddrPort) []measurement.TraceHop
	close  func() error
	events *event.Stream
	book   *paper // of newYard: its ledger
}

// Close closes the fleet, once.
func (y *yard) Close() error { return y.close() }

func newYard(t *testing.T, wait time.Duration) *yard {
	t.Helper()
	book := &paper{seats: map[int]ledger.Seat{}}
	y := yardWith(t, wait, nil, book)
	y.book = book
	return y
}

func yardWith(t *testing.T, wait time.Duration, taken *collect.Collector, seats ledger.Keeper) *yard {
	t.Helper()
	y := &yard{notes: make(chan string, 64), events: event.NewStream()}
	var err error
	y.secret, _, err = join.Open(filepath.Join(t.TempDir(), "fw.join"), "fw")
	testutil.OK(t, err)
	port, err := testutil.FreePort()
	testutil.OK(t, err)
	y.Fleet, err = Open(t.Context(), Options{
		Secret: y.secret, Samples: taken, Run: "fw-1", Ledger: seats, OnEvent: y.events.Publish, OnNote: func(note string) {
			select {
			case y.notes <- note:
			default:
			}
		},
		Inventory: &inventory.Inventory{
			Name:   "fw",
			Broker: &inventory.Broker{Listen: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port), Wait: wait, MaxAgents: 16},
			Endpoints: []inventory.Endpoint{
				{Name: "vm1", Reach: inventory.Reach{Scheme: inventory.ReachFleet, Label: "role=client"}, EgressBitsPerSecond: 10e9},
				{Name: "vm2", Reach: inventory.Reach{Scheme: inventory.ReachFleet, Label: "role=server"}},
			},
			Paths: []inventory.Path{
				{Name: "direct", Network: netip.MustParsePrefix("10.0.0.0/24"), DSCP: -1},
				{Name: "firewall", Network: netip.MustParsePrefix("10.0.1.0/24"), DSCP: 10},
			},
		},
	})
	testutil.OK(t, err)
	y.close = sync.OnceValue(y.Fleet.Close)
	t.Cleanup(func() { testutil.OK(t, y.Close()) })
	return y
}

func pairsOf(t *testing.T, pairs int) *experiment.Experiment {
	t.Helper()
	e, err := experiment.Load("fw.yaml", fmt.Appendf(nil, `format: hopbench.experiment/1
name: fw
endpoints: [{name: vm1}, {name: vm2}]
source: vm1
destination: vm2
baseline: direct
pairs: %d
paths:
  - {name: direct, hops: [{type: link}]}
  - {name: firewall, hops: [{type: router, name: fw}]}
tests: [{name: latency, kind: rr, duration: 1s}]
`, pairs))
	testutil.OK(t, err)
	return e.OnHosts()
}

// machines have machines join that reach whoever they are told to, and wait until they are there.
func (y *yard) machines(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		y.machine(t, name, reaches)
	}
	y.joined(t, names...)
}

// machine joins until the test ends or stop is called, and proves what it is told to: a client,
// as c1, at 10.0.0.11 and 10.0.1.11, or a server, as s1, at 10.0.0.21 and 10.0.1.21.
func (y *yard) machine(t *testing.T, name string, prove func(probe.Request) error) (stop func()) {
	t.Helper()
	label, host := "role=client", 10+name[1]-'0'
	if name[0] == 's' {
		label, host = "role=server", 20+name[1]-'0'
	}
	coder, err := samples.NewCoder()
	testutil.OK(t, err)
	return y.agent(t, name, label, nil, agent.Options{Lease: time.Minute, Samples: samples.NewOutbox(coder, 1<<20), Simulated: y.simulated(name, host, prove)})
}

// simulated is a machine with the host part of its addresses.
func (y *yard) simulated(name string, host byte, prove func(probe.Request) error) *agent.Simulation {
	return &agent.Simulation{
		Hello: agent.Hello{Host: name, HostID: name, Interfaces: []agent.Interface{{
			Name: "eth0", Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, host}), netip.AddrFrom4([4]byte{10, 0, 1, host})},
		}}},
		Clock: clock.Start(),
		Run: func(_ context.Context, r probe.Request, _ func(measurement.Progress)) (measurement.Outcome, error) {
			if r.Spec.Kind == measurement.Trace {
				if y.traces == nil {
					return measurement.Outcome{}, errors.New("operation not permitted")
				}
				if r.Watch != nil {
					return measurement.Outcome{}, errors.New("a trace is no test of which anything is kept")
				}
				return measurement.Outcome{Hops: y.traces(name, r.Target)}, nil
			}
			if r.Watch != nil {
				r.Watch(time.Now(), []probe.ReadFlow{func() (probe.FlowCount, bool) { return probe.FlowCount{Bytes: 1000}, true }})()
			}
			return measurement.Outcome{Metrics: measurement.Metrics{"seen": 1}}, nil
		},
		Prove: func(_ context.Context, r probe.Request) (probe.Proof, error) {
			return probe.Proof{Local: r.Target, Client: r.Target, Server: r.Target, ReceivedTTL: 62}, prove(r)
		},
	}
}

// agent joins until the test ends or stop is called. Its link goes through what wrap makes of
// it, which may be nil.
func (y *yard) agent(t *testing.T, name, label string, wrap func(io.ReadWriteCloser) io.ReadWriteCloser, o agent.Options) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- bus.Join(ctx, bus.AgentOptions{
			Address: y.Addr().String(), File: y.secret.File, Name: name, Hello: bus.Hello{Version: "test", Labels: []string{label}},
			Serve: func(ctx context.Context, link io.ReadWriteCloser) error {
				if wrap != nil {
					link = wrap(link)
				}
				return agent.Serve(ctx, link, o)
			},
		})
	}()
	ended := false
	stop = func() {
		if !ended {
			ended = true
			cancel()
			testutil.OK(t, <-done)
		}
	}
	t.Cleanup(stop)
	return stop
}

func reaches(probe.Request) error { return nil }

// Pairs are made of machines by their labels and names, and each destination listens where a
// path leads; a machine that goes is named, and the next build takes the spare.
func TestBuild(t *testing.T) {
	y := newYard(t, time.Minute)
	stop := y.machine(t, "s1", reaches)
	y.machines(t, "c2", "c1", "s2")
	var last []Role
	bed, err := y.Build(t.Context(), pairsOf(t, 2), func(roles []Role) { last = roles })
	testutil.OK(t, err)
	if len(last) != 2 || !last[0].ready() || !last[1].ready() {
		t.Errorf("roles %v", last)
	}
	for i, p := range bed.Paths() {
		if p.Limits.SourceEgressBitsPerSecond != 10e9 || len(p.Pairs) != 2 {
			t.Fatalf("path %+v", p)
		}
		for k, want := range []string{"c1 to s1", "c2 to s2"} {
			at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i), byte(21 + k)}), measurement.DefaultPort)
			if got := p.Pairs[k]; got.String() != want || got.Request.Target != at || got.Request.Token == "" || got.Request.Spec.DSCP != 10*i {
				t.Errorf("path %s, pair %d: %+v", p.Name, k, got)
			}
		}
	}
	info := bed.Info()
	if info.Kind != result.TestbedFleet || info.Relative || len(info.Endpoints) != 4 || info.Paths[1].To != "10.0.1.0/24" {
		t.Errorf("info %+v", info)
	}
	for i, want := range []float64{10e9, 10e9, 0, 0} { // of both clients, and of both servers
		if got := info.Endpoints[i].EgressBitsPerSecond; got != want {
			t.Errorf("%s may send %v bit/s, want %v", info.Endpoints[i].Name, got, want)
		}
	}
	source, err := bed.Agent("c1")
	testutil.OK(t, err)
	if o, err := source.Run(t.Context(), bed.Paths()[0].Pairs[0].Request, nil); err == nil || !strings.Contains(err.Error(), "kind") {
		t.Errorf("a test without a kind: %+v, %v", o, err)
	}
	stop()
	<-bed.Done()
	if err := bed.Err(); err == nil || !strings.Contains(err.Error(), "machine s1 is gone") {
		t.Error(err)
	}
	for r := y.events.Read(0); y.events.State().Events[event.Vacated] == 0; {
		_, err := r.Next(t.Context())
		testutil.OK(t, err)
	}
	if now := y.events.State(); now.Events[event.Joined] != 4 || now.Events[event.Leased] != 2 || now.Events[event.Vacated] != 1 || now.Events[event.Queued] < 2 || now.Fleet.Seats.Waiting != 0 || now.Fleet.Seats != (event.Seats{Leased: 1, Lost: 1}) {
		t.Errorf("told %v, %+v", now.Events, now.Fleet)
	}
	testutil.OK(t, bed.Close())
	y.machine(t, "s3", reaches)
	bed, err = y.Build(t.Context(), pairsOf(t, 2), nil)
	testutil.OK(t, err)
	if got := bed.Paths()[0].Pairs; got[0].Destination != "s3" || got[1].Destination != "s2" {
		t.Errorf("pairs %v", got)
	}
	testutil.OK(t, bed.Close())
}

// A trace of each source proves its paths, if it shows where they end, and the time to live
// those of the others.
func TestTraced(t *testing.T) {
	y := newYard(t, time.Minute)
	cannot := ""
	y.traces = func(name string, to netip.AddrPort) []measurement.TraceHop {
		hops := []measurement.TraceHop{{TTL: 1, Address: "10.9.9." + name[1:]}, {TTL: 2}, {TTL: 3, Address: to.Addr().String(), Reached: true}}
		if name == cannot {
			return hops[:2]
		}
		return hops
	}
	y.machines(t, "c1", "c2", "s1", "s2")
	for _, who := range []string{"", "c2"} {
		cannot = who
		bed, err := y.Build(t.Context(), pairsOf(t, 2), nil)
		testutil.OK(t, err)
		for i, place := range bed.Info().Paths {
			pairs := bed.Paths()[i].Pairs
			for k, p := range pairs {
				before := p.Expect.Before
				if p.Expect.Traced != (p.Source != cannot) || before.ReceivedTTL != 62 || p.Expect.Traced && (len(before.Hops) != 3 || before.Hops[0].Address != fmt.Sprint("10.9.9.", k+1)) {
					t.Errorf("path %s, pair %v: %+v, before %+v", place.Name, p, p.Expect, before)
				}
			}
			if want := map[string]result.PathProof{"": result.ProofTrace, "c2": result.ProofTTL}[cannot]; place.Proof != want {
				t.Errorf("path %s is proven by %s, want %s", place.Name, place.Proof, want)
			}
		}
		facts := strings.Join(bed.Facts(), "\n")
		if says := strings.Contains(facts, "Path direct: 1 of 2 sources cannot trace it, c2 (the trace does not reach it)"); says != (cannot != "") {
			t.Errorf("facts: %s", facts)
		}
		testutil.OK(t, bed.Close())
	}
	y.Inventory.Paths[0].Proof = result.ProofTrace
	y.Inventory.Paths[1].Expect.Hops = 2
	_, err := y.Build(t.Context(), pairsOf(t, 2), nil)
	for _, want := range []string{"path direct of c2 to s2: must be proven by a trace, but the trace does not reach it", "path firewall of c1 to s1: a trace shows 3 hops, and `expect:` says 2"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
}

// Who is missing is named, and what keeps machines from measuring, of all at once.
func TestBuildFails(t *testing.T) {
	y := newYard(t, time.Second)
	y.machine(t, "c1", func(probe.Request) error { return errors.New("no route") })
	y.agent(t, "x1", "role=sever", nil, agent.Options{Lease: time.Minute, Simulated: y.simulated("x1", 31, reaches)})
	y.joined(t, "c1", "x1")
	if _, err := y.Build(t.Context(), pairsOf(t, 2), nil); err == nil ||
		!strings.Contains(err.Error(), "vm1 (role=client): 1 of 2 machines, c1; vm2 (role=server): 0 of 2 machines; joined with another --label: x1 (role=sever); start") {
		t.Error(err)
	}
	y.Inventory.Broker.Wait = time.Minute
	y.machine(t, "c2", func(probe.Request) error { return errors.New("no route") })
	y.machines(t, "s1", "s2")
	_, err := y.Build(t.Context(), pairsOf(t, 2), nil)
	for _, want := range []string{"machine c1 does not reach s1 at 10.0.0.21:5201: ", "machine c2 does not reach s2 at 10.0.1.22:5201: ", "no route"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
	y.Inventory.Paths[1].Network = netip.MustParsePrefix("10.9.0.0/16")
	if _, err := y.Build(t.Context(), pairsOf(t, 2), nil); err == nil || !strings.Contains(err.Error(), "path firewall: machine s1 has no address in 10.9.0.0/16") {
		t.Error(err)
	}
}

// A machine with the labels of both ends is a source, and no pair with itself.
func TestBothLabels(t *testing.T) {
	y := newYard(t, time.Minute)
	for _, m := range []*member{{labels: []string{"role=client", "role=server"}}, {labels: []string{"role=server"}}, {labels: []string{"role=client", "role=server"}}, {labels: []string{"role=server"}}} {
		m.Name = fmt.Sprint("m", len(y.members))
		y.members[m.Name] = m
	}
	sources, destinations, err := y.gather(t.Context(), pairsOf(t, 2), nil)
	testutil.OK(t, err)
	if sources[0].Name != "m0" || sources[1].Name != "m2" || destinations[0].Name != "m1" || destinations[1].Name != "m3" {
		t.Errorf("%s to %s, %s to %s", sources[0].Name, destinations[0].Name, sources[1].Name, destinations[1].Name)
	}
}
