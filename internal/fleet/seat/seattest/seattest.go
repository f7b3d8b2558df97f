// Package seattest is what every queue of seats must keep, whatever broker is behind it.
package seattest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/fleet/seat"
)

// Broker is a driver with a broker behind it.
type Broker struct {
	// Open makes the queue of a run, empty unless there was one of that run before. One is open at
	// a time.
	Open func(ctx context.Context, run string, lease time.Duration) (seat.Queue, error)
	// Redeliver has the broker deliver again what l holds, while l is held, of the queue that was
	// opened last.
	Redeliver func(ctx context.Context, l seat.Lease) error
	// Stray puts into the queue of a run, which is open, a message that the driver did not make.
	Stray func(ctx context.Context, run string, text []byte) error
	// Restart ends the broker and starts it again. It may have lost all that it had.
	Restart func(ctx context.Context) error
	// Crowd is how many clients wait at once, and how many seats there are for them.
	Crowd int
}

// Clause is one thing that a queue must keep.
type Clause struct {
	Name  string
	Check func(context.Context, Broker) error // an error says what the queue did instead
}

// Clauses are all that a queue must keep.
func Clauses() []Clause {
	return []Clause{
		{"a lease from offer to done", lifeOfALease},
		{"the same offer twice", offeredTwice},
		{"the later of two generations", laterGeneration},
		{"a lease that runs out", runsOut},
		{"a message delivered twice", deliveredTwice},
		{"a seat given back", givenBack},
		{"clients that stop waiting", stopWaiting},
		{"as many seats as clients", crowd},
		{"holders who do as they like", anyHolders},
		{"what another run left", anotherRun},
		{"what is no seat", noSeat},
		{"a queue that is closed", closes},
		{"a broker that restarts", restarts},
		{"a lease below the round trip", belowRoundTrip},
	}
}

// Run checks all clauses, one after the other.
func Run(t *testing.T, b Broker) {
	for _, c := range Clauses() {
		t.Run(c.Name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			if err := c.Check(ctx, b); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// long is a lease that does not run out in a test.
const long = 5 * time.Minute

var runs atomic.Uint64

// newRun names a run that no other test has.
func newRun() string { return fmt.Sprintf("run-%x-%d", time.Now().UnixNano(), runs.Add(1)) }

// queue is one that a clause uses. What goes wrong ends the clause.
type queue struct {
	seat.Queue
	ctx context.Context //nolint:containedctx // of the clause
}

// wrong is what ends a clause.
type wrong struct{ error }

func fail(format string, args ...any) { panic(wrong{fmt.Errorf(format, args...)}) }

// must ends a clause if what it did went wrong.
func must(what string, err error) {
	if err != nil {
		fail("%s: %w", what, err)
	}
}

// with has check use the queue of a new run.
func with(ctx context.Context, b Broker, lease time.Duration, check func(queue)) error {
	return in(ctx, b, newRun(), lease, check)
}

// in has check use the queue of a run.
func in(ctx context.Context, b Broker, run string, lease time.Duration, check func(queue)) (err error) {
	q, err := b.Open(ctx, run, lease)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer func() {
		switch ended := recover().(type) {
		case nil:
		case wrong:
			err = ended.error
		default:
			panic(ended)
		}
		err = errors.Join(err, q.Close())
	}()
	check(queue{q, ctx})
	return nil
}

// withShort is with, for leases that shall run out. What a busy machine does not manage
// within a short lease, which is errStalled, it does within a longer one.
func withShort(ctx context.Context, b Broker, check func(queue)) error {
	var err error
	for lease := 250 * time.Millisecond; lease < 20*time.Second; lease *= 4 {
		err = with(ctx, b, lease, check)
		var short *seat.ShortLeaseError
		if !errors.Is(err, errStalled) && !errors.As(err, &short) {
			return err
		}
	}
	return err
}

var errStalled = errors.New("a lease ran out that should have lasted")

func seatOf(id string, generation uint64) seat.Seat {
	return seat.Seat{ID: id, Generation: generation, Body: []byte("the body of " + id)}
}

func (q queue) offer(id string, generation uint64) {
	must(fmt.Sprintf("offer %s generation %d", id, generation), q.Offer(q.ctx, seatOf(id, generation)))
}

// next leases the seat that comes.
func (q queue) next(what string) seat.Lease {
	l, err := q.Lease(q.ctx)
	must(what, err)
	return l
}

// lease leases a seat, which must be this one.
func (q queue) lease(id string, generation uint64) seat.Lease {
	l := q.next(fmt.Sprintf("lease, where %s generation %d was to come", id, generation))
	s := l.Seat()
	if s.ID != id || s.Generation != generation {
		fail("leased %s generation %d instead of %s generation %d", s.ID, s.Generation, id, generation)
	}
	if want := "the body of " + id; string(s.Body) != want {
		fail("%s has the body %q instead of %q", id, s.Body, want)
	}
	return l
}

func (q queue) renew(l seat.Lease) { must("renew", l.Renew(q.ctx)) }
func (q queue) done(l seat.Lease)  { must("done", l.Done(q.ctx)) }

// over checks that a lease is over for its holder.
func (q queue) over(l seat.Lease) {
	for name, do := range map[string]func(context.Context) error{"Renew": l.Renew, "Return": l.Return, "Done": l.Done} {
		if err := do(q.ctx); !errors.Is(err, seat.ErrLost) {
			fail("%s of %s generation %d, whose lease is over, says %v", name, l.Seat().ID, l.Seat().Generation, err)
		}
	}
}

// lost waits until a lease is lost.
func (q queue) lost(l seat.Lease) {
	select {
	case <-l.Lost():
	case <-q.ctx.Done():
		fail("the lease of %s generation %d is not lost", l.Seat().ID, l.Seat().Generation)
	}
}

// held checks that a lease is not lost.
func held(l seat.Lease) {
	if isLost(l) {
		fail("the lease of %s generation %d is lost", l.Seat().ID, l.Seat().Generation)
	}
}

func isLost(l seat.Lease) bool {
	select {
	case <-l.Lost():
		return true
	default:
		return false
	}
}

// empty checks that no seat comes for a while. On a slow machine it sees less.
func (q queue) empty() {
	short, cancel := context.WithTimeout(q.ctx, 200*time.Millisecond)
	defer cancel()
	l, err := q.Lease(short)
	switch {
	case err == nil:
		fail("%s generation %d waits in a queue that should be empty", l.Seat().ID, l.Seat().Generation)
	case !errors.Is(err, context.DeadlineExceeded):
		fail("lease, from an empty queue, until a time-out: %w", err)
	}
}
