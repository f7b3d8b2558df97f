package store_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/hopbench/hopbench/internal/fleet/ledger"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/testutil"
)

// Seats are kept by their ids, all of a call or none, and a run that is opened again has them.
func TestSeats(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Create(dir, head())
	testutil.OK(t, err)
	if got, err := s.Seats(t.Context()); err != nil || got != nil {
		t.Errorf("before there were any: %v, %v", got, err)
	}
	testutil.OK(t, s.PutSeats(t.Context(), []ledger.Seat{{ID: 2, Server: "s2", Generation: 1, State: ledger.Offered}, {ID: 1, Server: "s1", Generation: 1, State: ledger.Offered}}))
	testutil.OK(t, s.PutSeats(t.Context(), []ledger.Seat{{ID: 1, Server: "s1", Generation: 3, Client: "c1", State: ledger.Leased}}))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.PutSeats(ended, []ledger.Seat{{ID: 1, Server: "s9", Generation: 9, State: ledger.Done}}); err == nil {
		t.Error("kept for somebody who left")
	}
	testutil.OK(t, s.Close())
	s, err = store.Resume(dir)
	testutil.OK(t, err)
	defer s.Close()
	want := []ledger.Seat{{ID: 1, Server: "s1", Generation: 3, Client: "c1", State: ledger.Leased}, {ID: 2, Server: "s2", Generation: 1, State: ledger.Offered}}
	if got, err := s.Seats(t.Context()); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("seats %v, %v, want %v", got, err, want)
	}
}
