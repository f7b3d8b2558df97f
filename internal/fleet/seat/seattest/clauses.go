package seattest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hopbench/hopbench/internal/fleet/seat"
)

func lifeOfALease(ctx context.Context, b Broker) error {
	return with(ctx, b, long, func(q queue) {
		q.offer("a", 3)
		l := q.lease("a", 3)
		for range 3 {
			q.renew(l)
		}
		q.done(l)
		q.over(l)
		held(l) // done is not lost
		q.empty()
	})
}

func offeredTwice(ctx context.Context, b Broker) error {
	return with(ctx, b, long, func(q queue) {
		q.offer("a", 1)
		q.offer("a", 1)
		l := q.lease("a", 1)
		q.empty()
		q.offer("a", 1) // while it is leased
		q.empty()
		q.renew(l)
		q.done(l)
		q.empty()
	})
}

func laterGeneration(ctx context.Context, b Broker) error {
	return with(ctx, b, long, func(q queue) {
		q.offer("waiting", 1)
		q.offer("waiting", 4)
		q.offer("waiting", 2)
		w := q.lease("waiting", 4)
		q.empty()
		q.done(w)
		q.offer("leased", 1)
		earlier := q.lease("leased", 1)
		q.offer("leased", 2)
		later := q.lease("leased", 2)
		q.over(earlier)
		q.lost(earlier)
		held(later)
		q.renew(later)
		q.done(later)
		q.empty()
	})
}

func runsOut(ctx context.Context, b Broker) error {
	return withShort(ctx, b, func(q queue) {
		q.offer("a", 1)
		l := q.next("lease")
		if l.Seat().Generation != 1 {
			fail("%w: leased generation %d first", errStalled, l.Seat().Generation)
		}
		// A renewed lease lasts longer than one that is not.
		if err := l.Renew(ctx); err != nil {
			fail("%w: renew: %w", errStalled, err)
		}
		q.lost(l)
		q.over(l)
		next := q.next("lease what ran out")
		switch g := next.Seat().Generation; {
		case g > 2:
			fail("%w: generation %d", errStalled, g)
		case g < 2:
			fail("generation %d is leased twice", g)
		}
		// The old holder's attempts change nothing.
		q.over(l)
		switch err := next.Done(ctx); {
		case errors.Is(err, seat.ErrLost) && isLost(next):
			fail("%w: done: %w", errStalled, err)
		case err != nil:
			fail("done, by the next holder: %w", err)
		}
		q.empty()
	})
}

func deliveredTwice(ctx context.Context, b Broker) error {
	return with(ctx, b, long, func(q queue) {
		q.offer("a", 1)
		l := q.lease("a", 1)
		must("redeliver", b.Redeliver(ctx, l))
		next := q.lease("a", 2)
		q.over(l)
		q.renew(next)
		q.done(next)
		q.empty()
	})
}

func givenBack(ctx context.Context, b Broker) error {
	return with(ctx, b, long, func(q queue) {
		q.offer("a", 1)
		l := q.lease("a", 1)
		must("return", l.Return(ctx))
		q.over(l)
		next := q.lease("a", 2)
		q.over(l)
		held(l) // given back is not lost
		q.done(next)
		q.empty()
	})
}

func anotherRun(ctx context.Context, b Broker) error {
	earlier := newRun()
	err := in(ctx, b, earlier, long, func(q queue) {
		q.offer("left", 1)
		q.offer("both", 7)
	})
	if err != nil {
		return err
	}
	err = with(ctx, b, long, func(q queue) {
		q.offer("both", 1)
		l := q.lease("both", 1)
		q.empty()
		q.done(l)
	})
	if err != nil {
		return err
	}
	// Of the same run: what waits is still there, and a later generation replaces it.
	return in(ctx, b, earlier, long, func(q queue) {
		q.offer("left", 2)
		want := map[string]uint64{"left": 2, "both": 7}
		for range 2 {
			l := q.next("lease what the run has left")
			s := l.Seat()
			if want[s.ID] != s.Generation {
				fail("leased %s generation %d, where %v was left", s.ID, s.Generation, want)
			}
			delete(want, s.ID)
			q.done(l)
		}
		q.empty()
	})
}

func noSeat(ctx context.Context, b Broker) error {
	run := newRun()
	return in(ctx, b, run, long, func(q queue) {
		for _, text := range []string{"no seat", ""} {
			must("put a stray message into the queue", b.Stray(ctx, run, []byte(text)))
		}
		q.offer("a", 1)
		q.done(q.lease("a", 1))
		q.empty()
	})
}

func closes(ctx context.Context, b Broker) error {
	run := newRun()
	var l seat.Lease
	err := in(ctx, b, run, time.Second, func(q queue) { // which closes it once more
		q.offer("a", 1)
		l = q.next("lease")
		waited := make(chan error, 1)
		go func() {
			_, err := q.Lease(ctx)
			waited <- err
		}()
		must("close", q.Close())
		select {
		case err := <-waited:
			if !errors.Is(err, seat.ErrClosed) {
				fail("a client that waits at a queue that is closed is told %v", err)
			}
		case <-ctx.Done():
			fail("a client waits at a queue that is closed")
		}
		if err := q.Offer(ctx, seatOf("b", 1)); !errors.Is(err, seat.ErrClosed) {
			fail("an offer to a queue that is closed: %v", err)
		}
		q.lost(l)
		q.over(l)
	})
	if err != nil {
		return err
	}
	// Its holder is gone, so the seat comes back; the ledger offers it with the next generation.
	return in(ctx, b, run, time.Second, func(q queue) {
		q.offer("a", l.Seat().Generation+1)
		next := q.next("lease what a closed queue had leased")
		if s := next.Seat(); s.ID != "a" || s.Generation <= l.Seat().Generation {
			fail("after generation %d of a, generation %d of %s is leased", l.Seat().Generation, s.Generation, s.ID)
		}
	})
}

func restarts(ctx context.Context, b Broker) error {
	return with(ctx, b, 30*time.Second, func(q queue) {
		q.offer("a", 1)
		q.offer("b", 1)
		before := [2]seat.Lease{q.next("lease"), q.next("lease")}
		type leased struct {
			lease seat.Lease
			err   error
		}
		waited := make(chan leased, 1)
		go func() {
			l, err := q.Lease(ctx)
			waited <- leased{l, err}
		}()
		must("restart", b.Restart(ctx))
		for _, l := range before {
			for err := l.Renew(ctx); !errors.Is(err, seat.ErrLost); err = l.Renew(ctx) {
				if ctx.Err() != nil {
					fail("a lease from before the broker restarted is not lost: %w", err)
				}
				pause(ctx)
			}
		}
		// What the ledger does.
		select {
		case <-q.Emptied():
		case <-ctx.Done():
			fail("nobody is told that the broker restarted")
		}
		for _, id := range []string{"a", "b"} {
			for err := q.Offer(ctx, seatOf(id, 5)); err != nil; err = q.Offer(ctx, seatOf(id, 5)) {
				if ctx.Err() != nil {
					fail("offer %s generation 5: %w", id, err)
				}
				pause(ctx)
			}
		}
		// Who waited through it gets one.
		w := <-waited
		must("lease, since before the broker restarted", w.err)
		seen := map[string]bool{}
		for l := w.lease; ; l = q.next("lease, after the broker restarted") {
			s := l.Seat()
			// What a broker kept may come first, as a generation that is none of before.
			if s.Generation < 2 || s.Generation == 5 && seen[s.ID] {
				fail("generation %d of %s is leased twice", s.Generation, s.ID)
			}
			if s.Generation >= 5 {
				seen[s.ID] = true
			}
			if err := l.Done(ctx); !errors.Is(err, seat.ErrLost) {
				must("done, after the broker restarted", err)
			}
			if len(seen) == 2 {
				q.empty()
				return
			}
		}
	})
}

// pause lets a broker come back.
func pause(ctx context.Context) {
	select {
	case <-time.After(20 * time.Millisecond):
	case <-ctx.Done():
	}
}

func belowRoundTrip(ctx context.Context, b Broker) error {
	err := with(ctx, b, 1, func(q queue) {
		q.offer("a", 1)
		l := q.next("lease")
		fail("%s is leased for a nanosecond", l.Seat().ID)
	})
	var short *seat.ShortLeaseError
	if !errors.As(err, &short) || short.Lease != 1 || short.RoundTrip <= short.Lease {
		return fmt.Errorf("a lease of a nanosecond is not refused as that: %w", err)
	}
	return nil
}
