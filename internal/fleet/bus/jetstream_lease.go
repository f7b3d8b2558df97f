package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/hopbench/hopbench/internal/fleet/seat"
)

// seatLease is a message that was delivered once.
type seatLease struct {
	delivered
	q     *SeatQueue
	s     seat.Seat
	acks  string // where its acknowledgements go
	term  *seat.Term
	mu    sync.Mutex // one at a time
	tried bool       // a Return or Done was sent whose outcome is not known
}

func (l *seatLease) Seat() seat.Seat { return l.s }

func (l *seatLease) Lost() <-chan struct{} { return l.term.Lost() }

// confirm has the server count the lease from now: ErrLost if the message is gone. That
// alone does not say so, since the server confirms progress with a message that is gone.
func (l *seatLease) confirm(ctx context.Context) error {
	_, err := l.q.js.Conn().RequestWithContext(ctx, l.acks, []byte("+WPI"))
	if err != nil && !errors.Is(err, nats.ErrNoResponders) {
		return fmt.Errorf("renew the lease of %s: %w", l.s.ID, err)
	}
	if err := l.there(ctx); err != nil {
		return err
	}
	if err != nil {
		return fmt.Errorf("renew the lease of %s: %w", l.s.ID, err)
	}
	return nil
}

// there is ErrLost if the message is gone.
func (l *seatLease) there(ctx context.Context) error {
	at, s, err := l.q.last(ctx, l.id)
	switch {
	case err != nil:
		return fmt.Errorf("look for the seat %s: %w", l.id, err)
	case l.delivered != delivered{at, l.id, s.Generation}:
		return seat.ErrLost
	}
	return nil
}

// Renew: see seat.Lease.
func (l *seatLease) Renew(ctx context.Context) error {
	return l.live(ctx, func(ctx context.Context) error {
		sent := time.Now()
		if err := l.confirm(ctx); err != nil {
			return err
		}
		return l.term.Renew(sent)
	})
}

// live does something as long as the lease is not over, and ends it when it finds that it is.
func (l *seatLease) live(ctx context.Context, do func(context.Context) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.term.Live(); err != nil {
		return err
	}
	ctx, cancel := l.q.within(ctx)
	defer cancel()
	err := do(ctx)
	if errors.Is(err, seat.ErrLost) {
		l.term.Lose()
	}
	return l.q.why(err)
}

// Return: see seat.Lease.
func (l *seatLease) Return(ctx context.Context) error {
	return l.finish(ctx, func(ctx context.Context) error {
		again, err := l.q.put(ctx, l.s.Next(), l.at)
		switch {
		case errors.Is(err, errInProcess) && l.tried: // by the try before, perhaps
			return err
		case errors.Is(err, errReplaced), again && !l.tried:
			return seat.ErrLost
		}
		return err
	})
}

// Done: see seat.Lease.
func (l *seatLease) Done(ctx context.Context) error {
	return l.finish(ctx, func(ctx context.Context) error {
		err := l.there(ctx)
		if err == nil {
			err = l.q.remove(ctx, l.at)
		}
		if errors.Is(err, seat.ErrLost) && l.tried {
			return nil // while the lease lasts, only its holder removes it
		}
		return err
	})
}

func (l *seatLease) finish(ctx context.Context, do func(context.Context) error) error {
	return l.live(ctx, func(ctx context.Context) error {
		err := do(ctx)
		if err != nil {
			l.tried = l.tried || !errors.Is(err, seat.ErrLost)
			return err
		}
		l.term.Finish()
		l.q.forget(l.delivered)
		return nil
	})
}
