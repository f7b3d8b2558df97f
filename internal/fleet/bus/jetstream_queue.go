package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/singleflight"

	"github.com/hopbench/hopbench/internal/fleet/seat"
	"github.com/hopbench/hopbench/internal/fleet/subject"
)

// SeatOptions are those of a queue of seats in JetStream.
type SeatOptions struct {
	Run      string        // its name: see subject.CheckName
	Lease    time.Duration // after which a seat that nobody renewed goes to another
	Size     int           // the most seats there are, and the most clients that wait at once
	Replicas int           // servers that keep each seat: 1, or 3 of a cluster
}

const (
	// pullTime is how long a client's request stays at the server before it is made anew.
	pullTime = 30 * time.Second
	// answerTime is what the server has for anything else, unless a context is shorter.
	answerTime = 5 * time.Second
	// seatConsumer is the one consumer of a run's stream.
	seatConsumer = "leases"
)

// SeatQueue is a seat.Queue in JetStream: a stream in memory with one subject a seat and one
// message a subject, and one pull consumer.
//
// JetStream takes an acknowledgement of an earlier delivery for the present one, so here a
// message is leased once: what is delivered again is replaced by a message of the next
// generation, by compare and set. What an old holder names is then a message that is gone.
type SeatQueue struct {
	js    jetstream.JetStream
	o     SeatOptions
	name  string // of the stream
	ctx   context.Context
	end   context.CancelFunc
	watch sync.WaitGroup
	empty chan struct{}
	made  singleflight.Group

	mu      sync.Mutex
	stream  jetstream.Stream
	taken   map[delivered]*seatLease // what has been delivered; nil if it is not leased yet
	latest  uint64                   // sequence that the stream has reached
	checked time.Time
	round   context.Context // ends when requests may have been lost, and must be made anew
	next    context.CancelFunc
}

// delivered names a message. A sequence alone does not: a cluster that starts again may
// know of a stream and have lost what was in it.
type delivered struct {
	at         uint64 // sequence
	id         string
	generation uint64
}

// openSeats makes the queue of a run, or finds that which there is. The connection stays
// the caller's.
func openSeats(ctx context.Context, js jetstream.JetStream, o SeatOptions) (*SeatQueue, error) {
	if err := subject.CheckName(o.Run); err != nil {
		return nil, fmt.Errorf("queue of seats: run: %w", err)
	}
	if o.Lease <= 0 || o.Size < 1 || o.Replicas < 1 {
		return nil, fmt.Errorf("queue of seats: a lease of %v, %d seats, %d replicas: all must be more than zero", o.Lease, o.Size, o.Replicas)
	}
	q := &SeatQueue{js: js, o: o, name: "hopbench-" + o.Run + "-seats", taken: map[delivered]*seatLease{}, empty: make(chan struct{}, 1)}
	q.ctx, q.end = context.WithCancel(context.Background())
	q.round, q.next = context.WithCancel(q.ctx)
	changes := js.Conn().StatusChanged(nats.CONNECTED, nats.CLOSED)
	if err := q.make(ctx); err != nil {
		q.end()
		js.Conn().RemoveStatusListener(changes)
		return nil, err
	}
	q.watch.Go(func() { q.reconnected(changes) })
	return q, nil
}

// reconnected has those who wait ask again once the connection is back: what they had
// asked may have ended with it.
func (q *SeatQueue) reconnected(changes chan nats.Status) {
	defer q.js.Conn().RemoveStatusListener(changes)
	for {
		select {
		case <-q.ctx.Done():
			return
		case status, more := <-changes:
			if !more || status == nats.CLOSED {
				q.end()
				return
			}
			q.mu.Lock()
			q.next()
			q.round, q.next = context.WithCancel(q.ctx)
			q.mu.Unlock()
			// A cluster may need a while to answer.
			for q.make(q.ctx) != nil && q.ctx.Err() == nil {
				seat.Pause(q.ctx)
			}
		}
	}
}

// make makes what the queue needs at the server, where it is missing: at first, and after
// a server has lost its memory.
func (q *SeatQueue) make(ctx context.Context) error {
	made := q.made.DoChan("", func() (any, error) {
		ctx, cancel := context.WithTimeout(q.ctx, answerTime)
		defer cancel()
		return nil, q.makeNow(ctx)
	})
	select {
	case r := <-made:
		return r.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (q *SeatQueue) makeNow(ctx context.Context) error {
	q.mu.Lock()
	known := q.latest // before the stream is asked: others offer meanwhile
	q.mu.Unlock()
	stream, err := q.js.Stream(ctx, q.name)
	missing := errors.Is(err, jetstream.ErrStreamNotFound)
	if missing {
		stream, err = q.js.CreateStream(ctx, jetstream.StreamConfig{
			Name:              q.name,
			Description:       "seats that wait or are leased, of a run of hopbench",
			Subjects:          []string{q.subject("*")},
			Retention:         jetstream.WorkQueuePolicy,
			Storage:           jetstream.MemoryStorage,
			Replicas:          q.o.Replicas,
			MaxMsgsPerSubject: 1,
			MaxMsgSize:        seat.MaxMessage + 1024, // with its headers
			// Sequences name leases, so a stream that is made anew repeats none.
			FirstSeq: uint64(time.Now().UnixMicro()),
		})
	}
	if err != nil {
		return fmt.Errorf("make the stream %s: %w", q.name, err)
	}
	_, err = stream.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable:    seatConsumer,
		AckPolicy:  jetstream.AckExplicitPolicy,
		AckWait:    q.o.Lease,
		MaxDeliver: -1,
		// Without these a server keeps 512 requests, and leases 1000 seats. A request whose
		// client has left may lie there until it is made room for; a message that was
		// replaced, until the consumer has heard of it.
		MaxWaiting:    2*q.o.Size + 64,
		MaxAckPending: 2*q.o.Size + 64,
	})
	if err != nil {
		return fmt.Errorf("make the consumer of the stream %s: %w", q.name, err)
	}
	// A cluster that starts again remembers the stream, and nothing of what was in it.
	last := stream.CachedInfo().State.LastSeq
	q.mu.Lock()
	emptied := q.stream != nil && (missing || last < known)
	if !emptied {
		last = max(last, q.latest)
	}
	q.stream, q.latest = stream, last
	q.mu.Unlock()
	if emptied {
		q.loseAll()
		select {
		case q.empty <- struct{}{}:
		default: // said already
		}
	}
	return nil
}

// Emptied: see seat.Queue.
func (q *SeatQueue) Emptied() <-chan struct{} { return q.empty }

// loseAll ends the leases of messages that are no more, or are no more this queue's.
func (q *SeatQueue) loseAll() {
	q.mu.Lock()
	taken := q.taken
	q.taken = map[delivered]*seatLease{}
	q.mu.Unlock()
	for _, l := range taken {
		if l != nil {
			l.term.Lose()
		}
	}
}

func (q *SeatQueue) subject(id string) string { return "hopbench." + q.o.Run + ".seat." + id }

// at is the queue's stream, and for how long requests are good.
func (q *SeatQueue) at() (jetstream.Stream, context.Context) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stream, q.round
}

// within ends with ctx, with the queue, and after the time that a server has to answer.
func (q *SeatQueue) within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	stop := context.AfterFunc(q.ctx, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// why is what err is for a caller: ErrClosed once the queue is closed.
func (q *SeatQueue) why(err error) error {
	if err != nil && q.ctx.Err() != nil && !errors.Is(err, seat.ErrLost) {
		return seat.ErrClosed
	}
	return err
}

// Offer puts a seat into the queue: see seat.Queue. A generation that has been in the
// queue within two minutes is not put there again.
func (q *SeatQueue) Offer(ctx context.Context, s seat.Seat) error {
	if q.ctx.Err() != nil {
		return seat.ErrClosed
	}
	ctx, cancel := q.within(ctx)
	defer cancel()
	var there uint64   // sequence of the message of an earlier generation
	var have seat.Seat // and what it says
	for {
		_, err := q.put(ctx, s, there)
		if err == nil {
			replaced := delivered{there, s.ID, have.Generation}
			q.mu.Lock()
			l := q.taken[replaced]
			delete(q.taken, replaced)
			q.mu.Unlock()
			if l != nil {
				l.term.Lose()
			}
			return nil
		}
		switch {
		case errors.Is(err, errInProcess):
			seat.Pause(ctx)
		case errors.Is(err, errReplaced):
		case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
			if err := q.make(ctx); err != nil {
				return q.why(fmt.Errorf("offer the seat %s: %w", s.ID, err))
			}
			continue
		default:
			return q.why(fmt.Errorf("offer the seat %s: %w", s.ID, err))
		}
		there, have, err = q.last(ctx, s.ID)
		if err != nil {
			return q.why(fmt.Errorf("offer the seat %s: %w", s.ID, err))
		}
		if there != 0 && have.Generation >= s.Generation {
			return nil
		}
	}
}

// errReplaced says that another message is there than the one to be replaced.
var errReplaced = errors.New("the seat has another message")

// errInProcess says that somebody else writes the same generation of the seat at this moment.
var errInProcess = fmt.Errorf("%w, which is being written", errReplaced)

// duplicateInProcess is what a cluster says of that (nats-server's
// JSStreamDuplicateMessageConflict).
const duplicateInProcess = 10158

// put writes a seat in place of the message at a sequence, 0 for none. It says whether it
// had written it before.
func (q *SeatQueue) put(ctx context.Context, s seat.Seat, instead uint64) (again bool, err error) {
	text, err := seat.Encode(q.o.Run, s)
	if err != nil {
		return false, err
	}
	ack, err := q.js.Publish(ctx, q.subject(s.ID), text,
		jetstream.WithExpectLastSequencePerSubject(instead),
		jetstream.WithExpectStream(q.name),
		// A message that is sent again since its confirmation was lost is not a second one.
		jetstream.WithMsgID(fmt.Sprintf("%s.%d", s.ID, s.Generation)))
	if refused, ok := errors.AsType[*jetstream.APIError](err); ok {
		switch refused.ErrorCode {
		case jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant:
			return false, errReplaced
		case duplicateInProcess:
			return false, errInProcess
		}
	}
	if err != nil {
		return false, err
	}
	q.mu.Lock()
	q.latest = max(q.latest, ack.Sequence)
	q.mu.Unlock()
	return ack.Duplicate, nil
}

// last is the message of a seat: its sequence, 0 if there is none, and what it says. One that
// is no seat is of generation 0.
func (q *SeatQueue) last(ctx context.Context, id string) (uint64, seat.Seat, error) {
	stream, _ := q.at()
	msg, err := stream.GetLastMsgForSubject(ctx, q.subject(id))
	if errors.Is(err, jetstream.ErrMsgNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return 0, seat.Seat{}, nil
	}
	if err != nil {
		return 0, seat.Seat{}, err
	}
	s, err := seat.Decode(q.o.Run, msg.Data)
	if err != nil {
		return msg.Sequence, seat.Seat{}, nil
	}
	return msg.Sequence, s, nil
}

// Lease waits for a seat: see seat.Queue.
func (q *SeatQueue) Lease(ctx context.Context) (seat.Lease, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(q.ctx, cancel)()
	for {
		msg, err := q.pull(ctx)
		if err == nil && msg != nil {
			var l *seatLease
			l, err = q.take(ctx, msg)
			if l != nil {
				return l, nil
			}
			if err != nil && ctx.Err() != nil { // where the server is slow, to deliver it again at once would make it slower
				q.giveBack(msg)
			}
		}
		var short *seat.ShortLeaseError
		if errors.As(err, &short) || errors.Is(err, nats.ErrConnectionClosed) {
			return nil, q.why(err)
		}
		if ctx.Err() != nil {
			return nil, q.why(ctx.Err())
		}
		switch {
		case err != nil: // the server is away, or what it had is
			seat.Pause(ctx)
			_ = q.make(ctx) // the next pull says what is wrong
		case msg == nil && q.unchecked():
			_ = q.make(ctx) // a cluster that has lost its memory says nothing
		}
	}
}

// unchecked says, to one of those who wait, that nobody has looked for a while whether what
// the queue needs is there.
func (q *SeatQueue) unchecked() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if time.Since(q.checked) < pullTime/2 {
		return false
	}
	q.checked = time.Now()
	return true
}

// take leases what was delivered. No lease and no error: another message is to be asked for.
func (q *SeatQueue) take(ctx context.Context, msg *nats.Msg) (*seatLease, error) {
	ctx, cancel := q.within(ctx)
	defer cancel()
	meta, err := msg.Metadata()
	if err != nil {
		return nil, err
	}
	at := meta.Sequence.Stream
	s, err := seat.Decode(q.o.Run, msg.Data)
	if err != nil || q.subject(s.ID) != msg.Subject {
		return nil, q.remove(ctx, at) // no seat, and never will be one
	}
	this := delivered{at, s.ID, s.Generation}
	q.mu.Lock()
	earlier, again := q.taken[this]
	if !again {
		q.taken[this] = nil
	}
	q.mu.Unlock()
	// A server that has become the leader of a cluster may not know of all deliveries.
	if again || meta.NumDelivered > 1 {
		_, err := q.put(ctx, s.Next(), at)
		if err == nil || errors.Is(err, errReplaced) {
			if earlier != nil {
				earlier.term.Lose()
			}
			q.forget(this)
			err = nil
		}
		return nil, err
	}
	// The delivery may have lain in a buffer for longer than the lease.
	l := &seatLease{q: q, s: s, delivered: this, acks: msg.Reply}
	sent := time.Now()
	err = l.confirm(ctx)
	if errors.Is(err, seat.ErrLost) {
		// The server that delivers may know of a message before the one that is asked for it.
		if err = q.reached(ctx, at); err == nil {
			sent = time.Now()
			err = l.confirm(ctx)
		}
	}
	if err != nil {
		if errors.Is(err, seat.ErrLost) {
			q.forget(this)
			err = nil
		}
		return nil, err
	}
	if took := time.Since(sent); took >= q.o.Lease {
		return nil, &seat.ShortLeaseError{Lease: q.o.Lease, RoundTrip: took}
	}
	l.term = seat.NewTerm(q.o.Lease, sent, func() {})
	q.mu.Lock()
	_, ours := q.taken[this]
	if ours {
		q.taken[this] = l
	}
	q.mu.Unlock()
	if !ours { // a later generation was offered meanwhile
		l.term.Finish()
		return nil, nil
	}
	if q.ctx.Err() != nil { // closed meanwhile
		l.term.Lose()
	}
	return l, nil
}

// reached waits until the server that answers for the stream has come to a sequence.
func (q *SeatQueue) reached(ctx context.Context, at uint64) error {
	for {
		stream, _ := q.at()
		info, err := stream.Info(ctx)
		if err != nil || info.State.LastSeq >= at {
			return err
		}
		seat.Pause(ctx)
	}
}

func (q *SeatQueue) forget(this delivered) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.taken, this)
}

// remove takes the message at a sequence out of the queue: ErrLost if it is not there.
func (q *SeatQueue) remove(ctx context.Context, at uint64) error {
	stream, _ := q.at()
	err := stream.DeleteMsg(ctx, at)
	if errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) {
		// The reason is only there as text.
		if _, gone := stream.GetMsg(ctx, at); errors.Is(gone, jetstream.ErrMsgNotFound) {
			return seat.ErrLost
		}
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return seat.ErrLost
	}
	return err
}

// Close ends what waits, and the leases: see seat.Queue.
func (q *SeatQueue) Close() error {
	q.end()
	q.watch.Wait()
	q.loseAll()
	return nil
}

// Remove takes the queue of a run away, with the seats that are left: at the end of the run.
func (q *SeatQueue) Remove(ctx context.Context) error {
	if err := q.js.DeleteStream(ctx, q.name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("remove the stream %s: %w", q.name, err)
	}
	return nil
}
