package messages

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/hopbench/hopbench/internal/fleet/seat"
	"github.com/hopbench/hopbench/internal/fleet/seat/seattest"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// broker delivers messages in this process.
type broker struct {
	// locks has links outlive what the broker remembers.
	locks bool
	// far is how long it takes until a message is settled.
	far time.Duration

	mu     sync.Mutex
	queues map[string]*content // by the name of the run
}

type content struct {
	waiting []string
	links   []*memoryLink
	// slow has it deliver nothing for now, and delivered counts what it has.
	slow      bool
	delivered int
}

// serve delivers what waits to who asked. With the broker's mu.
func (m *content) serve() {
	for _, l := range m.links {
		for l.asked > 0 && len(m.waiting) > 0 && !m.slow && m.delivered < mostDeliveries {
			m.delivered++
			d := &memoryDelivery{l: l, text: m.waiting[0]}
			m.waiting = m.waiting[1:]
			l.asked--
			l.held[d] = true
			l.in <- d
		}
	}
}

// mostDeliveries ends what would go on for ever.
const mostDeliveries = 20_000

type memoryLink struct {
	b    *broker
	run  string
	lost func(Delivery)
	in   chan *memoryDelivery // as long as the largest crowd
	done chan struct{}
	end  func()

	asked int // with b.mu, as the next
	held  map[*memoryDelivery]bool
}

type memoryDelivery struct {
	l    *memoryLink
	text string
}

func (b *broker) of(run string) *content {
	m := b.queues[run]
	if m == nil {
		m = &content{}
		b.queues[run] = m
	}
	return m
}

func (b *broker) open(ctx context.Context, run string, lease time.Duration) (seat.Queue, error) {
	sent := time.Now()
	q, err := Open(ctx, Options{Run: run, Lease: lease, Dial: func(_ context.Context, lost func(Delivery)) (Link, error) {
		if took := time.Since(sent); took >= lease {
			return nil, &seat.ShortLeaseError{Lease: lease, RoundTrip: took}
		}
		return b.link(run, lost), nil
	}})
	if err != nil {
		return nil, err
	}
	return q, nil
}

func (b *broker) link(run string, lost func(Delivery)) *memoryLink {
	l := &memoryLink{b: b, run: run, lost: lost, in: make(chan *memoryDelivery, 1000), done: make(chan struct{}), held: map[*memoryDelivery]bool{}}
	l.end = sync.OnceFunc(func() { close(l.done) })
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.of(run)
	m.links = append(m.links, l)
	return l
}

var errEnded = errors.New("the link has ended")

func (l *memoryLink) Send(_ context.Context, text []byte) error {
	if !l.Alive() {
		return errEnded
	}
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	m := l.b.of(l.run)
	m.waiting = append(m.waiting, string(text))
	m.serve()
	return nil
}

func (l *memoryLink) Ask(n int) error {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	l.asked += n
	l.b.of(l.run).serve()
	return nil
}

func (l *memoryLink) Receive(ctx context.Context) (Delivery, error) {
	select {
	case d := <-l.in:
		return d, nil
	case <-l.done:
		return nil, errEnded
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *memoryLink) Alive() bool {
	select {
	case <-l.done:
		return false
	default:
		return true
	}
}

func (l *memoryLink) Close() error {
	l.end()
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	m := l.b.of(l.run)
	m.links = slices.DeleteFunc(m.links, func(other *memoryLink) bool { return other == l })
	for d := range l.held {
		m.waiting = append(m.waiting, d.text)
	}
	clear(l.held)
	m.serve()
	return nil
}

func (d *memoryDelivery) Text() []byte { return []byte(d.text) }

// settle takes a message from its link, and puts it back if it is to come again.
func (d *memoryDelivery) settle(again bool) error {
	time.Sleep(d.l.b.far)
	d.l.b.mu.Lock()
	defer d.l.b.mu.Unlock()
	if !d.l.held[d] {
		return errEnded
	}
	delete(d.l.held, d)
	if again {
		m := d.l.b.of(d.l.run)
		m.waiting = append(m.waiting, d.text)
		m.serve()
	}
	return nil
}

func (d *memoryDelivery) Accept(context.Context) error        { return d.settle(false) }
func (d *memoryDelivery) Release(context.Context) error       { return d.settle(true) }
func (d *memoryDelivery) Reject(context.Context, error) error { return d.settle(false) }

// restart has the broker forget everything.
func (b *broker) restart(context.Context) error {
	b.mu.Lock()
	before := b.queues
	b.queues = map[string]*content{}
	var gone []*memoryDelivery
	for run, m := range before {
		for _, l := range m.links {
			for d := range l.held {
				gone = append(gone, d)
			}
			clear(l.held)
			if b.locks {
				b.of(run).links = append(b.of(run).links, l)
			} else {
				defer l.end()
			}
		}
	}
	b.mu.Unlock()
	for _, d := range gone {
		if b.locks {
			d.l.lost(d)
		}
	}
	return nil
}

// The contract holds at a broker that remembers for as long as a connection lasts, as those
// of AMQP 1.0 do, and at one that locks messages, as Service Bus does.
func TestQueuesKeepTheContract(t *testing.T) {
	for name, locks := range map[string]bool{"connections": false, "locks": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &broker{locks: locks, queues: map[string]*content{}}
			seattest.Run(t, seattest.Broker{
				Open: b.open,
				Redeliver: func(_ context.Context, held seat.Lease) error {
					return held.(*lease).msg.Release(t.Context())
				},
				Stray: func(_ context.Context, run string, text []byte) error {
					b.mu.Lock()
					defer b.mu.Unlock()
					m := b.of(run)
					m.waiting = append(m.waiting, string(text))
					m.serve()
					return nil
				},
				Restart: b.restart,
				Crowd:   200,
			})
		})
	}
}

// A broker that was asked again and had only been slow has one request more than there are
// clients. A seat that nobody waits for takes up that one, and stays in the queue.
func TestAskedTooOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &broker{queues: map[string]*content{}}
		q, err := b.open(t.Context(), "run", time.Hour)
		testutil.OK(t, err)
		defer q.Close()
		m := b.of("run")
		m.slow = true
		testutil.OK(t, q.Offer(t.Context(), seat.Seat{ID: "1", Generation: 1}))
		time.AfterFunc(2*askAgainTime, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			m.slow = false
			m.serve()
		})
		_, err = q.Lease(t.Context())
		testutil.OK(t, err)
		testutil.OK(t, q.Offer(t.Context(), seat.Seat{ID: "2", Generation: 1}))
		synctest.Wait()
		b.mu.Lock()
		defer b.mu.Unlock()
		if m.delivered > 5 {
			t.Errorf("two seats were delivered %d times, and nobody waited for the second", m.delivered)
		}
	})
}

// lateLink is one that does not hear at once that it has ended.
type lateLink struct{ *memoryLink }

func (l lateLink) Receive(ctx context.Context) (Delivery, error) {
	d, err := l.memoryLink.Receive(ctx)
	if err != nil {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
	return d, err
}

// A seat that is offered over a link that has just ended is sent over the next.
func TestOfferOverALinkThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &broker{queues: map[string]*content{}}
		var links []lateLink
		q, err := Open(t.Context(), Options{Run: "run", Lease: time.Hour, Dial: func(_ context.Context, lost func(Delivery)) (Link, error) {
			l := lateLink{b.link("run", lost)}
			links = append(links, l)
			return l, nil
		}})
		testutil.OK(t, err)
		defer q.Close()
		links[0].end()
		testutil.OK(t, q.Offer(t.Context(), seat.Seat{ID: "1", Generation: 1}))
		if l, err := q.Lease(t.Context()); err != nil || l.Seat().Generation != 1 || len(links) != 2 {
			t.Errorf("%v, %v, over %d links", l, err, len(links))
		}
	})
}

// cutLink is one that takes messages no more, and does not end: as one of Service Bus, without
// a network.
type cutLink struct {
	*memoryLink
	cut *atomic.Bool
}

func (l cutLink) Send(ctx context.Context, text []byte) error {
	if !l.cut.Load() {
		return l.memoryLink.Send(ctx, text)
	}
	<-ctx.Done()
	return ctx.Err()
}

// An offer ends with its context, also while the queue has another message of its seat to send.
func TestOfferEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, cut := &broker{queues: map[string]*content{}}, &atomic.Bool{}
		q, err := Open(t.Context(), Options{Run: "run", Lease: time.Minute, Dial: func(_ context.Context, lost func(Delivery)) (Link, error) {
			return cutLink{b.link("run", lost), cut}, nil
		}})
		testutil.OK(t, err)
		defer q.Close()
		testutil.OK(t, q.Offer(t.Context(), seat.Seat{ID: "1", Generation: 1}))
		l, err := q.Lease(t.Context())
		testutil.OK(t, err)
		cut.Store(true)
		<-l.Lost() // its next generation is to be sent from then on
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), answerTime/2)
		defer cancel()
		if err := q.Offer(ctx, seat.Seat{ID: "1", Generation: 2}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

// What ended a connection, and why there is no other, is known.
func TestWhyAConnectionBroke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &broker{queues: map[string]*content{}}
		expired := errors.New("the token has expired")
		var links []*memoryLink
		q, err := Open(t.Context(), Options{Run: "run", Lease: time.Hour, Dial: func(_ context.Context, lost func(Delivery)) (Link, error) {
			if len(links) == 1 {
				return nil, expired
			}
			links = append(links, b.link("run", lost))
			return links[0], nil
		}})
		testutil.OK(t, err)
		defer q.Close()
		if err := q.Broke(); err != nil {
			t.Errorf("before it broke: %v", err)
		}
		links[0].end()
		synctest.Wait()
		if err := q.Broke(); !errors.Is(err, errEnded) {
			t.Errorf("at first: %v", err)
		}
		time.Sleep(time.Second)
		if err := q.Broke(); !errors.Is(err, expired) {
			t.Errorf("then: %v", err)
		}
	})
}

// What an earlier run has left in thousands keeps nobody waiting for long, although each message
// takes a round trip to be settled.
func TestThousandsThatAnotherRunLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &broker{far: 50 * time.Millisecond, queues: map[string]*content{}}
		m := b.of("run")
		for i := range 5000 {
			text, err := seat.Encode([]string{"earlier", "run"}[i%2], seat.Seat{ID: strconv.Itoa(i / 2), Generation: 1})
			testutil.OK(t, err)
			m.waiting = append(m.waiting, string(text))
		}
		q, err := b.open(t.Context(), "run", time.Hour)
		testutil.OK(t, err)
		defer q.Close()
		for id := range 2500 {
			testutil.OK(t, q.Offer(t.Context(), seat.Seat{ID: strconv.Itoa(id), Generation: 2}))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if l, err := q.Lease(ctx); err != nil || l.Seat().Generation != 2 {
			t.Errorf("%v, %v", l, err)
		}
	})
}
