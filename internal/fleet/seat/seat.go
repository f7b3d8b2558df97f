// Package seat is the queue that feeds clients with servers. A seat is a place for one
// client at a server; a lease of it ends when its holder stops renewing it, and the seat
// then goes to another under the next generation. The drivers are packages of their
// own: each keeps what seattest asks of it.
package seat

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hopbench/hopbench/internal/fleet/subject"
)

// Seat is a place for one client at a server.
type Seat struct {
	ID         string // a name: see subject.CheckName
	Generation uint64 // from 1; each lease of a seat has a generation of its own
	Body       []byte // what the client needs to know, opaque here; at most MaxBody
}

// Bounds of what a seat may be.
const (
	MaxBody       = 16 << 10 // bytes
	MaxGeneration = 1 << 53  // what every program that reads JSON keeps exactly
)

// Next is the seat under its next generation.
func (s Seat) Next() Seat {
	s.Generation++
	return s
}

// Check says what is wrong with a seat, or nil.
func (s Seat) Check() error {
	if err := subject.CheckName(s.ID); err != nil {
		return fmt.Errorf("seat: %w", err)
	}
	if s.Generation < 1 || s.Generation > MaxGeneration {
		return fmt.Errorf("seat %s: generation %d is not between 1 and %d", s.ID, s.Generation, uint64(MaxGeneration))
	}
	if len(s.Body) > MaxBody {
		return fmt.Errorf("seat %s: a body of %d bytes, more than %d", s.ID, len(s.Body), MaxBody)
	}
	return nil
}

// Queue holds the seats that wait and those that are leased. All its methods may be called
// at the same time.
type Queue interface {
	// Offer puts a seat into the queue. Of two generations of one seat the later stays, and
	// who holds the earlier has lost it; the same generation twice is one. An error says that
	// it is not known whether the seat is there: offer it again.
	Offer(ctx context.Context, s Seat) error
	// Lease waits for a seat until ctx ends. No generation of a seat is leased twice.
	Lease(ctx context.Context) (Lease, error)
	// Emptied has a value when seats that waited may be gone, since the broker has lost its
	// memory. Offer the next generation of each then; leases are lost by themselves.
	Emptied() <-chan struct{}
	// Close ends what waits, and the leases that this queue gave. Seats stay where they are.
	Close() error
}

// Lease is a seat that one client holds, for the time that the queue was made with.
type Lease interface {
	Seat() Seat
	// Renew, Return and Done fail with ErrLost once the lease is over, and change nothing then.
	// With another error it is not known whether they took effect: call again.
	Renew(ctx context.Context) error
	// Return gives the seat to others, with the next generation.
	Return(ctx context.Context) error
	// Done takes the seat out of the queue.
	Done(ctx context.Context) error
	// Lost is closed when the lease is over without Return or Done: by the clock of who holds
	// it, or since the queue knows better.
	Lost() <-chan struct{}
}

// Pause lets a broker come back: for a time by chance, so that not all ask it at once.
func Pause(ctx context.Context) {
	select {
	case <-time.After(50*time.Millisecond + rand.N(200*time.Millisecond)):
	case <-ctx.Done():
	}
}

// ErrLost says that a lease is over: its time is, a later generation was offered, or it
// was ended by Return or Done.
var ErrLost = errors.New("the lease is over")

// ErrClosed says that a queue was closed.
var ErrClosed = errors.New("the queue of seats is closed")

// ShortLeaseError says that leases end before a renewal can be confirmed.
type ShortLeaseError struct{ Lease, RoundTrip time.Duration }

func (e *ShortLeaseError) Error() string {
	return fmt.Sprintf("a lease of %v is over before the queue has confirmed it, which took %v; make the lease longer", e.Lease, e.RoundTrip)
}
