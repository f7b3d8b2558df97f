package bus

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/sync/errgroup"

	"github.com/hopbench/hopbench/internal/fleet/seat"
	"github.com/hopbench/hopbench/internal/fleet/seat/seattest"
	"github.com/hopbench/hopbench/internal/testutil"
)

// seatCluster is servers that keep each seat thrice, if they are three.
type seatCluster struct {
	t       *testing.T
	options []server.Options
	servers []*server.Server
}

func startSeatCluster(t *testing.T, size int, alter ...func(*server.Options)) *seatCluster {
	t.Helper()
	c := &seatCluster{t: t, options: make([]server.Options, size), servers: make([]*server.Server, size)}
	first, err := testutil.FreePorts(2 * size)
	testutil.OK(t, err)
	var routes []*url.URL
	for i := range c.options {
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", int(first)+size+i)})
	}
	for i := range c.options {
		c.options[i] = server.Options{
			ServerName: fmt.Sprint("node-", i), Port: int(first) + i, StoreDir: t.TempDir(),
			Cluster: server.ClusterOpts{Name: "seats", Host: "127.0.0.1", Port: int(first) + size + i},
			Routes:  routes,
		}
		for _, do := range alter {
			do(&c.options[i])
		}
		c.start(i)
	}
	t.Cleanup(func() {
		for _, s := range c.servers {
			endSeatServer(s)
		}
	})
	return c
}

func (c *seatCluster) start(i int) { c.servers[i] = startSeatServer(c.t, c.options[i]) }

// urls are those of all servers.
func (c *seatCluster) urls() string {
	var all []string
	for _, o := range c.options {
		all = append(all, fmt.Sprintf("nats://127.0.0.1:%d", o.Port))
	}
	return strings.Join(all, ",")
}

// ready waits until the cluster makes a queue, and takes it away.
func (c *seatCluster) ready(b seattest.Broker) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	for {
		q, err := b.Open(ctx, "ready", time.Minute)
		if err == nil {
			testutil.OK(c.t, q.(*SeatQueue).Remove(ctx))
			testutil.OK(c.t, q.Close())
			return
		}
		if ctx.Err() != nil {
			c.t.Fatal(err)
		}
	}
}

func TestBrokersNATSCluster(t *testing.T) {
	leftovers(t)
	c := startSeatCluster(t, 3)
	js := seatConnection(t, c.urls())
	// All at once: it remembers the stream, and nothing of what was in it.
	b := seatBroker(js, 5000, 3, func() error {
		for _, s := range c.servers {
			endSeatServer(s)
		}
		for i := range c.servers {
			c.start(i)
		}
		return nil
	})
	c.ready(b)
	seattest.Run(t, b)
}

// A queue is opened at a cluster that has no leader, or lacks a node, as soon as it has them.
func TestBrokersNATSClusterElects(t *testing.T) {
	leftovers(t)
	c := startSeatCluster(t, 3)
	js := seatConnection(t, c.urls())
	c.ready(seatBroker(js, 1, 3, nil))
	for _, s := range c.servers[1:] {
		endSeatServer(s)
	}
	o := SeatOptions{Run: "elects", Lease: time.Minute, Size: 1, Replicas: 3}
	if q, err := openSeats(t.Context(), js, o); !passes(err) {
		t.Fatal(q, err)
	}
	opened := make(chan error, 1)
	go func() {
		q, err := (&Coordinator{conn: js.Conn()}).Seats(t.Context(), o)
		if err == nil {
			err = q.Close()
		}
		opened <- err
	}()
	for i := range c.servers[1:] {
		c.start(1 + i)
	}
	testutil.OK(t, <-opened)
}

// Each seat of a cluster has three replicas, also where its servers do not tell of each other, as
// behind one address; one where there are no three servers.
func TestBrokersNATSClusterAtOneAddress(t *testing.T) {
	leftovers(t)
	for size, want := range map[int]int{2: 1, 3: 3} {
		c := startSeatCluster(t, size, func(o *server.Options) { o.Cluster.NoAdvertise = true })
		js := seatConnection(t, fmt.Sprintf("nats://127.0.0.1:%d", c.options[0].Port))
		q, err := (&Coordinator{conn: js.Conn()}).Seats(t.Context(), SeatOptions{Run: "run", Lease: time.Minute, Size: 1})
		testutil.OK(t, err)
		stream, err := js.Stream(t.Context(), q.name)
		testutil.OK(t, err)
		if got := stream.CachedInfo().Config.Replicas; got != want {
			t.Errorf("%d servers: %d replicas, want %d", size, got, want)
		}
		testutil.OK(t, q.Close())
	}
}

// Clients lease, return and finish seats while one node after the other is killed and
// comes back. No generation is leased twice, and no seat is lost.
func TestBrokersNATSNodeDies(t *testing.T) {
	leftovers(t)
	c := startSeatCluster(t, 3)
	js := seatConnection(t, c.urls())
	c.ready(seatBroker(js, 1, 3, nil))
	const seats, holders, kills = 200, 20, 4
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	q, err := openSeats(ctx, js, SeatOptions{Run: "nodes", Lease: 3 * time.Second, Size: seats, Replicas: 3})
	testutil.OK(t, err)
	defer q.Close()

	// again does something until its outcome is known.
	again := func(do func(context.Context) error) error {
		for {
			if err := do(ctx); err == nil || errors.Is(err, seat.ErrLost) || ctx.Err() != nil {
				return err
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	var mu sync.Mutex
	type generation struct {
		id string
		g  uint64
	}
	leased, done := map[generation]bool{}, map[string]uint64{}
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(leased)
	}
	served, finish := context.WithCancel(ctx)
	defer finish()
	killed := make(chan struct{})
	var g errgroup.Group
	g.Go(func() error {
		defer close(killed)
		for i := range kills {
			node := i % len(c.servers)
			endSeatServer(c.servers[node])
			c.start(node)
			// The next dies once this one serves again, and seats went from hand to hand.
			had := count()
			for !c.servers[node].ReadyForConnections(time.Second) || !c.servers[node].JetStreamIsCurrent() || count() < had+100 {
				if ctx.Err() != nil {
					return fmt.Errorf("after node %d was killed: current %v, %d leases: %w", node, c.servers[node].JetStreamIsCurrent(), count()-had, ctx.Err())
				}
				time.Sleep(20 * time.Millisecond)
			}
		}
		return nil
	})
	for i := range seats {
		g.Go(func() error {
			s := seat.Seat{ID: fmt.Sprint("seat-", i), Generation: 1}
			return again(func(ctx context.Context) error { return q.Offer(ctx, s) })
		})
	}
	for i := range holders {
		g.Go(func() error {
			r := rand.New(rand.NewPCG(2, uint64(i)))
			for {
				l, err := q.Lease(served)
				var short *seat.ShortLeaseError
				switch {
				case served.Err() != nil && err != nil:
					return ctx.Err()
				case errors.As(err, &short):
					continue
				case err != nil:
					return err
				}
				s := l.Seat()
				mu.Lock()
				twice := leased[generation{s.ID, s.Generation}] || done[s.ID] > 0 && s.Generation > done[s.ID]
				leased[generation{s.ID, s.Generation}] = true
				mu.Unlock()
				if twice {
					return fmt.Errorf("generation %d of %s is leased twice, or was done as %d", s.Generation, s.ID, done[s.ID])
				}
				select { // seats last as long as nodes die
				case <-killed:
				default:
					if r.IntN(2) == 0 {
						err = again(l.Return)
						break
					}
					time.Sleep(50 * time.Millisecond)
					err = again(l.Renew)
				}
				select {
				case <-killed:
					mu.Lock()
					if err = again(l.Done); err == nil {
						done[s.ID] = s.Generation
						if len(done) == seats {
							finish()
						}
					}
					mu.Unlock()
				default:
				}
				if err != nil && !errors.Is(err, seat.ErrLost) {
					return err
				}
			}
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatalf("%d of %d seats are done: %v", len(done), seats, err)
	}
	t.Logf("%d leases of %d seats", len(leased), seats)
}
