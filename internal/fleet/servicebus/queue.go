// Package servicebus is the queue of seats in a queue of Azure Service Bus. It is the home of
// azservicebus.
//
// Service Bus locks what it has delivered for a time that is set of the queue, 5 minutes at
// most, whatever becomes of the connection. The lock is renewed for as long as the message is
// held here; the time that a lease has is counted in package messages.
package servicebus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"golang.org/x/sync/errgroup"

	"github.com/hopbench/hopbench/internal/fleet/messages"
	"github.com/hopbench/hopbench/internal/fleet/seat"
)

// Options are those of a queue of Service Bus.
type Options struct {
	// ConnectionString gives that of a shared access policy that may send and listen, for each
	// connection: the key, or a signature that expires, may be replaced meanwhile.
	ConnectionString func() (string, error)
	Queue            string // its name: it is there already, without sessions, and only this run uses it
	Run              string // see subject.CheckName
	Lease            time.Duration
}

// Open connects to a queue.
func Open(ctx context.Context, o Options) (*messages.Queue, error) {
	return open(ctx, o, func(*link) {})
}

// open also tells of each link.
func open(ctx context.Context, o Options, made func(*link)) (*messages.Queue, error) {
	if o.Queue == "" {
		return nil, errors.New("queue of seats: it has no name at Service Bus")
	}
	return messages.Open(ctx, messages.Options{Run: o.Run, Lease: o.Lease, Dial: func(ctx context.Context, lost func(messages.Delivery)) (messages.Link, error) {
		l, err := dial(ctx, o, lost)
		if err != nil {
			return nil, err
		}
		made(l)
		return l, nil
	}})
}

const (
	// dialTime, renewTime and closeTime are what Service Bus may take. The first is longer than
	// retries go on: the last of them says what is wrong.
	dialTime  = 40 * time.Second
	renewTime = 20 * time.Second
	closeTime = 5 * time.Second
	// most is how many messages are asked for in one call.
	most = 256
	// mostEmpty is how often in a row a receiver may bring nothing at once, and no error: of one
	// that Service Bus has ended since it is busy azservicebus 1.11 does nothing else, for ever.
	mostEmpty = 5
	// tick is how often locks are looked at, and renewals how many are under way at a time.
	tick     = time.Second
	renewals = 32
	// longestLock is Service Bus's own bound, shortestLock less than its least.
	longestLock  = 5 * time.Minute
	shortestLock = 3 * time.Second
)

// retries go on for about 20 s: locks outlast a connection, and so do leases.
var retries = azservicebus.RetryOptions{MaxRetries: 8, RetryDelay: 200 * time.Millisecond, MaxRetryDelay: 5 * time.Second}

// link is a client with its sender and receiver, which make their connection anew by
// themselves. It is over when they give that up.
type link struct {
	client *azservicebus.Client
	queue  string // its name
	lost   func(messages.Delivery)
	ctx    context.Context
	end    context.CancelFunc // with mu, so that no call begins after it
	work   sync.WaitGroup     // what is done by itself, and calls
	close  func() error
	more   chan struct{} // has one when more was asked for

	mu       sync.Mutex
	sender   *azservicebus.Sender
	receiver *azservicebus.Receiver
	asked    int                    // messages that the queue wants
	ready    []*delivery            // and those that are here for it
	held     map[*delivery]struct{} // what is locked
	lock     time.Duration          // how long a lock lasts, at most
}

// dial connects to the queue. A lease that is shorter than a round trip is a
// *seat.ShortLeaseError.
func dial(ctx context.Context, o Options, lost func(messages.Delivery)) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	connection, err := o.ConnectionString()
	if err != nil {
		return nil, err
	}
	client, err := azservicebus.NewClientFromConnectionString(connection, &azservicebus.ClientOptions{RetryOptions: retries})
	if err != nil {
		// What is wrong may be part of the key.
		return nil, errors.New("that is no connection string of Service Bus, which is Endpoint=sb://…;SharedAccessKeyName=…;SharedAccessKey=…")
	}
	l := &link{client: client, queue: o.Queue, lost: lost, more: make(chan struct{}, 1), held: map[*delivery]struct{}{}, lock: longestLock}
	l.ctx, l.end = context.WithCancel(context.Background())
	l.close = sync.OnceValue(l.finish)
	if l.sender, err = client.NewSender(o.Queue, nil); err == nil {
		l.receiver, err = client.NewReceiverForQueue(o.Queue, nil)
	}
	if err == nil {
		err = l.attach(ctx, o)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	l.work.Go(l.keepLocks)
	return l, nil
}

// attach connects, by a request that changes nothing, and takes the time of another.
func (l *link) attach(ctx context.Context, o Options) error {
	var took time.Duration
	for range 2 {
		sent := time.Now()
		if _, err := l.receiver.PeekMessages(ctx, 1, nil); err != nil {
			return fmt.Errorf("connect to the queue %s of Service Bus: %w", o.Queue, err)
		}
		took = time.Since(sent)
	}
	if took >= o.Lease {
		return &seat.ShortLeaseError{Lease: o.Lease, RoundTrip: took}
	}
	return nil
}

// mostWaiting bounds how many messages are looked at.
const mostWaiting = 1000

// Waiting looks for what is in a queue, without taking it: how many seats of which run. What
// is no seat is of the run "". More says that there is more than is told.
func Waiting(ctx context.Context, o Options) (runs map[string]int, more bool, err error) {
	l, err := dial(ctx, o, func(messages.Delivery) {})
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	runs = map[string]int{}
	from := int64(0)
	for n := 0; n < mostWaiting; {
		some, err := l.receiver.PeekMessages(ctx, most, &azservicebus.PeekMessagesOptions{FromSequenceNumber: &from})
		if err != nil {
			return nil, false, fmt.Errorf("look into the queue %s: %w", o.Queue, err)
		}
		if len(some) == 0 {
			return runs, false, nil
		}
		for _, msg := range some {
			runs[messages.Whose(o.Run, msg.Body)]++
			if msg.SequenceNumber != nil {
				from = *msg.SequenceNumber + 1
			}
		}
		n += len(some)
	}
	return runs, true, nil
}

// Alive: see messages.Link. Locks outlast connections.
func (l *link) Alive() bool { return l.ctx.Err() == nil }

// errClosed is what calls of a link say that is over.
var errClosed = errors.New("the link to Service Bus is closed")

// call has the client do something, until ctx or the link is over. The client may not be
// closed meanwhile: in azservicebus 1.11 what then connects anew outlasts it, until its token
// is due.
func (l *link) call(ctx context.Context, do func(context.Context) error) error {
	l.mu.Lock()
	if !l.Alive() {
		l.mu.Unlock()
		return errClosed
	}
	l.work.Add(1)
	l.mu.Unlock()
	defer l.work.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	return do(ctx)
}

// Send: see messages.Link.
func (l *link) Send(ctx context.Context, text []byte) error {
	return l.call(ctx, func(ctx context.Context) error {
		sender := l.out()
		err := sender.SendMessage(ctx, &azservicebus.Message{Body: text}, nil)
		if err != nil {
			l.anotherSender(sender)
		}
		return err
	})
}

func (l *link) out() *azservicebus.Sender {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sender
}

func (l *link) in() *azservicebus.Receiver {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.receiver
}

// anotherSender has the next message go another way than one that failed: see mostEmpty. What is
// under way goes on, and the client closes both.
func (l *link) anotherSender(than *azservicebus.Sender) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sender != than {
		return
	}
	if another, err := l.client.NewSender(l.queue, nil); err == nil {
		l.sender = another
	}
}

// Ask: see messages.Link.
func (l *link) Ask(n int) error {
	l.mu.Lock()
	l.asked += n
	l.mu.Unlock()
	select {
	case l.more <- struct{}{}:
	default:
	}
	return nil
}

// Receive: see messages.Link. One calls it at a time.
func (l *link) Receive(ctx context.Context) (d messages.Delivery, err error) {
	err = l.call(ctx, func(ctx context.Context) (err error) {
		d, err = l.receive(ctx)
		return err
	})
	return d, err
}

func (l *link) receive(ctx context.Context) (messages.Delivery, error) {
	for empty := 0; ; {
		d, lacking := l.next()
		if d != nil {
			return d, nil
		}
		if lacking == 0 {
			select {
			case <-l.more:
				continue
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		began := time.Now()
		got, err := l.in().ReceiveMessages(ctx, min(lacking, most), nil)
		l.take(got)
		switch {
		case err != nil && len(got) == 0:
			return nil, fmt.Errorf("receive from Service Bus: %w", err)
		case len(got) > 0 || time.Since(began) >= tick:
			empty = 0
			continue
		}
		if empty++; empty < mostEmpty {
			continue
		}
		empty = 0
		if err := l.anotherReceiver(ctx); err != nil {
			return nil, fmt.Errorf("receive from Service Bus: %w", err)
		}
	}
}

// anotherReceiver takes the place of one that brings nothing. What is locked stays locked.
func (l *link) anotherReceiver(ctx context.Context) error {
	another, err := l.client.NewReceiverForQueue(l.queue, nil)
	if err != nil {
		return err
	}
	l.mu.Lock()
	before := l.receiver
	l.receiver = another
	l.mu.Unlock()
	closes, cancel := context.WithTimeout(ctx, closeTime)
	defer cancel()
	_ = before.Close(closes) // it is of no use
	select {
	case <-time.After(tick): // Service Bus is busy
	case <-ctx.Done():
	}
	return ctx.Err()
}

// next is what is here for who asked, or how many messages are lacking.
func (l *link) next() (d *delivery, lacking int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asked > 0 && len(l.ready) > 0 {
		d, l.ready = l.ready[0], l.ready[1:]
		l.asked--
	}
	return d, l.asked
}

// take keeps what has come.
func (l *link) take(got []*azservicebus.ReceivedMessage) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, msg := range got {
		d := &delivery{l: l, msg: msg}
		if msg.LockedUntil != nil && msg.EnqueuedTime != nil { // both by Service Bus's clock
			l.lock = min(l.lock, msg.LockedUntil.Sub(*msg.EnqueuedTime))
		}
		d.plan(now)
		l.held[d] = struct{}{}
		l.ready = append(l.ready, d)
	}
}

// keepLocks renews locks until the link is over.
func (l *link) keepLocks() {
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
		case <-l.ctx.Done():
			return
		}
		now := time.Now()
		var due []*delivery
		l.mu.Lock()
		for d := range l.held {
			if now.After(d.renewAt) {
				due = append(due, d)
			}
		}
		l.mu.Unlock()
		var group errgroup.Group
		group.SetLimit(renewals)
		for _, d := range due {
			group.Go(func() error { d.renew(); return nil })
		}
		_ = group.Wait() // no function has an error
	}
}

// Close: see messages.Link. What was delivered comes to others when its lock runs out.
func (l *link) Close() error { return l.close() }

func (l *link) finish() error {
	l.mu.Lock()
	l.end()
	l.mu.Unlock()
	l.work.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	return l.client.Close(ctx)
}

// delivery is a message, locked until it is settled.
type delivery struct {
	l       *link
	msg     *azservicebus.ReceivedMessage
	renewAt time.Time // guarded by l.mu, once it is held
}

// plan has the lock renewed when a third of its time is over, now that it has begun anew. Its
// end is a time of Service Bus's clock. Where this machine's is behind, the lock lasts no longer
// than that of a message that was locked as soon as it came there; where it is ahead, the lock is
// renewed more often.
func (d *delivery) plan(now time.Time) {
	lock := shortestLock
	if d.msg.LockedUntil != nil {
		lock = max(min(d.msg.LockedUntil.Sub(now), d.l.lock), shortestLock)
	}
	d.renewAt = now.Add(lock / 3)
}

// renew renews the lock, or says that there is none any more. What fails otherwise is tried
// again at the next tick.
func (d *delivery) renew() {
	ctx, cancel := context.WithTimeout(d.l.ctx, renewTime)
	defer cancel()
	err := d.l.in().RenewMessageLock(ctx, d.msg, nil)
	wrong, ok := errors.AsType[*azservicebus.Error](err)
	switch {
	case err == nil:
		d.l.mu.Lock()
		d.plan(time.Now())
		d.l.mu.Unlock()
	case ok && wrong.Code == azservicebus.CodeLockLost && d.forget():
		d.l.lost(d)
	}
}

// errNotLocked says that a message is no longer this link's to settle: it comes again.
var errNotLocked = errors.New("the lock of the message is over at Service Bus")

// forget says whether the message was held until now.
func (d *delivery) forget() bool {
	d.l.mu.Lock()
	defer d.l.mu.Unlock()
	_, held := d.l.held[d]
	delete(d.l.held, d)
	return held
}

// Text: see messages.Delivery.
func (d *delivery) Text() []byte { return d.msg.Body }

// Accept: see messages.Delivery.
func (d *delivery) Accept(ctx context.Context) error {
	if !d.forget() {
		return errNotLocked
	}
	return d.l.call(ctx, func(ctx context.Context) error { return d.l.in().CompleteMessage(ctx, d.msg, nil) })
}

// Release: see messages.Delivery. It stays here for the next who asks: nobody else reads from
// the queue, and given back so often Service Bus would take it for one that kills its readers.
func (d *delivery) Release(context.Context) error {
	d.l.mu.Lock()
	defer d.l.mu.Unlock()
	d.l.ready = append(d.l.ready, d)
	return nil
}

// Reject: see messages.Delivery. It goes to the dead letters, with the reason.
func (d *delivery) Reject(ctx context.Context, why error) error {
	if !d.forget() {
		return errNotLocked
	}
	reason, text := "NotOfThisRun", why.Error()
	return d.l.call(ctx, func(ctx context.Context) error {
		return d.l.in().DeadLetterMessage(ctx, d.msg, &azservicebus.DeadLetterOptions{Reason: &reason, ErrorDescription: &text})
	})
}
