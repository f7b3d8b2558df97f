// Package ledger is the record of a run's seats: where each is, in which generation, and who
// has it. What it says is on the disk before anybody is told, so a coordinator that starts
// again goes on with later generations, and no generation of a seat is ever given to two
// clients, whatever the queue of seats believes.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/hopbench/hopbench/internal/fleet/seat"
)

// State is how a seat stands.
type State string

// The states.
const (
	Offered State = "offered" // it waits for a client
	Leased  State = "leased"  // a client has it
	Done    State = "done"    // the run needs it no more
)

// Seat is a place for one client at a server.
type Seat struct {
	ID         int    // from 1, as in samples and attempts
	Server     string // the machine at which it is
	Generation uint64 // from 1
	Client     string // the machine that has it; empty unless leased
	State      State
}

// Claim is a generation of a seat that the queue gave for a client.
type Claim struct {
	ID         int
	Generation uint64
	Client     string
}

// Keeper keeps seats on the disk.
type Keeper interface {
	// Seats are all that were put.
	Seats(ctx context.Context) ([]Seat, error)
	// PutSeats keeps seats in place of those of the same ids, all of them or none. They are
	// on the disk when it returns.
	PutSeats(ctx context.Context, seats []Seat) error
}

// Ledger is the record of one run. Its methods may be called at the same time.
type Ledger struct {
	keeper Keeper

	mu    sync.Mutex
	seats map[int]Seat
}

// Open reads what a run's ledger says. A keeper that is nil keeps it in memory alone.
func Open(ctx context.Context, keeper Keeper) (*Ledger, error) {
	l := &Ledger{keeper: keeper, seats: map[int]Seat{}}
	if keeper == nil {
		return l, nil
	}
	all, err := keeper.Seats(ctx)
	if err != nil {
		return nil, fmt.Errorf("open the ledger of seats: %w", err)
	}
	for _, s := range all {
		l.seats[s.ID] = s
	}
	return l, nil
}

// errSpent says that a seat has had all generations that there are.
var errSpent = errors.New("no generation is left")

// Offer gives seats a generation that is later than all that they had, and than those
// that at least says by id, which may be nil: each at a server, by id. They are to be offered
// to the queue then.
func (l *Ledger) Offer(ctx context.Context, servers map[int]string, atLeast map[int]uint64) ([]Seat, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var changed []Seat
	for _, id := range slices.Sorted(maps.Keys(servers)) {
		s := Seat{ID: id, Server: servers[id], Generation: max(l.seats[id].Generation, atLeast[id]) + 1, State: Offered}
		if s.Generation > seat.MaxGeneration {
			return nil, fmt.Errorf("offer seat %d: %w", id, errSpent)
		}
		changed = append(changed, s)
	}
	return changed, l.put(ctx, changed)
}

// Lease gives seats to clients, and returns the claims that are none: of an earlier
// generation than was offered, of one that was given to a client before, of no seat that is
// offered. With an error none has a seat.
func (l *Ledger) Lease(ctx context.Context, claims []Claim) (refused []Claim, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := map[int]Seat{}
	for _, c := range claims {
		s, again := now[c.ID]
		if !again {
			s = l.seats[c.ID]
		}
		if s.State == Leased && c.Generation <= s.Generation || s.State == Done || c.Generation < s.Generation || s.ID == 0 {
			refused = append(refused, c)
			continue
		}
		s.Generation, s.Client, s.State = c.Generation, c.Client, Leased
		now[c.ID] = s
	}
	var changed []Seat
	for _, id := range slices.Sorted(maps.Keys(now)) {
		changed = append(changed, now[id])
	}
	return refused, l.put(ctx, changed)
}

// Finish ends all seats: nobody has one any more.
func (l *Ledger) Finish(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var changed []Seat
	for _, id := range slices.Sorted(maps.Keys(l.seats)) {
		if s := l.seats[id]; s.State != Done {
			s.State, s.Client = Done, ""
			changed = append(changed, s)
		}
	}
	return l.put(ctx, changed)
}

// put keeps what has changed. The caller holds the lock.
func (l *Ledger) put(ctx context.Context, changed []Seat) error {
	if len(changed) == 0 {
		return nil
	}
	if l.keeper != nil {
		if err := l.keeper.PutSeats(ctx, changed); err != nil {
			return fmt.Errorf("write down %d seats: %w", len(changed), err)
		}
	}
	for _, s := range changed {
		l.seats[s.ID] = s
	}
	return nil
}
