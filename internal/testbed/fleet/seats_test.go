package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/agent"
	"github.com/hopbench/hopbench/internal/fleet/bus"
	"github.com/hopbench/hopbench/internal/fleet/ledger"
	"github.com/hopbench/hopbench/internal/fleet/seat"
	"github.com/hopbench/hopbench/internal/fleet/subject"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/testutil"
)

// paper is a ledger's keeper.
type paper struct {
	mu    sync.Mutex
	seats map[int]ledger.Seat
}

func (p *paper) Seats(context.Context) ([]ledger.Seat, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.seats)), nil
}

func (p *paper) PutSeats(_ context.Context, all []ledger.Seat) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range all {
		p.seats[s.ID] = s
	}
	return nil
}

func (p *paper) copy() *paper {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &paper{seats: maps.Clone(p.seats)}
}

// says checks that seats are in the ledger.
func (p *paper) says(t *testing.T, want ...ledger.Seat) {
	t.Helper()
	for _, w := range want {
		if got := p.copy().seats[w.ID]; got != w {
			t.Errorf("the ledger says %+v, want %+v", got, w)
		}
	}
}

// leased is a seat that a client has.
func leased(id int, generation uint64, client, server string) ledger.Seat {
	return ledger.Seat{ID: id, Server: server, Generation: generation, Client: client, State: ledger.Leased}
}

// joined waits for machines, however long they take to join.
func (y *yard) joined(t *testing.T, names ...string) {
	t.Helper()
	lacks := func() (string, <-chan struct{}) {
		y.mu.Lock()
		defer y.mu.Unlock()
		for _, name := range names {
			if y.members[name] == nil {
				return name, y.changed
			}
		}
		return "", nil
	}
	for who, changed := lacks(); who != ""; who, changed = lacks() {
		select {
		case <-changed:
		case <-t.Context().Done():
			t.Fatalf("machine %s does not join", who)
		}
	}
}

func (y *yard) build(t *testing.T, pairs int) *Bed {
	t.Helper()
	bed, err := y.Build(t.Context(), pairsOf(t, pairs), nil)
	testutil.OK(t, err)
	return bed
}

// A dead client's seat goes to a spare, and that of a dead server to another, each in the
// next generation and with another token. Pairs that are whole stay as they are.
func TestSeatsOfTheDead(t *testing.T) {
	y := newYard(t, time.Minute)
	stopClient, stopServer := y.machine(t, "c2", reaches), y.machine(t, "s1", reaches)
	y.machines(t, "c1", "c3", "s2")
	y.joined(t, "c2")
	bed := y.build(t, 2)
	y.book.says(t, leased(1, 1, "c1", "s1"), leased(2, 1, "c2", "s2"))
	first := bed.Paths()[0].Pairs
	if first[0].Request.Token == first[1].Request.Token {
		t.Error("two seats have one token")
	}
	stopClient()
	<-bed.Done()
	testutil.OK(t, bed.Close())
	bed = y.build(t, 2)
	y.book.says(t, leased(1, 1, "c1", "s1"), leased(2, 2, "c3", "s2"))
	second := bed.Paths()[0].Pairs
	if second[0].Request.Token != first[0].Request.Token || second[1].Request.Token == first[1].Request.Token || second[1].String() != "c3 to s2" {
		t.Errorf("pairs %v after %v", second, first)
	}
	y.machines(t, "s3")
	stopServer()
	<-bed.Done()
	testutil.OK(t, bed.Close())
	bed = y.build(t, 2)
	y.book.says(t, leased(1, 2, "c1", "s3"), leased(2, 2, "c3", "s2"))
	testutil.OK(t, bed.Close())
	testutil.OK(t, y.Close())
	if got := y.Stopped(); !slices.Equal(got, []string{"c2", "s1"}) {
		t.Errorf("%v stopped, not c2 and s1", got)
	}
	y.book.says(t, ledger.Seat{ID: 1, Server: "s3", Generation: 2, State: ledger.Done}, ledger.Seat{ID: 2, Server: "s2", Generation: 2, State: ledger.Done})
}

// sleeper is a machine that can sleep.
type sleeper struct {
	awake sync.RWMutex // held for writing while it sleeps
}

// link is one of the sleeper's.
func (s *sleeper) link(link io.ReadWriteCloser) io.ReadWriteCloser { return asleep{link, s} }

type asleep struct {
	io.ReadWriteCloser
	*sleeper
}

func (a asleep) Read(b []byte) (int, error) {
	n, err := a.ReadWriteCloser.Read(b)
	a.awake.RLock()
	defer a.awake.RUnlock()
	return n, err
}

func (a asleep) Write(b []byte) (int, error) {
	a.awake.RLock()
	defer a.awake.RUnlock()
	return a.ReadWriteCloser.Write(b)
}

// sleeps has the machine sleep until the returned function is called.
func (s *sleeper) sleeps() (wake func()) {
	s.awake.Lock()
	return sync.OnceFunc(s.awake.Unlock)
}

// shortestLease is as short as one may be with few machines.
const shortestLease = 3 * time.Second

// The seat of a client that sleeps goes to a spare; awake, it is a spare itself.
func TestAsleep(t *testing.T) {
	y := newYard(t, time.Minute)
	y.Inventory.Queue.Lease = shortestLease
	s := &sleeper{}
	y.agent(t, "c1", "role=client", s.link, agent.Options{Lease: time.Minute, Simulated: y.simulated("c1", 11, reaches)})
	y.machine(t, "s1", reaches)
	bed := y.build(t, 1)
	y.machine(t, "c2", reaches)
	wake := s.sleeps()
	t.Cleanup(wake)
	for bed.Paths()[0].Pairs[0].Source == "c1" {
		<-bed.Done()
		if err := bed.Err(); err == nil || !strings.Contains(err.Error(), "nothing was heard of it for 3s") {
			t.Error(err)
		}
		testutil.OK(t, bed.Close())
		bed = y.build(t, 1)
	}
	if got := y.book.copy().seats[1]; got.Client != "c2" || got.Generation < 2 || got.State != ledger.Leased {
		t.Errorf("the ledger says %+v", got)
	}
	wake()
	y.joined(t, "c1", "c2")
	testutil.OK(t, bed.Close())
}

// between stands between a fleet and its queue.
type between struct {
	seat.Queue
	offer   func(context.Context, seat.Seat) error
	lease   func(context.Context) (seat.Lease, error)
	emptied chan struct{}
}

func (b *between) Offer(ctx context.Context, s seat.Seat) error {
	if b.offer != nil {
		return b.offer(ctx, s)
	}
	return b.Queue.Offer(ctx, s)
}

func (b *between) Lease(ctx context.Context) (seat.Lease, error) {
	if b.lease != nil {
		return b.lease(ctx)
	}
	return b.Queue.Lease(ctx)
}

func (b *between) Emptied() <-chan struct{} {
	if b.emptied != nil {
		return b.emptied
	}
	return b.Queue.Emptied()
}

// opens opens a queue.
type opens func(ctx context.Context, run string, lease time.Duration) (seat.Queue, error)

// through has the queue of a fleet be what wrap makes of one that is opened.
func (y *yard) through(open opens, wrap func(seat.Queue) seat.Queue) {
	y.openQueue = func(ctx context.Context, run string, lease time.Duration) (seat.Queue, error) {
		q, err := open(ctx, run, lease)
		if err != nil {
			return nil, err
		}
		return wrap(q), nil
	}
}

// A coordinator that was killed left seats in the queue, leased and not. The one that goes on
// with its ledger offers all of them, in the next generation, before it leases any.
func TestGoesOn(t *testing.T) {
	outside := newYard(t, time.Minute) // whose broker has the queue
	open := func(ctx context.Context, run string, lease time.Duration) (seat.Queue, error) {
		return outside.bus.Seats(ctx, bus.SeatOptions{Run: run, Lease: lease, Size: 100, Replicas: 1})
	}
	killed := newYard(t, time.Minute)
	killed.through(open, func(q seat.Queue) seat.Queue {
		return &between{Queue: q, lease: func(ctx context.Context) (seat.Lease, error) {
			l, err := q.Lease(ctx)
			if err != nil {
				return nil, err
			}
			return left{l}, nil
		}}
	})
	killed.machines(t, "c1", "c2", "s1", "s2")
	bed := killed.build(t, 2)
	tokens := []string{bed.Paths()[0].Pairs[0].Request.Token, bed.Paths()[0].Pairs[1].Request.Token}
	testutil.OK(t, bed.Close())
	atDeath := killed.book.copy()
	testutil.OK(t, killed.Close())

	y := yardWith(t, time.Minute, nil, atDeath)
	var offered []seat.Seat
	leasedEarly := false
	var mu sync.Mutex
	y.through(open, func(q seat.Queue) seat.Queue {
		return &between{Queue: q, offer: func(ctx context.Context, s seat.Seat) error {
			mu.Lock()
			offered = append(offered, s)
			mu.Unlock()
			return q.Offer(ctx, s)
		}, lease: func(ctx context.Context) (seat.Lease, error) {
			mu.Lock()
			leasedEarly = leasedEarly || len(offered) < 2
			mu.Unlock()
			return q.Lease(ctx)
		}}
	})
	y.machines(t, "c1", "c2", "s1", "s2")
	bed = y.build(t, 2)
	atDeath.says(t, leased(1, 2, "c1", "s1"), leased(2, 2, "c2", "s2"))
	mu.Lock()
	if leasedEarly || len(offered) != 2 || offered[0].Generation != 2 || offered[1].Generation != 2 {
		t.Errorf("offered %v; leased before that: %v", offered, leasedEarly)
	}
	mu.Unlock()
	for i, p := range bed.Paths()[0].Pairs {
		if p.Request.Token == tokens[i] {
			t.Errorf("pair %v has the token that it had", p)
		}
	}
	testutil.OK(t, bed.Close())
}

// left is a lease whose holder is killed.
type left struct{ seat.Lease }

func (left) Done(context.Context) error { return nil }

// What another coordinator offers in a queue is replaced, once; one that does it again and
// again is named.
func TestTwoCoordinators(t *testing.T) {
	for times, want := range map[int]string{1: "", 100: "another coordinator works on the same run"} {
		y := newYard(t, time.Minute)
		more := times
		y.through(y.ownQueue, func(q seat.Queue) seat.Queue {
			return &between{Queue: q, offer: func(ctx context.Context, s seat.Seat) error {
				if more > 0 {
					more--
					s = seat.Seat{ID: s.ID, Generation: s.Generation + 1, Body: []byte("another's")}
				}
				return q.Offer(ctx, s)
			}}
		})
		y.machines(t, "c1", "c2", "s1", "s2")
		bed, err := y.Build(t.Context(), pairsOf(t, 1), nil)
		if want == "" {
			testutil.OK(t, err)
			y.book.says(t, leased(1, 3, "c1", "s1"))
			testutil.OK(t, bed.Close())
		} else if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
}

// Seats that a broker has lost before anybody had them are offered again.
func TestQueueLosesItsSeats(t *testing.T) {
	y := newYard(t, time.Minute)
	y.through(y.ownQueue, func(q seat.Queue) seat.Queue {
		emptied := make(chan struct{}, 1)
		return &between{Queue: q, emptied: emptied, offer: func(ctx context.Context, s seat.Seat) error {
			if s.Generation == 1 {
				select {
				case emptied <- struct{}{}:
				default:
				}
				return nil
			}
			return q.Offer(ctx, s)
		}}
	})
	y.machines(t, "c1", "c2", "s1", "s2")
	bed := y.build(t, 2)
	for id := 1; id <= 2; id++ {
		if got := y.book.copy().seats[id]; got.State != ledger.Leased || got.Generation < 2 {
			t.Errorf("the ledger says %+v", got)
		}
	}
	testutil.OK(t, bed.Close())
}

// A queue that takes seats and gives none is opened anew.
func TestMuteQueue(t *testing.T) {
	y := newYard(t, time.Minute)
	opened := 0
	y.through(y.ownQueue, func(q seat.Queue) seat.Queue {
		if opened++; opened > 1 {
			return q
		}
		return &between{Queue: q, lease: func(context.Context) (seat.Lease, error) { return nil, errMute }}
	})
	y.machines(t, "c1", "c2", "s1", "s2")
	bed := y.build(t, 2)
	y.book.says(t, leased(1, 2, "c1", "s1"), leased(2, 2, "c2", "s2"))
	testutil.OK(t, bed.Close())
}

// A lease that is lost although its client is well, as when the queue's broker starts again,
// is taken anew before the next trial, in the next generation.
func TestLeaseLost(t *testing.T) {
	y := newYard(t, time.Minute)
	var last seat.Lease
	y.through(y.ownQueue, func(q seat.Queue) seat.Queue {
		return &between{Queue: q, lease: func(ctx context.Context) (seat.Lease, error) {
			l, err := q.Lease(ctx)
			if err == nil {
				last = l
			}
			return l, err
		}}
	})
	y.machines(t, "c1", "c2", "s1", "s2")
	bed := y.build(t, 1)
	token := bed.Paths()[0].Pairs[0].Request.Token
	testutil.OK(t, bed.Begin(t.Context(), "b01"))
	if got := bed.Paths()[0].Pairs[0].Request.Token; got != token {
		t.Error("a pair that is whole has another token")
	}
	y.mu.Lock()
	q := y.seats.queue
	y.mu.Unlock()
	testutil.OK(t, q.Offer(t.Context(), last.Seat().Next()))
	<-last.Lost()
	testutil.OK(t, bed.Begin(t.Context(), "b02"))
	testutil.OK(t, bed.Begin(t.Context(), "b03"))
	if got := bed.Paths()[0].Pairs[0]; got.Request.Token == token || got.String() != "c1 to s1" {
		t.Errorf("pair %+v", got)
	}
	if got := y.book.copy().seats[1]; got.Generation < 2 || got.Client != "c1" {
		t.Errorf("the ledger says %+v", got)
	}
	select {
	case <-bed.Done():
		t.Error(bed.Err())
	default:
	}
	var err error
	for times := 1; err == nil; times++ {
		if times > mostStrays+1 {
			t.Fatal("somebody who takes all leases away is not named")
		}
		testutil.OK(t, q.Offer(t.Context(), last.Seat().Next()))
		<-last.Lost()
		err = bed.Begin(t.Context(), fmt.Sprint("b1", times))
	}
	if !errors.Is(err, errShared) {
		t.Error(err)
	}
	testutil.OK(t, bed.Close())
}

// A lease that is over before it is confirmed, or before a machine can give a sign of life, is
// refused and named.
func TestLeaseTooShort(t *testing.T) {
	y := newYard(t, time.Minute)
	y.machines(t, "c1", "c2", "s1", "s2")
	y.Inventory.Queue.Lease = shortestLease - 1
	if _, err := y.Build(t.Context(), pairsOf(t, 1), nil); err == nil || !strings.Contains(err.Error(), "write lease: 3s or more") {
		t.Error(err)
	}
	y = newYard(t, time.Minute)
	y.machines(t, "c1", "c2", "s1", "s2")
	short := &seat.ShortLeaseError{Lease: time.Second, RoundTrip: 2 * time.Second}
	y.through(y.ownQueue, func(q seat.Queue) seat.Queue {
		return &between{Queue: q, lease: func(context.Context) (seat.Lease, error) { return nil, short }}
	})
	if _, err := y.Build(t.Context(), pairsOf(t, 1), nil); !errors.Is(err, short) {
		t.Error(err)
	}
}

// A server that nobody reaches at the address that it says it has gives its place to a spare,
// and so does a client that reaches nobody; both are named. Without a spare that is the error.
func TestUnfit(t *testing.T) {
	y := newYard(t, time.Minute)
	lies := func(r probe.Request) error {
		if r.Target.Addr() == netip.MustParseAddr("10.0.1.21") {
			return errors.New("no route to host")
		}
		return nil
	}
	y.machine(t, "c1", lies)
	y.machine(t, "c2", lies)
	y.machines(t, "s1", "s2")
	if _, err := y.Build(t.Context(), pairsOf(t, 2), nil); err == nil || !strings.Contains(err.Error(), "path firewall: machine c1 does not reach s1 at 10.0.1.21:5201: ") {
		t.Error(err)
	}
	y.machines(t, "s3")
	bed := y.build(t, 2)
	if got := bed.Paths()[1].Pairs; got[0].String() != "c1 to s3" || got[1].String() != "c2 to s2" {
		t.Errorf("pairs %v", got)
	}
	y.noted(t, "machine s1 is not used: neither c1 nor c2 reaches it")
	testutil.OK(t, bed.Close())

	y = newYard(t, time.Minute)
	y.machine(t, "c1", func(probe.Request) error { return errors.New("no route to host") })
	y.machines(t, "c2", "c3", "s1", "s2")
	y.joined(t, "c1")
	bed = y.build(t, 2)
	if got := bed.Paths()[1].Pairs; got[0].String() != "c3 to s1" || got[1].String() != "c2 to s2" {
		t.Errorf("pairs %v", got)
	}
	y.noted(t, "machine c1 is not used: c2 reaches s1: path direct: machine c1 does not reach s1 at 10.0.0.21:5201: ")
	testutil.OK(t, bed.Close())
}

// The limits of a machine concern the tests in which it takes part: a server is pinged, and asked for
// nothing.
func TestLimitsOfAMachine(t *testing.T) {
	for limited, refused := range map[string]bool{"c1": true, "s1": false} {
		y := newYard(t, time.Minute)
		for name, label := range map[string]string{"c1": "role=client", "s1": "role=server"} {
			o := agent.Options{Lease: time.Minute, Simulated: y.simulated(name, name[0], reaches)}
			if name == limited {
				o.Limits.MaxDuration = 10 * time.Second
			}
			y.agent(t, name, label, nil, o)
		}
		e := pairsOf(t, 1)
		e.Tests[0].Spec = measurement.Spec{Kind: measurement.Ping, Count: 100, Interval: 1}
		bed, err := y.Build(t.Context(), e, nil)
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), "is refused by machine c1") {
			t.Errorf("with limits of %s: %v", limited, err)
		}
		if err == nil {
			testutil.OK(t, bed.Close())
		}
	}
}

// noted waits for a note.
func (y *yard) noted(t *testing.T, want string) {
	t.Helper()
	for {
		select {
		case note := <-y.notes:
			if strings.Contains(note, want) {
				return
			}
		case <-time.After(time.Minute):
			t.Fatalf("nobody said that %s", want)
		}
	}
}

// arrives has a machine join over no broker, until the test ends or its link is closed.
func (y *yard) arrives(t *testing.T, name, label string, m *agent.Simulation) (link io.Closer) {
	near, far := net.Pipe()
	var serving sync.WaitGroup
	serving.Go(func() {
		_ = agent.Serve(context.Background(), far, agent.Options{Lease: 10 * time.Minute, Simulated: m})
	})
	t.Cleanup(func() {
		_ = far.Close()
		serving.Wait()
	})
	y.arrived(bus.Arrival{Agent: subject.Agent{Fleet: "fw", Name: name, Key: name}, Hello: bus.Hello{Version: "test", Labels: []string{label}}, Link: near})
	return far
}

// All clients of one queue are served, each with a seat of its own, and the ledger is on the
// disk; some that die are replaced.
func TestSeatsOfThousands(t *testing.T) {
	pairs := testutil.Repeat(40, 5000)
	dead := max(2, pairs/100)
	st, err := store.Create(t.TempDir(), store.Head{Name: "fw"})
	testutil.OK(t, err)
	t.Cleanup(func() { testutil.OK(t, st.Close()) })
	y := yardWith(t, 10*time.Minute, nil, st)
	y.Inventory.Broker.MaxAgents = 2*pairs + dead
	y.Inventory.Queue.Lease = 5 * time.Minute
	e := pairsOf(t, 2)
	e.Pairs = pairs
	links := map[string]io.Closer{}
	join := func(name, label string, i int) {
		m := y.simulated(name, 1, reaches)
		m.Hello.Interfaces[0].Addresses = []netip.Addr{netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)})}
		links[name] = y.arrives(t, name, label, m)
	}
	y.Inventory.Paths[0].Network, y.Inventory.Paths[1].Network = netip.MustParsePrefix("10.0.0.0/16"), netip.MustParsePrefix("10.1.0.0/16")
	for i := range pairs + dead {
		join(fmt.Sprintf("c%05d", i), "role=client", i)
		if i < pairs {
			join(fmt.Sprintf("s%05d", i), "role=server", i)
		}
	}
	for _, died := range []int{0, dead} {
		for i := range died {
			testutil.OK(t, links[fmt.Sprintf("c%05d", 3*i)].Close())
		}
		for there := 0; there != pairs+dead-died; {
			all, changed := y.with("role=client")
			if there = len(all); there != pairs+dead-died {
				<-changed
			}
		}
		bed, err := y.Build(t.Context(), e, nil)
		testutil.OK(t, err)
		clients, servers, tokens := map[string]bool{}, map[string]bool{}, map[string]bool{}
		for _, p := range bed.Paths()[1].Pairs {
			clients[p.Source], servers[p.Destination], tokens[p.Request.Token] = true, true, true
		}
		if len(clients) != pairs || len(servers) != pairs || len(tokens) != pairs {
			t.Errorf("%d pairs have %d clients, %d servers and %d tokens", pairs, len(clients), len(servers), len(tokens))
		}
		all, err := st.Seats(t.Context())
		testutil.OK(t, err)
		for i, s := range all {
			p := bed.Paths()[0].Pairs[i]
			if s.ID != i+1 || s.Client != p.Source || s.Server != p.Destination || s.State != ledger.Leased {
				t.Errorf("the ledger says %+v of pair %v", s, p)
			}
		}
		if len(all) != pairs {
			t.Errorf("the ledger has %d seats", len(all))
		}
		testutil.OK(t, bed.Close())
	}
}
