package fleet

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/hopbench/hopbench/internal/fleet/ledger"
	"github.com/hopbench/hopbench/internal/fleet/seat"
	"github.com/hopbench/hopbench/internal/testutil"
)

// A queue that does not answer at the end of a run takes none of the time of the ledger, which
// is on the disk.
func TestCloseWithoutTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book := punctual{&paper{seats: map[int]ledger.Seat{}}}
		l, err := ledger.Open(t.Context(), book)
		testutil.OK(t, err)
		_, err = l.Offer(t.Context(), map[int]string{1: "s1"}, nil)
		testutil.OK(t, err)
		refused, err := l.Lease(t.Context(), []ledger.Claim{{ID: 1, Generation: 1, Client: "c1"}})
		if err != nil || len(refused) > 0 {
			t.Fatal(refused, err)
		}
		s := &seats{queue: gone{}, ledger: l, ended: make(chan struct{}), taken: []*place{{lease: goneLease{}}}}
		testutil.OK(t, s.close())
		book.says(t, ledger.Seat{ID: 1, Server: "s1", Generation: 1, State: ledger.Done})
	})
}

// punctual keeps nothing for who has no time left, as a database.
type punctual struct{ *paper }

func (p punctual) PutSeats(ctx context.Context, all []ledger.Seat) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return p.paper.PutSeats(ctx, all)
}

// gone is a queue whose broker does not answer.
type gone struct{ seat.Queue }

func (gone) Close() error { return nil }

type goneLease struct{ seat.Lease }

func (goneLease) Done(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
