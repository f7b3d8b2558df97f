package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/hopbench/hopbench/internal/fleet/ledger"
	"github.com/hopbench/hopbench/internal/fleet/seat"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
	"github.com/hopbench/hopbench/internal/testutil"
)

// offering is a run's seats at a queue, and one of them to be offered.
func offering(t *testing.T, q seat.Queue) (*seats, map[int]*offered) {
	t.Helper()
	l, err := ledger.Open(t.Context(), nil)
	testutil.OK(t, err)
	f := &Fleet{Options: Options{Inventory: &inventory.Inventory{Broker: &inventory.Broker{Wait: queueTime / 2}}}}
	return &seats{fleet: f, queue: q, ledger: l, seen: map[int]uint64{}}, map[int]*offered{1: {server: &member{}, client: &member{}}}
}

// A queue that does not answer is asked for as long as its broker may be away; one that refuses a
// seat is not.
func TestOffersToAQueueThatIsAway(t *testing.T) {
	const outage = 3*mostOffers + 1
	for _, c := range []struct {
		why  error
		want error
	}{{context.DeadlineExceeded, nil}, {errRefused, errRefused}} {
		tries := 0
		s, want := offering(t, &between{offer: func(context.Context, seat.Seat) error {
			if tries++; tries <= outage {
				return fmt.Errorf("offer the seat 1: %w", c.why)
			}
			return nil
		}})
		if err := s.offer(t.Context(), want); !errors.Is(err, c.want) {
			t.Errorf("%v: %v after %d tries", c.why, err, tries)
		}
	}
}

var errRefused = errors.New("the policy may not send")

// knowing is a queue that knows why its connection broke, and gives no seat.
type knowing struct{ between }

func (knowing) Broke() error { return errRefused }

// What is known of why a queue gives no seats is said, next to what it may be.
func TestWhyAQueueGivesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waits := func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
		for _, q := range []seat.Queue{
			&knowing{between{offer: func(ctx context.Context, _ seat.Seat) error { return waits(ctx) }}},
			&knowing{between{
				offer:   func(context.Context, seat.Seat) error { return nil },
				lease:   func(ctx context.Context) (seat.Lease, error) { return nil, waits(ctx) },
				emptied: make(chan struct{}),
			}},
		} {
			s, want := offering(t, q)
			ctx, cancel := s.patience(t.Context())
			defer cancel()
			err := s.offer(ctx, want)
			if err == nil {
				err = s.giveAll(ctx, want)
			}
			if err == nil || !errors.Is(err, errShared) || !strings.Contains(err.Error(), "(the connection to its broker ended last with: the policy may not send)") {
				t.Error(err)
			}
		}
	})
}
