package seattest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/fleet/seat"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fault is what a wrong queue does.
type fault int

const (
	none fault = iota
	leasesTwice
	leasesTheSameGeneration
	oldHolderFinishes
	oldHolderRenews
	oldHolderReturns
	losesReturned
	returnsTheSameGeneration
	losesWhatRanOut
	neverRunsOut
	forgetsWhoLeft
	offersTwice
	keepsTheEarlier
	leavesTheEarlierLeased
	sharesRuns
	servesHalf
	leasesWhatIsDone
	hidesLoss
	waitsWhenClosed
	takesAnything
	leasesForNothing
	changesBodies
	tellsNobody
)

// memory is a broker in this process, right or with a fault: the suite must pass the
// first and fail each of the others.
type memory struct {
	fault fault
	mu    sync.Mutex
	runs  map[string]*memoryRun
}

type memoryRun struct {
	seats map[string]*memorySeat
	order []string      // IDs of seats that wait
	wake  chan struct{} // closed and replaced when a seat comes
	given int
}

type memorySeat struct {
	seat.Seat
	holder *memoryLease
}

type memoryQueue struct {
	b      *memory
	run    string
	lease  time.Duration
	closed chan struct{}
	once   sync.Once
	leases map[*memoryLease]bool // with b.mu

	emptied chan struct{}
}

type memoryLease struct {
	q    *memoryQueue
	s    seat.Seat
	term *seat.Term
}

func (b *memory) of(run string) *memoryRun {
	if b.fault == sharesRuns {
		run = ""
	}
	r := b.runs[run]
	if r == nil {
		r = &memoryRun{seats: map[string]*memorySeat{}, wake: make(chan struct{})}
		b.runs[run] = r
	}
	return r
}

// put has a seat wait.
func (r *memoryRun) put(s seat.Seat) {
	r.seats[s.ID] = &memorySeat{Seat: s}
	if !slices.Contains(r.order, s.ID) {
		r.order = append(r.order, s.ID)
	}
	close(r.wake)
	r.wake = make(chan struct{})
}

func (b *memory) open(_ context.Context, run string, lease time.Duration) (seat.Queue, error) {
	return &memoryQueue{b: b, run: run, lease: lease, closed: make(chan struct{}), leases: map[*memoryLease]bool{}, emptied: make(chan struct{}, 1)}, nil
}

func (q *memoryQueue) isClosed() bool {
	select {
	case <-q.closed:
		return true
	default:
		return false
	}
}

func (q *memoryQueue) Offer(_ context.Context, s seat.Seat) error {
	if q.isClosed() {
		return seat.ErrClosed
	}
	q.b.mu.Lock()
	r := q.b.of(q.run)
	have := r.seats[s.ID]
	keep := have != nil && (have.Generation >= s.Generation || q.b.fault == keepsTheEarlier) &&
		!(q.b.fault == offersTwice && have.Generation == s.Generation)
	if !keep {
		r.put(s)
	}
	q.b.mu.Unlock()
	if !keep && have != nil && have.holder != nil && q.b.fault != leavesTheEarlierLeased {
		have.holder.term.Lose()
	}
	return nil
}

func (q *memoryQueue) Lease(ctx context.Context) (seat.Lease, error) {
	for {
		q.b.mu.Lock()
		r := q.b.of(q.run)
		wake := r.wake
		full := q.b.fault == servesHalf && len(q.leases) >= 100
		if len(r.order) > 0 && (q.b.fault == forgetsWhoLeft || ctx.Err() == nil) && !q.isClosed() && !full {
			l, err := q.take(r)
			q.b.mu.Unlock()
			if q.b.fault == forgetsWhoLeft && ctx.Err() != nil && err == nil {
				l.term.Finish()
				return nil, ctx.Err()
			}
			if err != nil {
				return nil, err
			}
			return l, nil
		}
		q.b.mu.Unlock()
		closed := q.closed
		if q.b.fault == waitsWhenClosed {
			closed = nil
		}
		select {
		case <-wake:
		case <-closed:
			return nil, seat.ErrClosed
		case <-ctx.Done():
			if q.b.fault == forgetsWhoLeft { // until the next seat comes
				go func() {
					select {
					case <-wake:
						_, _ = q.Lease(ctx)
					case <-q.closed:
					}
				}()
			}
			return nil, ctx.Err()
		}
	}
}

// take leases the first seat that waits.
func (q *memoryQueue) take(r *memoryRun) (*memoryLease, error) {
	if q.lease < time.Microsecond && q.b.fault != leasesForNothing {
		return nil, &seat.ShortLeaseError{Lease: q.lease, RoundTrip: time.Microsecond}
	}
	s := r.seats[r.order[0]]
	r.given++
	if q.b.fault != leasesTwice || r.given%2 == 0 {
		r.order = r.order[1:]
	}
	if s == nil {
		return nil, errors.New("a seat that is done")
	}
	if q.b.fault == changesBodies {
		s.Body = append(slices.Clone(s.Body), 0)
	}
	l := &memoryLease{q: q, s: s.Seat}
	length := q.lease
	if q.b.fault == neverRunsOut {
		length = time.Hour
	}
	l.term = seat.NewTerm(length, time.Now(), l.back)
	s.holder = l
	q.leases[l] = true
	return l, nil
}

// back has the seat of a lease that is lost wait again, unless it has another holder.
func (l *memoryLease) back() {
	l.q.b.mu.Lock()
	defer l.q.b.mu.Unlock()
	r := l.q.b.of(l.q.run)
	if s := r.seats[l.s.ID]; s != nil && s.holder == l && l.q.b.fault != losesWhatRanOut {
		if l.q.b.fault == leasesTheSameGeneration {
			r.put(l.s)
			return
		}
		r.put(l.s.Next())
	}
}

// end ends a lease that its holder ends. With a fault it ends whatever is there.
func (l *memoryLease) end(f fault, then func(*memoryRun)) error {
	ok := l.term.Finish()
	if !ok && l.q.b.fault != f {
		return seat.ErrLost
	}
	l.q.b.mu.Lock()
	defer l.q.b.mu.Unlock()
	then(l.q.b.of(l.q.run))
	return nil
}

func (l *memoryLease) Seat() seat.Seat { return l.s }

func (l *memoryLease) Renew(context.Context) error {
	err := l.term.Renew(time.Now())
	if l.q.b.fault == oldHolderRenews {
		return nil
	}
	return err
}

func (l *memoryLease) Return(context.Context) error {
	return l.end(oldHolderReturns, func(r *memoryRun) {
		next := l.s.Next()
		if l.q.b.fault == returnsTheSameGeneration {
			next = l.s
		}
		if l.q.b.fault == losesReturned {
			delete(r.seats, l.s.ID)
			return
		}
		r.put(next)
	})
}

func (l *memoryLease) Done(context.Context) error {
	return l.end(oldHolderFinishes, func(r *memoryRun) {
		if l.q.b.fault == leasesWhatIsDone {
			r.put(l.s)
			return
		}
		delete(r.seats, l.s.ID)
		r.order = slices.DeleteFunc(r.order, func(id string) bool { return id == l.s.ID })
	})
}

func (l *memoryLease) Lost() <-chan struct{} {
	if l.q.b.fault == hidesLoss {
		return nil
	}
	return l.term.Lost()
}

func (q *memoryQueue) Emptied() <-chan struct{} { return q.emptied }

func (q *memoryQueue) Close() error {
	q.once.Do(func() {
		close(q.closed)
		q.b.mu.Lock()
		leases := q.leases
		q.leases = nil
		q.b.mu.Unlock()
		for l := range leases {
			l.term.Lose()
		}
	})
	return nil
}

func (b *memory) broker() Broker {
	return Broker{
		Open: b.open,
		Redeliver: func(_ context.Context, l seat.Lease) error {
			l.(*memoryLease).term.Lose()
			return nil
		},
		Stray: func(_ context.Context, run string, text []byte) error {
			s, err := seat.Decode(run, text)
			if err != nil && b.fault != takesAnything {
				return nil
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			b.of(run).put(s)
			return nil
		},
		Restart: func(context.Context) error {
			b.mu.Lock()
			runs := b.runs
			b.runs = map[string]*memoryRun{}
			b.mu.Unlock()
			for _, r := range runs {
				for _, s := range r.seats {
					if s.holder != nil {
						s.holder.term.Lose()
						if b.fault == tellsNobody {
							continue
						}
						select {
						case s.holder.q.emptied <- struct{}{}:
						default:
						}
					}
				}
				close(r.wake) // who waits asks again
			}
			return nil
		},
		Crowd: 200,
	}
}

func TestAQueueInMemory(t *testing.T) {
	t.Parallel()
	Run(t, (&memory{runs: map[string]*memoryRun{}}).broker())
}

// The clause that forbids a fault finds it.
func TestWrongQueuesFail(t *testing.T) {
	for f, clause := range map[fault]string{
		leasesTwice:              "the same offer twice",
		leasesTheSameGeneration:  "a lease that runs out",
		oldHolderFinishes:        "a lease that runs out",
		oldHolderRenews:          "a lease that runs out",
		oldHolderReturns:         "a lease that runs out",
		losesReturned:            "a seat given back",
		returnsTheSameGeneration: "a seat given back",
		losesWhatRanOut:          "a lease that runs out",
		neverRunsOut:             "a lease that runs out",
		forgetsWhoLeft:           "clients that stop waiting",
		offersTwice:              "the same offer twice",
		keepsTheEarlier:          "the later of two generations",
		leavesTheEarlierLeased:   "the later of two generations",
		sharesRuns:               "what another run left",
		servesHalf:               "as many seats as clients",
		leasesWhatIsDone:         "a lease from offer to done",
		hidesLoss:                "a lease that runs out",
		waitsWhenClosed:          "a queue that is closed",
		takesAnything:            "what is no seat",
		leasesForNothing:         "a lease below the round trip",
		changesBodies:            "a lease from offer to done",
		tellsNobody:              "a broker that restarts",
	} {
		t.Run(fmt.Sprint("fault ", f), func(t *testing.T) {
			t.Parallel() // they wait for what never comes
			b := (&memory{fault: f, runs: map[string]*memoryRun{}}).broker()
			for _, c := range Clauses() {
				if c.Name != clause {
					continue
				}
				// On a busy machine a client may stop waiting before it waits, once.
				var err error
				for range 5 {
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
					err = c.Check(ctx, b)
					if cancel(); err != nil {
						break
					}
				}
				if err == nil {
					t.Errorf("passes: %s", c.Name)
				}
				t.Log(err)
			}
		})
	}
}
