package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/hopbench/hopbench/internal/fleet/seat"
	"github.com/hopbench/hopbench/internal/testutil"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// disk keeps seats unless it is full.
type disk struct {
	seats map[int]Seat
	full  bool
}

var errFull = errors.New("no space left")

func (d *disk) Seats(context.Context) ([]Seat, error) {
	if d.full {
		return nil, errFull
	}
	return slices.Collect(maps.Values(d.seats)), nil
}

func (d *disk) PutSeats(_ context.Context, all []Seat) error {
	if d.full {
		return errFull
	}
	for _, s := range all {
		d.seats[s.ID] = s
	}
	return nil
}

func TestLifeOfASeat(t *testing.T) {
	d := &disk{seats: map[int]Seat{}}
	l, err := Open(t.Context(), d)
	testutil.OK(t, err)
	lease := func(id int, generation uint64, client string, want bool) {
		t.Helper()
		refused, err := l.Lease(t.Context(), []Claim{{id, generation, client}})
		if err != nil || (len(refused) == 0) != want {
			t.Errorf("seat %d, generation %d, for %s: refused %v, %v", id, generation, client, refused, err)
		}
	}
	lease(1, 1, "c1", false) // no such seat
	offered, err := l.Offer(t.Context(), map[int]string{2: "s2", 1: "s1"}, nil)
	if want := []Seat{{1, "s1", 1, "", Offered}, {2, "s2", 1, "", Offered}}; err != nil || !slices.Equal(offered, want) {
		t.Errorf("offered %v, %v", offered, err)
	}
	lease(1, 1, "c1", true)
	lease(1, 1, "c2", false) // it has been given
	lease(1, 2, "c2", true)  // it ran out, and the queue made another
	if got := d.seats[1]; got != (Seat{1, "s1", 2, "c2", Leased}) {
		t.Errorf("on the disk %v", got)
	}
	_, err = l.Offer(t.Context(), map[int]string{1: "s3"}, map[int]uint64{1: 7})
	testutil.OK(t, err)
	lease(1, 3, "c1", false) // what was in the queue before
	lease(1, 8, "c1", true)
	testutil.OK(t, l.Finish(t.Context()))
	lease(2, 1, "c2", false)
	if want := map[int]Seat{1: {1, "s3", 8, "", Done}, 2: {2, "s2", 1, "", Done}}; !maps.Equal(d.seats, want) {
		t.Errorf("on the disk %v", d.seats)
	}
	if _, err := l.Offer(t.Context(), map[int]string{1: "s1"}, map[int]uint64{1: seat.MaxGeneration}); !errors.Is(err, errSpent) {
		t.Error(err)
	}
}

// Of one call at most one claim of a seat's generation is given.
func TestClaimsOfOneCall(t *testing.T) {
	l, err := Open(t.Context(), nil)
	testutil.OK(t, err)
	_, err = l.Offer(t.Context(), map[int]string{1: "s1"}, nil)
	testutil.OK(t, err)
	refused, err := l.Lease(t.Context(), []Claim{{1, 1, "c1"}, {1, 1, "c2"}, {1, 2, "c3"}})
	if err != nil || len(refused) != 1 || refused[0].Client != "c2" {
		t.Errorf("refused %v, %v", refused, err)
	}
}

// What is not on the disk has not happened.
func TestFullDisk(t *testing.T) {
	d := &disk{seats: map[int]Seat{}}
	l, err := Open(t.Context(), d)
	testutil.OK(t, err)
	_, err = l.Offer(t.Context(), map[int]string{1: "s1"}, nil)
	testutil.OK(t, err)
	d.full = true
	if _, err := l.Lease(t.Context(), []Claim{{1, 1, "c1"}}); !errors.Is(err, errFull) {
		t.Error(err)
	}
	if _, err := l.Offer(t.Context(), map[int]string{1: "s1"}, nil); !errors.Is(err, errFull) {
		t.Error(err)
	}
	if err := l.Finish(t.Context()); !errors.Is(err, errFull) {
		t.Error(err)
	}
	if _, err := Open(t.Context(), d); !errors.Is(err, errFull) {
		t.Error(err)
	}
	d.full = false
	if refused, err := l.Lease(t.Context(), []Claim{{1, 1, "c1"}}); err != nil || refused != nil {
		t.Errorf("refused %v, %v", refused, err)
	}
}

// Whatever a queue brings, and however often the coordinator is killed and its disk full: no
// generation of a seat goes to two clients, and none is earlier than one before it.
func TestNoGenerationTwice(t *testing.T) {
	for seed := range testutil.Repeat(50, 2000) {
		random := rand.New(rand.NewPCG(uint64(seed), 17))
		d := &disk{seats: map[int]Seat{}}
		l, err := Open(t.Context(), d)
		testutil.OK(t, err)
		holder, last := map[string]string{}, map[int]uint64{}
		for step := range 200 {
			id := 1 + random.IntN(3)
			d.full = random.IntN(10) == 0
			switch random.IntN(4) {
			case 0:
				atLeast := map[int]uint64{id: uint64(random.IntN(5))}
				all, err := l.Offer(t.Context(), map[int]string{id: "s"}, atLeast)
				if err == nil && (all[0].Generation <= last[id] || all[0].Generation <= atLeast[id]) {
					t.Fatalf("seed %d, step %d: offered %v, after generation %d", seed, step, all[0], last[id])
				}
				if err == nil {
					last[id] = all[0].Generation
				}
			case 1, 2:
				c := Claim{id, last[id] + uint64(random.IntN(3)) - uint64(min(1, last[id])), fmt.Sprint("c", step)}
				refused, err := l.Lease(t.Context(), []Claim{c})
				if err != nil || len(refused) > 0 {
					break
				}
				key := fmt.Sprint(c.ID, " ", c.Generation)
				if holder[key] != "" || c.Generation < last[id] {
					t.Fatalf("seed %d, step %d: %s has seat and generation %s, that %s had", seed, step, c.Client, key, holder[key])
				}
				holder[key], last[id] = c.Client, c.Generation
			case 3: // killed, and started again
				d.full = false
				l, err = Open(t.Context(), d)
				testutil.OK(t, err)
			}
		}
		if len(holder) < 10 {
			t.Fatalf("seed %d: only %d leases", seed, len(holder))
		}
	}
}
