// Package amqp is the queue of seats in a broker that speaks AMQP 1.0 (OASIS, 2012), such as
// ActiveMQ Artemis or RabbitMQ. It is the home of go-amqp.
//
// At the broker a lease lasts as long as the connection, whatever the clock says.
package amqp

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/Azure/go-amqp"

	"github.com/hopbench/hopbench/internal/fleet/messages"
	"github.com/hopbench/hopbench/internal/fleet/seat"
)

// Options are those of a queue at an AMQP broker.
type Options struct {
	// URL gives amqps://USER:PASSWORD@HOST:PORT, or amqp:// without TLS, for each connection: a
	// password may be replaced meanwhile.
	URL     func() (string, error)
	Address string // of the queue, as its broker writes it: only this run uses it
	Run     string // its name: see subject.CheckName
	Lease   time.Duration
}

// Open connects to a broker. The queue at its address is made by the broker, if that does so.
func Open(ctx context.Context, o Options) (*messages.Queue, error) {
	return open(ctx, o, func(*link) {})
}

// open also tells of each link.
func open(ctx context.Context, o Options, made func(*link)) (*messages.Queue, error) {
	if o.Address == "" {
		return nil, errors.New("queue of seats: it has no address at the AMQP broker")
	}
	return messages.Open(ctx, messages.Options{Run: o.Run, Lease: o.Lease, Dial: func(ctx context.Context, _ func(messages.Delivery)) (messages.Link, error) {
		l, err := dial(ctx, o)
		if err != nil {
			return nil, err
		}
		made(l)
		return l, nil
	}})
}

// link is a connection to the broker with a way in and a way out, until it breaks. The
// broker gives what it has delivered here, and what is not settled by then, to others.
type link struct {
	conn     *amqp.Conn
	session  *amqp.Session
	sender   *amqp.Sender
	receiver *amqp.Receiver
}

// idle is how long a broker may say nothing, for a lease: longer, and the connection is
// taken for broken. Brokers do not keep shorter times than a second.
func idle(lease time.Duration) time.Duration { return max(lease/3, time.Second) }

// dial connects to the broker. A lease that is shorter than a round trip is a
// *seat.ShortLeaseError.
func dial(ctx context.Context, o Options) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	at, err := o.URL()
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(at)
	if err != nil || u.Host == "" || u.Scheme != "amqp" && u.Scheme != "amqps" {
		// What is wrong may be part of a password.
		return nil, errors.New("the address of an AMQP broker is amqps://USER:PASSWORD@HOST:PORT, and this one is none")
	}
	conn, err := amqp.Dial(ctx, at, &amqp.ConnOptions{IdleTimeout: idle(o.Lease), WriteTimeout: idle(o.Lease)})
	if err != nil {
		return nil, fmt.Errorf("connect to the AMQP broker %s: %w", u.Host, err)
	}
	l := &link{conn: conn}
	if err := l.attach(ctx, o); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return l, nil
}

func (l *link) attach(ctx context.Context, o Options) (err error) {
	if l.session, err = l.conn.NewSession(ctx, nil); err != nil {
		return fmt.Errorf("begin a session with the AMQP broker: %w", err)
	}
	// Brokers that make queues when they are asked for one make topics otherwise.
	queue := []string{"queue"}
	if l.sender, err = l.session.NewSender(ctx, o.Address, &amqp.SenderOptions{TargetCapabilities: queue}); err != nil {
		return fmt.Errorf("write to the queue %s: %w", o.Address, err)
	}
	sent := time.Now()
	l.receiver, err = l.session.NewReceiver(ctx, o.Address, &amqp.ReceiverOptions{SourceCapabilities: queue, Credit: -1, MaxMessageSize: maxTransfer})
	if err != nil {
		return fmt.Errorf("read from the queue %s: %w", o.Address, err)
	}
	if took := time.Since(sent); took >= o.Lease {
		return &seat.ShortLeaseError{Lease: o.Lease, RoundTrip: took}
	}
	return nil
}

const (
	dialTime = 20 * time.Second
	// endTime is how long a broker may take to end a session.
	endTime = 5 * time.Second
	// maxTransfer bounds a message with its sections, in bytes.
	maxTransfer = seat.MaxMessage + 4<<10
)

// Alive: see messages.Link.
func (l *link) Alive() bool {
	select {
	case <-l.conn.Done():
		return false
	default:
		return true
	}
}

// Send: see messages.Link. A link of AMQP that has ended is of no use, and ends the
// connection: there will be another.
func (l *link) Send(ctx context.Context, text []byte) error {
	err := l.sender.Send(ctx, amqp.NewMessage(text), nil)
	_, detached := errors.AsType[*amqp.LinkError](err)
	_, ended := errors.AsType[*amqp.SessionError](err)
	if detached || ended {
		_ = l.conn.Close() // err says more
	}
	return err
}

// Ask: see messages.Link.
func (l *link) Ask(n int) error { return l.receiver.IssueCredit(uint32(n)) }

// Receive: see messages.Link.
func (l *link) Receive(ctx context.Context) (messages.Delivery, error) {
	msg, err := l.receiver.Receive(ctx, nil)
	if err != nil {
		return nil, err
	}
	return delivery{l.receiver, msg}, nil
}

// Close: see messages.Link. It lets the broker hear first what was settled: RabbitMQ 3.10 ends a
// session with its connection, whatever it has yet to read.
func (l *link) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	_ = l.session.Close(ctx) // at once if the connection is broken
	return l.conn.Close()
}

// delivery is a message, settled on the link that brought it.
type delivery struct {
	receiver *amqp.Receiver
	msg      *amqp.Message
}

func (d delivery) Text() []byte { return d.msg.GetData() }

// Accept: see messages.Delivery.
func (d delivery) Accept(ctx context.Context) error { return d.receiver.AcceptMessage(ctx, d.msg) }

// Release: see messages.Delivery.
func (d delivery) Release(ctx context.Context) error { return d.receiver.ReleaseMessage(ctx, d.msg) }

// Reject: see messages.Delivery.
func (d delivery) Reject(ctx context.Context, why error) error {
	return d.receiver.RejectMessage(ctx, d.msg, &amqp.Error{Condition: amqp.ErrCondNotAllowed, Description: why.Error()})
}
