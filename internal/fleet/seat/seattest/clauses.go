package seattest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hopbench/hopbench/internal/fleet/seat"
)

func lifeOfALease(ctx context.Context, b Broker) error {
	return with(ctx, b, long, func(q seat.Queue) error {
		if err := offer(ctx, q, "a", 3); err != nil {
			return err
		}
		l, err := lease(ctx, q, "a", 3)
		if err != nil {
			return err
		}
		for range 3 {
			if err := l.Renew(ctx); err != nil {
				return fmt.Errorf("renew: %w", err)
			}
		}
		if err := l.Done(ctx); err != nil {
			return fmt.Errorf("done: %w", err)
		}
		return first(
			func() error { return over(ctx, l) },
			func() error { return held(l) }, // done is not lost
			func() error { return empty(ctx, q) },
		)
	})
}

func offeredTwice(ctx context.Context, b Broker) error {
	return with(ctx, b, long, func(q seat.Queue) error {
		err := first(
			func() error { return offer(ctx, q, "a", 1) },
			func() error { return offer(ctx, q, "a", 1) },
		)
		if err != nil {
			return err
		}
		l, err := lease(ctx, q, "a", 1)
		if err != nil {
			return err
		}
		return first(
			func() error { return empty(ctx, q) },
			func() error { return offer(ctx, q, "a", 1) }, // while it is leased
			func() error { return empty(ctx, q) },
			func() error { return l.Renew(ctx) },
			func() error { return l.Done(ctx) },
			func() error { return empty(ctx, q) },
		)
	})
}

func laterGeneration(ctx context.Context, b Broker) error {
	return with(ctx, b, long, func(q seat.Queue) error {
		err := first(
			func() error { return offer(ctx, q, "waiting", 1) },
			func() error { return offer(ctx, q, "waiting", 4) },
			func() error { return offer(ctx, q, "waiting", 2) },
		)
		if err != nil {
			return err
		}
		w, err := lease(ctx, q, "waiting", 4)
		if err != nil {
			return err
		}
		err = first(
			func() error { return empty(ctx, q) },
			func() error { return w.Done(ctx) },
			func() error { return offer(ctx, q, "leased", 1) },
		)
		if err != nil {
			return err
		}
		earlier, err := lease(ctx, q, "leased", 1)
		if err != nil {
			return err
		}
		if err := offer(ctx, q, "leased", 2); err != nil {
			return err
		}
		later, err := lease(ctx, q, "leased", 2)
		if err != nil {
			return err
		}
		return first(
			func() error { return over(ctx, earlier) },
			func() error { return lost(ctx, earlier) },
			func() error { return held(later) },
			func() error { return later.Renew(ctx) },
			func() error { return later.Done(ctx) },
			func() error { return empty(ctx, q) },
		)
	})
}

func runsOut(ctx context.Context, b Broker) error {
	return withShort(ctx, b, func(q seat.Queue) error {
		if err := offer(ctx, q, "a", 1); err != nil {
			return err
		}
		l, err := q.Lease(ctx)
		if err != nil {
			return err
		}
		if l.Seat().Generation != 1 {
			return fmt.Errorf("%w: leased generation %d first", errStalled, l.Seat().Generation)
		}
		// A renewed lease lasts longer than one that is not.
		if err := l.Renew(ctx); err != nil {
			return fmt.Errorf("%w: renew: %w", errStalled, err)
		}
		err = first(
			func() error { return lost(ctx, l) },
			func() error { return over(ctx, l) },
		)
		if err != nil {
			return err
		}
		next, err := q.Lease(ctx)
		if err != nil {
			return fmt.Errorf("lease what ran out: %w", err)
		}
		switch g := next.Seat().Generation; {
		case g > 2:
			return fmt.Errorf("%w: generation %d", errStalled, g)
		case g < 2:
			return fmt.Errorf("generation %d is leased twice", g)
		}
		// The old holder's attempts change nothing.
		if err := over(ctx, l); err != nil {
			return err
		}
		switch err := next.Done(ctx); {
		case errors.Is(err, seat.ErrLost) && held(next) != nil:
			return fmt.Errorf("%w: done: %w", errStalled, err)
		case err != nil:
			return fmt.Errorf("done, by the next holder: %w", err)
		}
		return empty(ctx, q)
	})
}

func deliveredTwice(ctx context.Context, b Broker) error {
	return with(ctx, b, long, func(q seat.Queue) error {
		if err := offer(ctx, q, "a", 1); err != nil {
			return err
		}
		l, err := lease(ctx, q, "a", 1)
		if err != nil {
			return err
		}
		if err := b.Redeliver(ctx, q, l); err != nil {
			return fmt.Errorf("redeliver: %w", err)
		}
		next, err := lease(ctx, q, "a", 2)
		if err != nil {
			return err
		}
		return first(
			func() error { return over(ctx, l) },
			func() error { return next.Renew(ctx) },
			func() error { return next.Done(ctx) },
			func() error { return empty(ctx, q) },
		)
	})
}

func givenBack(ctx context.Context, b Broker) error {
	return with(ctx, b, long, func(q seat.Queue) error {
		if err := offer(ctx, q, "a", 1); err != nil {
			return err
		}
		l, err := lease(ctx, q, "a", 1)
		if err != nil {
			return err
		}
		if err := l.Return(ctx); err != nil {
			return fmt.Errorf("return: %w", err)
		}
		if err := over(ctx, l); err != nil {
			return err
		}
		next, err := lease(ctx, q, "a", 2)
		if err != nil {
			return err
		}
		return first(
			func() error { return over(ctx, l) },
			func() error { return held(l) }, // given back is not lost
			func() error { return next.Done(ctx) },
			func() error { return empty(ctx, q) },
		)
	})
}

func anotherRun(ctx context.Context, b Broker) error {
	earlier := newRun()
	q, err := b.Open(ctx, earlier, long)
	if err != nil {
		return err
	}
	err = first(
		func() error { return offer(ctx, q, "left", 1) },
		func() error { return offer(ctx, q, "both", 7) },
		q.Close,
	)
	if err != nil {
		return err
	}
	err = with(ctx, b, long, func(q seat.Queue) error {
		if err := offer(ctx, q, "both", 1); err != nil {
			return err
		}
		l, err := lease(ctx, q, "both", 1)
		if err != nil {
			return err
		}
		return first(
			func() error { return empty(ctx, q) },
			func() error { return l.Done(ctx) },
		)
	})
	if err != nil {
		return err
	}
	// Of the same run: what waits is still there, and a later generation replaces it.
	q, err = b.Open(ctx, earlier, long)
	if err != nil {
		return err
	}
	defer q.Close()
	if err := offer(ctx, q, "left", 2); err != nil {
		return err
	}
	want := map[string]uint64{"left": 2, "both": 7}
	for range 2 {
		l, err := q.Lease(ctx)
		if err != nil {
			return fmt.Errorf("lease what the run has left: %w", err)
		}
		s := l.Seat()
		if want[s.ID] != s.Generation {
			return fmt.Errorf("leased %s generation %d, where %v was left", s.ID, s.Generation, want)
		}
		delete(want, s.ID)
		if err := l.Done(ctx); err != nil {
			return err
		}
	}
	return empty(ctx, q)
}

func noSeat(ctx context.Context, b Broker) error {
	run := newRun()
	q, err := b.Open(ctx, run, long)
	if err != nil {
		return err
	}
	defer q.Close()
	for _, text := range []string{"no seat", ""} {
		if err := b.Stray(ctx, run, []byte(text)); err != nil {
			return fmt.Errorf("put a stray message into the queue: %w", err)
		}
	}
	if err := offer(ctx, q, "a", 1); err != nil {
		return err
	}
	l, err := lease(ctx, q, "a", 1)
	if err != nil {
		return err
	}
	return first(
		func() error { return l.Done(ctx) },
		func() error { return empty(ctx, q) },
	)
}

func closes(ctx context.Context, b Broker) error {
	run := newRun()
	q, err := b.Open(ctx, run, time.Second)
	if err != nil {
		return err
	}
	if err := offer(ctx, q, "a", 1); err != nil {
		return err
	}
	l, err := q.Lease(ctx)
	if err != nil {
		return err
	}
	waited := make(chan error, 1)
	go func() {
		_, err := q.Lease(ctx)
		waited <- err
	}()
	if err := q.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	select {
	case err := <-waited:
		if !errors.Is(err, seat.ErrClosed) {
			return fmt.Errorf("a client that waits at a queue that is closed is told %v", err)
		}
	case <-ctx.Done():
		return errors.New("a client waits at a queue that is closed")
	}
	if err := q.Offer(ctx, seatOf("b", 1)); !errors.Is(err, seat.ErrClosed) {
		return fmt.Errorf("an offer to a queue that is closed: %v", err)
	}
	err = first(
		func() error { return lost(ctx, l) },
		func() error { return over(ctx, l) },
		q.Close, // once more
	)
	if err != nil {
		return err
	}
	// Its holder is gone, so the seat comes back; the ledger offers it with the next generation.
	q, err = b.Open(ctx, run, time.Second)
	if err != nil {
		return err
	}
	defer q.Close()
	if err := offer(ctx, q, "a", l.Seat().Generation+1); err != nil {
		return err
	}
	next, err := q.Lease(ctx)
	if err != nil {
		return fmt.Errorf("lease what a closed queue had leased: %w", err)
	}
	if s := next.Seat(); s.ID != "a" || s.Generation <= l.Seat().Generation {
		return fmt.Errorf("after generation %d of a, generation %d of %s is leased", l.Seat().Generation, s.Generation, s.ID)
	}
	return nil
}

func restarts(ctx context.Context, b Broker) error {
	return with(ctx, b, 30*time.Second, func(q seat.Queue) error {
		err := first(
			func() error { return offer(ctx, q, "a", 1) },
			func() error { return offer(ctx, q, "b", 1) },
		)
		if err != nil {
			return err
		}
		var before [2]seat.Lease
		for i := range before {
			if before[i], err = q.Lease(ctx); err != nil {
				return err
			}
		}
		type leased struct {
			lease seat.Lease
			err   error
		}
		waited := make(chan leased, 1)
		go func() {
			l, err := q.Lease(ctx)
			waited <- leased{l, err}
		}()
		if err := b.Restart(ctx); err != nil {
			return fmt.Errorf("restart: %w", err)
		}
		for _, l := range before {
			for err := l.Renew(ctx); !errors.Is(err, seat.ErrLost); err = l.Renew(ctx) {
				if ctx.Err() != nil {
					return fmt.Errorf("a lease from before the broker restarted is not lost: %w", err)
				}
				pause(ctx)
			}
		}
		// What the ledger does.
		select {
		case <-q.Emptied():
		case <-ctx.Done():
			return errors.New("nobody is told that the broker restarted")
		}
		for _, id := range []string{"a", "b"} {
			for err := offer(ctx, q, id, 5); err != nil; err = offer(ctx, q, id, 5) {
				if ctx.Err() != nil {
					return err
				}
				pause(ctx)
			}
		}
		// Who waited through it gets one.
		w := <-waited
		if w.err != nil {
			return fmt.Errorf("lease, since before the broker restarted: %w", w.err)
		}
		seen := map[string]bool{}
		for l := w.lease; ; {
			s := l.Seat()
			// What a broker kept may come first, as a generation that is none of before.
			if s.Generation < 2 || s.Generation == 5 && seen[s.ID] {
				return fmt.Errorf("generation %d of %s is leased twice", s.Generation, s.ID)
			}
			if s.Generation >= 5 {
				seen[s.ID] = true
			}
			if err := l.Done(ctx); err != nil && !errors.Is(err, seat.ErrLost) {
				return fmt.Errorf("done, after the broker restarted: %w", err)
			}
			if len(seen) == 2 {
				return empty(ctx, q)
			}
			if l, err = q.Lease(ctx); err != nil {
				return fmt.Errorf("lease, after the broker restarted: %w", err)
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
	err := with(ctx, b, 1, func(q seat.Queue) error {
		if err := offer(ctx, q, "a", 1); err != nil {
			return err
		}
		l, err := q.Lease(ctx)
		if err == nil {
			return fmt.Errorf("%s is leased for a nanosecond", l.Seat().ID)
		}
		return err
	})
	var short *seat.ShortLeaseError
	if !errors.As(err, &short) || short.Lease != 1 || short.RoundTrip <= short.Lease {
		return fmt.Errorf("a lease of a nanosecond is not refused as that: %w", err)
	}
	return nil
}
