package seattest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hopbench/hopbench/internal/fleet/seat"
)

func id(i int) string { return fmt.Sprintf("seat-%d", i) }

// stopWaiting has clients leave while seats arrive. What they got they give back; what
// was on its way to them comes to others.
func stopWaiting(ctx context.Context, b Broker) error {
	const seats = 20
	return withShort(ctx, b, func(q queue) {
		waiting, leave := context.WithCancel(ctx)
		defer leave()
		var clients errgroup.Group
		for range seats {
			clients.Go(func() error {
				l, err := q.Lease(waiting)
				var short *seat.ShortLeaseError
				switch {
				case err == nil:
					if err := l.Return(ctx); err != nil && !errors.Is(err, seat.ErrLost) {
						return fmt.Errorf("return: %w", err)
					}
				case errors.As(err, &short):
					return err
				case !errors.Is(err, context.Canceled):
					return fmt.Errorf("a client that leaves is told: %w", err)
				}
				return nil
			})
		}
		for i := range seats {
			if i == seats/2 {
				leave()
			}
			q.offer(id(i), 1)
		}
		must("wait for clients", clients.Wait())
		done := map[string]bool{}
		for len(done) < seats {
			l := q.next(fmt.Sprintf("%d of %d seats are there after clients left; lease", len(done), seats))
			switch err := l.Done(ctx); {
			case errors.Is(err, seat.ErrLost):
			case err != nil:
				fail("done: %w", err)
			case done[l.Seat().ID]:
				fail("%s is back after it was done", l.Seat().ID)
			default:
				done[l.Seat().ID] = true
			}
		}
	})
}

// crowd has all clients wait before there is a seat.
func crowd(ctx context.Context, b Broker) error {
	return with(ctx, b, long, func(q queue) {
		var clients errgroup.Group
		leases := make([]seat.Lease, b.Crowd)
		for i := range leases {
			clients.Go(func() (err error) {
				leases[i], err = q.Lease(ctx)
				return err
			})
		}
		err := each(b.Crowd, func(i int) error { return q.Offer(ctx, seatOf(id(i), 1)) })
		must("offer and lease", errors.Join(err, clients.Wait()))
		served := map[string]bool{}
		for _, l := range leases {
			if s := l.Seat(); s.Generation != 1 {
				fail("%s is leased as generation %d", s.ID, s.Generation)
			}
			served[l.Seat().ID] = true
		}
		if len(served) != b.Crowd {
			fail("%d clients have %d seats", b.Crowd, len(served))
		}
		must("renew", each(b.Crowd, func(i int) error { return leases[i].Renew(ctx) }))
		q.empty()
		must("done", each(b.Crowd, func(i int) error { return leases[i].Done(ctx) }))
		q.empty()
	})
}

// each does n things, some at a time.
func each(n int, do func(int) error) error {
	var g errgroup.Group
	g.SetLimit(64)
	for i := range n {
		g.Go(func() error { return do(i) })
	}
	return g.Wait()
}

// anyHolders has holders renew, return, finish and forget seats in an order that a seed
// gives, while the ledger offers later generations of some. No generation may be leased
// twice; whoever is told that a seat is done is the last of its generation to hold it.
func anyHolders(ctx context.Context, b Broker) error {
	const seats, holders = 60, 12
	return with(ctx, b, 500*time.Millisecond, func(q queue) {
		for i := range seats {
			q.offer(id(i), 1)
		}
		type generation struct {
			id string
			g  uint64
		}
		var mu sync.Mutex
		leased, done := map[generation]bool{}, map[string]uint64{} // done as which generation
		all, finish := context.WithCancel(ctx)
		defer finish()
		hold := func(r *rand.Rand) error {
			l, err := q.Lease(all)
			var short *seat.ShortLeaseError
			if errors.As(err, &short) { // the machine stood still
				return nil
			} else if err != nil {
				return err
			}
			s := l.Seat()
			mu.Lock()
			again, late := leased[generation{s.ID, s.Generation}], done[s.ID] > 0 && s.Generation > done[s.ID]
			leased[generation{s.ID, s.Generation}] = true
			mu.Unlock()
			if again || late {
				return fmt.Errorf("generation %d of %s is leased twice (%v) or after it was done (%v)", s.Generation, s.ID, again, late)
			}
			switch r.IntN(10) {
			case 0: // forgets it
				return nil
			case 1:
				err = l.Return(ctx)
			case 2:
				err = l.Renew(ctx)
			case 3:
				err = q.Offer(ctx, seatOf(s.ID, s.Generation+1))
			default:
				mu.Lock()
				defer mu.Unlock() // whoever leases it next must see that it is done
				if err = l.Done(ctx); err == nil {
					done[s.ID] = s.Generation
					if len(done) == seats {
						finish()
					}
				}
			}
			if errors.Is(err, seat.ErrLost) {
				return nil
			}
			return err
		}
		var g errgroup.Group
		for i := range holders {
			g.Go(func() error {
				r := rand.New(rand.NewPCG(1, uint64(i)))
				for {
					if err := hold(r); err != nil {
						if all.Err() != nil && ctx.Err() == nil && errors.Is(err, context.Canceled) {
							return nil
						}
						finish()
						return err
					}
				}
			})
		}
		if err := g.Wait(); err != nil {
			fail("%d of %d seats done: %w", len(done), seats, err)
		}
		q.empty()
	})
}
