// Package messages is the queue of seats at a broker of messages, whatever protocol it
// speaks: one that delivers each message to one receiver and keeps it until that has said
// what became of it.
//
// Such a broker cannot replace a message: the next generation is sent before the earlier is
// accepted, and what is found to be of an earlier generation than has been seen is accepted
// and forgotten. What another run has left is rejected. At the broker a lease lasts as long
// as the link; the time that it has is counted here.
package messages

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/fleet/seat"
	"github.com/hopbench/hopbench/internal/fleet/subject"
)

// Link is a way to a queue of a broker, and back. All its methods may be called at the same
// time.
type Link interface {
	// Send puts a message into the queue, and returns when the broker has it.
	Send(ctx context.Context, text []byte) error
	// Ask has the broker deliver n messages more than it was asked for.
	Ask(n int) error
	// Receive waits for a message. With an error that is not ctx's the link is over.
	Receive(ctx context.Context) (Delivery, error)
	// Alive says whether the broker still keeps for this link what it has delivered.
	Alive() bool
	// Close ends the link. The broker gives to others what was delivered and not settled.
	Close() error
}

// Delivery is a message that a broker has delivered, until it is settled by one of its
// methods. Where settling fails the message comes again.
type Delivery interface {
	Text() []byte
	// Accept takes the message out of the queue.
	Accept(ctx context.Context) error
	// Release gives it to whoever asks for one.
	Release(ctx context.Context) error
	// Reject takes it out as one that should not be there.
	Reject(ctx context.Context, why error) error
}

// Options are those of a queue of a broker.
type Options struct {
	Run   string // its name: see subject.CheckName
	Lease time.Duration
	// Dial makes a link, which says of what it delivered if the broker keeps it no more. A
	// lease that is shorter than a round trip is a *seat.ShortLeaseError.
	Dial func(ctx context.Context, lost func(Delivery)) (Link, error)
}

const (
	// maxSeats bounds what a broker can have this process remember.
	maxSeats = 100_000
	// askAgainTime is how long a broker may send nothing of what it has until it is asked again.
	askAgainTime = 5 * time.Second
	// answerTime is what a broker has to take a message.
	answerTime = 20 * time.Second
	// mostSettled bounds how many messages are settled at a time that no client gets.
	mostSettled = 64
)

// Queue is a seat.Queue at a broker of messages.
type Queue struct {
	o     Options
	ctx   context.Context
	end   context.CancelFunc
	work  sync.WaitGroup
	empty chan struct{}
	// settling has one for each message that is being settled and that no client gets.
	settling chan struct{}

	mu      sync.Mutex
	closed  bool
	link    Link          // nil while the broker is away
	changed chan struct{} // closed when link is another
	credit  int           // messages that the broker may still send
	heard   time.Time     // when it sent one, or was asked again
	waiting []chan *lease // each with room for one
	seats   map[string]*known
	broke   error // why a link ended last, or could not be made
}

// known is what this queue knows of a seat.
type known struct {
	writing chan struct{} // has one while one of its messages is sent

	// The rest is guarded by the queue's.
	newest uint64 // generation seen or sent last
	given  bool   // it was leased
	done   bool   // and is done
	holder *lease
}

// Open connects to a broker.
func Open(ctx context.Context, o Options) (*Queue, error) {
	if err := subject.CheckName(o.Run); err != nil {
		return nil, fmt.Errorf("queue of seats: run: %w", err)
	}
	if o.Lease <= 0 {
		return nil, fmt.Errorf("queue of seats: a lease of %v: it has to be longer than nothing", o.Lease)
	}
	q := &Queue{o: o, changed: make(chan struct{}), empty: make(chan struct{}, 1), settling: make(chan struct{}, mostSettled), seats: map[string]*known{}}
	l, err := o.Dial(ctx, q.lost)
	if err != nil {
		return nil, err
	}
	q.ctx, q.end = context.WithCancel(context.Background())
	q.connected(l)
	q.work.Go(func() { q.serve(l) })
	return q, nil
}

// serve takes what the broker delivers, over one connection after the other, until the queue
// is closed.
func (q *Queue) serve(l Link) {
	for {
		msg, err := l.Receive(q.ctx)
		for err == nil {
			q.delivered(l, msg)
			msg, err = l.Receive(q.ctx)
		}
		q.disconnected(err)
		_ = l.Close() // whatever became of it
		for l = nil; l == nil; {
			seat.Pause(q.ctx)
			if q.ctx.Err() != nil {
				return
			}
			if l, err = q.o.Dial(q.ctx, q.lost); err != nil {
				q.mu.Lock()
				q.broke = err
				q.mu.Unlock()
			}
		}
		q.connected(l)
		q.mayBeEmpty() // it may be another broker than before
	}
}

func (q *Queue) mayBeEmpty() {
	select {
	case q.empty <- struct{}{}:
	default:
	}
}

// lost ends the lease of a message that the broker does not keep for it any more. It may have
// lost others, too.
func (q *Queue) lost(msg Delivery) {
	q.mu.Lock()
	var of *lease
	for _, k := range q.seats {
		if k.holder != nil && k.holder.msg == msg {
			of = k.holder
		}
	}
	q.mu.Unlock()
	if of != nil {
		of.term.Lose()
	}
	q.mayBeEmpty()
}

func (q *Queue) connected(l Link) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.link = l
	close(q.changed)
	q.changed = make(chan struct{})
	q.credit = 0
	q.ask()
}

// disconnected ends all leases: the broker gives them to others.
func (q *Queue) disconnected(why error) {
	q.mu.Lock()
	q.link, q.broke = nil, why
	close(q.changed)
	q.changed = make(chan struct{})
	var held []*lease
	for _, k := range q.seats {
		if k.holder != nil {
			held = append(held, k.holder)
		}
	}
	q.mu.Unlock()
	for _, l := range held {
		l.term.Lose()
	}
}

// ask has the broker send one message for each client that waits. With q.mu.
func (q *Queue) ask() {
	if n := len(q.waiting) - q.credit; n > 0 && q.link != nil && q.link.Ask(n) == nil {
		q.credit += n
	}
}

// askAgain asks once more for what was asked for, if the broker has a seat and sends none:
// RabbitMQ 3.10 may lose count of the credit that it has.
func (q *Queue) askAgain() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if time.Since(q.heard) < askAgainTime {
		return
	}
	for _, k := range q.seats {
		if k.newest > 0 && !k.given && !k.done {
			q.heard = time.Now()
			q.credit = 0
			q.ask()
			return
		}
	}
}

// spawn does something in a goroutine, which ends with the queue.
func (q *Queue) spawn(do func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.work.Go(do)
	}
}

// settle settles a message that no client gets while others come: of thousands that an earlier
// run has left each takes a round trip.
func (q *Queue) settle(do func()) {
	select {
	case q.settling <- struct{}{}:
	case <-q.ctx.Done():
		return
	}
	q.spawn(func() {
		defer func() { <-q.settling }()
		do()
	})
}

// seat is what is known of one. With q.mu.
func (q *Queue) seat(id string) *known {
	k := q.seats[id]
	if k == nil {
		k = &known{writing: make(chan struct{}, 1)}
		q.seats[id] = k
	}
	return k
}

// delivered leases what came to the client that has waited longest, unless it is to be
// forgotten, or replaced, or nobody waits.
func (q *Queue) delivered(l Link, msg Delivery) {
	received := time.Now()
	s, err := seat.Decode(q.o.Run, msg.Text())
	q.mu.Lock()
	q.credit = max(q.credit-1, 0) // one that was asked for again may bring more than is counted
	q.heard = received
	if err == nil && q.seats[s.ID] == nil && len(q.seats) >= maxSeats {
		err = fmt.Errorf("more than %d seats", maxSeats)
	}
	if err != nil {
		q.ask()
		q.mu.Unlock()
		q.settle(func() { _ = msg.Reject(q.ctx, err) })
		return
	}
	settle, superseded := func() {}, (*lease)(nil)
	switch k := q.seat(s.ID); {
	case s.Generation < k.newest, s.Generation == k.newest && k.done:
		settle = func() { q.settle(func() { _ = msg.Accept(q.ctx) }) }
	case s.Generation == k.newest && k.given:
		// A message is leased once: what comes again becomes the next generation.
		superseded = k.holder
		settle = func() { q.spawn(func() { q.replace(l, msg, s) }) }
	default:
		superseded = k.set(s.Generation)
		if len(q.waiting) == 0 { // who asked for it has left
			settle = func() { _ = msg.Release(q.ctx) }
			break
		}
		taken := &lease{q: q, link: l, msg: msg, s: s, k: k}
		taken.term = seat.NewTerm(q.o.Lease, received, func() { q.spawn(taken.over) })
		k.given, k.holder = true, taken
		q.waiting[0] <- taken
		q.waiting = q.waiting[1:]
	}
	q.ask()
	q.mu.Unlock()
	if superseded != nil {
		superseded.term.Lose()
	}
	settle()
}

// set makes a generation the newest, unless it is. It returns who held an earlier one.
// With the queue's mu.
func (k *known) set(generation uint64) (superseded *lease) {
	if generation > k.newest {
		superseded = k.holder
		k.newest, k.given, k.done, k.holder = generation, false, false, nil
	}
	return superseded
}

// replace puts the next generation into the queue instead of a message. If the connection
// breaks meanwhile the message is delivered again, and replaced then.
func (q *Queue) replace(l Link, msg Delivery, s seat.Seat) {
	q.mu.Lock()
	k := q.seat(s.ID)
	q.mu.Unlock()
	select {
	case k.writing <- struct{}{}:
	case <-q.ctx.Done():
		return
	}
	defer func() { <-k.writing }()
	for l.Alive() && q.ctx.Err() == nil {
		q.mu.Lock()
		later := k.newest > s.Generation
		q.mu.Unlock()
		if later || q.send(q.ctx, l, k, s.Next()) == nil {
			_ = msg.Accept(q.ctx)
			return
		}
		seat.Pause(q.ctx)
	}
}

// send writes a generation of a seat, with k.writing.
func (q *Queue) send(ctx context.Context, l Link, k *known, s seat.Seat) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	defer context.AfterFunc(q.ctx, cancel)()
	text, err := seat.Encode(q.o.Run, s)
	if err == nil {
		err = l.Send(ctx, text)
	}
	if err != nil {
		return err
	}
	q.mu.Lock()
	superseded := k.set(s.Generation) // it may have come back already
	q.mu.Unlock()
	if superseded != nil {
		superseded.term.Lose()
	}
	return nil
}

// Offer puts a seat into the queue: see seat.Queue. A generation that was sent is not sent
// again, so what a broker has lost is to be offered as the next: see Emptied.
func (q *Queue) Offer(ctx context.Context, s seat.Seat) error {
	if err := s.Check(); err != nil {
		return err
	}
	q.mu.Lock()
	if q.seats[s.ID] == nil && len(q.seats) >= maxSeats {
		q.mu.Unlock()
		return fmt.Errorf("offer the seat %s: there are %d already", s.ID, maxSeats)
	}
	k := q.seat(s.ID)
	q.mu.Unlock()
	select {
	case k.writing <- struct{}{}:
	case <-q.ctx.Done():
		return seat.ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("offer the seat %s: the broker does not take what is sent before: %w", s.ID, ctx.Err())
	}
	defer func() { <-k.writing }()
	for {
		q.mu.Lock()
		l, changed, there := q.link, q.changed, k.newest >= s.Generation
		q.mu.Unlock()
		switch {
		case q.ctx.Err() != nil:
			return seat.ErrClosed
		case there:
			return nil
		case l != nil:
			err := q.send(ctx, l, k, s)
			if err == nil {
				return nil
			}
			if l.Alive() {
				return fmt.Errorf("offer the seat %s: %w", s.ID, err)
			}
			// The link has ended, which who receives may not know yet: there will be another.
		}
		select {
		case <-changed:
		case <-q.ctx.Done():
		case <-ctx.Done():
			return fmt.Errorf("offer the seat %s: the broker is away: %w", s.ID, ctx.Err())
		}
	}
}

// Lease waits for a seat: see seat.Queue.
func (q *Queue) Lease(ctx context.Context) (seat.Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	mine := make(chan *lease, 1)
	q.mu.Lock()
	if !q.closed {
		q.waiting = append(q.waiting, mine)
		q.ask()
	}
	q.mu.Unlock()
	again := time.NewTicker(askAgainTime)
	defer again.Stop()
	for {
		var err error
		select {
		case <-again.C:
			q.askAgain()
			continue
		case l := <-mine:
			if l.term.Live() == nil {
				return l, nil
			}
			// It was over before anyone could hold it: wait for another.
			q.mu.Lock()
			q.waiting = append(q.waiting, mine)
			q.ask()
			q.mu.Unlock()
			continue
		case <-q.ctx.Done():
			err = seat.ErrClosed
		case <-ctx.Done():
			err = ctx.Err()
		}
		q.mu.Lock()
		q.waiting = slices.DeleteFunc(q.waiting, func(w chan *lease) bool { return w == mine })
		q.mu.Unlock()
		select {
		case l := <-mine:
			_ = l.Return(ctx) // goes on when ctx has ended
		default:
		}
		return nil, err
	}
}

// Broke is why the connection to the broker ended last, or could not be made again; nil if
// neither happened.
func (q *Queue) Broke() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.broke
}

// Emptied: see seat.Queue.
func (q *Queue) Emptied() <-chan struct{} { return q.empty }

// Close ends what waits, and the leases: see seat.Queue.
func (q *Queue) Close() error {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.end()
	q.work.Wait()
	return nil
}

// lease is a message that was delivered and is not settled.
type lease struct {
	q    *Queue
	link Link
	msg  Delivery
	s    seat.Seat
	k    *known
	term *seat.Term
}

func (l *lease) Seat() seat.Seat { return l.s }

func (l *lease) Lost() <-chan struct{} { return l.term.Lost() }

// over gives back what nobody renewed in time. Of a connection that is gone, or closed with
// the queue, the broker does so.
func (l *lease) over() {
	l.q.mu.Lock()
	if l.k.holder == l {
		l.k.holder = nil
	}
	l.q.mu.Unlock()
	l.q.replace(l.link, l.msg, l.s)
}

// Renew: see seat.Lease.
func (l *lease) Renew(ctx context.Context) error {
	if !l.link.Alive() {
		l.term.Lose()
	}
	return l.term.Renew(time.Now())
}

// Return: see seat.Lease. If the connection breaks meanwhile the broker returns the seat.
func (l *lease) Return(ctx context.Context) error {
	if !l.finish(false) {
		return seat.ErrLost
	}
	returned := make(chan struct{})
	l.q.spawn(func() {
		defer close(returned)
		l.q.replace(l.link, l.msg, l.s)
	})
	select {
	case <-returned:
	case <-ctx.Done(): // the queue goes on
	case <-l.q.ctx.Done():
	}
	return nil
}

// Done: see seat.Lease. If the connection breaks meanwhile the message comes again, and is
// forgotten then.
func (l *lease) Done(ctx context.Context) error {
	if !l.finish(true) {
		return seat.ErrLost
	}
	_ = l.msg.Accept(ctx)
	return nil
}

// finish ends the lease, unless it is over.
func (l *lease) finish(done bool) bool {
	if !l.link.Alive() {
		l.term.Lose()
	}
	l.q.mu.Lock()
	defer l.q.mu.Unlock()
	if l.k.holder != l || l.term.Live() != nil || !l.term.Finish() {
		return false
	}
	l.k.done, l.k.holder = done, nil
	return true
}

// Whose names the run that a message is of, for who has the queue of a run; "" for what is no
// seat.
func Whose(run string, text []byte) string {
	_, err := seat.Decode(run, text)
	other, foreign := errors.AsType[*seat.ForeignError](err)
	switch {
	case foreign:
		return other.Run
	case err != nil:
		return ""
	}
	return run
}
