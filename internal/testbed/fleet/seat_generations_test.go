package fleet

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/fleet/ledger"
	"github.com/hopbench/hopbench/internal/fleet/seat"
	"github.com/hopbench/hopbench/internal/testutil"
)

// A seat that comes back while others are given, and that nobody wants at that moment, is given
// again later: the queue takes the generation that it gave for a repetition, so a later one is
// offered. Without that the queue would be mute, and opened anew.
func TestSeatThatNobodyWants(t *testing.T) {
	y := newYard(t, 5*time.Minute)
	var mu sync.Mutex
	leases := map[string]losable{}
	opened, returns := 0, false
	y.through(y.ownQueue, func(q seat.Queue) seat.Queue {
		opened++
		return &between{Queue: q, lease: func(ctx context.Context) (seat.Lease, error) {
			l, err := q.Lease(ctx)
			if err != nil {
				return nil, err
			}
			mu.Lock()
			defer mu.Unlock()
			leases[l.Seat().ID] = losable{l, make(chan struct{})}
			return leases[l.Seat().ID], nil
		}, offer: func(ctx context.Context, s seat.Seat) error {
			mu.Lock()
			defer mu.Unlock()
			if returns { // seat 1, before seat 2 is there
				returns = false
				close(leases["1"].lost)
				if err := leases["1"].Return(ctx); err != nil {
					return err
				}
			}
			return q.Offer(ctx, s)
		}}
	})
	y.machines(t, "c1", "c2", "s1", "s2")
	bed := y.build(t, 2)
	mu.Lock()
	returns = true
	close(leases["2"].lost)
	mu.Unlock()
	testutil.OK(t, bed.Begin(t.Context(), "b01"))
	y.book.says(t, leased(1, 1, "c1", "s1"), leased(2, 2, "c2", "s2"))
	testutil.OK(t, bed.Begin(t.Context(), "b02"))
	y.book.says(t, leased(1, 3, "c1", "s1"), leased(2, 2, "c2", "s2"))
	if opened != 1 {
		t.Errorf("the queue was opened %d times", opened)
	}
	testutil.OK(t, bed.Close())
}

// losable is a lease that can be said to be lost.
type losable struct {
	seat.Lease
	lost chan struct{}
}

func (l losable) Lost() <-chan struct{} { return l.lost }

// Of two generations of a seat that come together the later is the place, as in the ledger.
func TestTwoGenerationsAtOnce(t *testing.T) {
	for range 50 { // as often as an order by chance would take to show
		l, err := ledger.Open(t.Context(), nil)
		testutil.OK(t, err)
		_, err = l.Offer(t.Context(), map[int]string{1: "s"}, nil)
		testutil.OK(t, err)
		s := &seats{ledger: l, seen: map[int]uint64{}}
		text := []byte("body")
		want := map[int]*offered{1: {server: &member{}, client: &member{}, generation: 1, body: text}}
		testutil.OK(t, s.give(t.Context(), want, []seat.Lease{leaseOf{s: seat.Seat{ID: "1", Generation: 1, Body: text}}, leaseOf{s: seat.Seat{ID: "1", Generation: 2, Body: text}}}))
		if got := s.taken[0].Generation; got != 2 {
			t.Fatalf("the place is of generation %d", got)
		}
	}
}

// leaseOf is a lease that is nothing but its seat.
type leaseOf struct {
	seat.Lease
	s seat.Seat
}

func (l leaseOf) Seat() seat.Seat { return l.s }
