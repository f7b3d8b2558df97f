package seattest

import (
	"testing"

	"github.com/hopbench/hopbench/internal/fleet/seat"
	"github.com/hopbench/hopbench/internal/testutil"
)

// WaitingIsSeen looks into a queue with seats of one run: they are counted and stay, until they
// are taken out. Open opens the queue for a run, and looks says how many seats of which run
// wait in it, and whether there are more.
func WaitingIsSeen(t *testing.T, open func(run string) (seat.Queue, error), looks func() (map[string]int, bool, error)) {
	t.Helper()
	q, err := open("earlier")
	testutil.OK(t, err)
	ids := []string{"1", "2", "3"}
	for _, id := range ids {
		testutil.OK(t, q.Offer(t.Context(), seat.Seat{ID: id, Generation: 1}))
	}
	testutil.OK(t, q.Close())
	for range 2 {
		runs, more, err := looks()
		if err != nil || more || len(runs) != 1 || runs["earlier"] != len(ids) {
			t.Errorf("%v, more %v, %v", runs, more, err)
		}
	}
	q, err = open("earlier")
	testutil.OK(t, err)
	for range ids {
		l, err := q.Lease(t.Context())
		testutil.OK(t, err)
		testutil.OK(t, l.Done(t.Context()))
	}
	testutil.OK(t, q.Close())
	if runs, _, err := looks(); err != nil || len(runs) != 0 {
		t.Errorf("an empty queue: %v, %v", runs, err)
	}
}
