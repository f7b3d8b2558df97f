package bus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/nats-io/nats.go"
)

const (
	// maxWaiting and maxWaitingBytes bound what an end has sent and the other has not read:
	// more than the largest reply of an agent (protocol.MaxAgentReply).
	maxWaiting      = 256
	maxWaitingBytes = 20 << 20
)

// ErrFlood says that the other end of a link says more than is read.
var ErrFlood = fmt.Errorf("it says more than is read: %d messages or %d bytes waited", maxWaiting, maxWaitingBytes)

// link is one end of a connection between coordinator and agent over two subjects. It is
// over once a message is missing, comes twice, or is none: who reads a stream of bytes
// must never see it with a hole.
type link struct {
	conn    *nats.Conn
	in      source
	out     string // subject of what this end says
	back    string // where the broker says that nobody reads out, empty for not to ask
	session uint64
	closing func()          // ends what is this end's; called once, outside the lock
	ctx     context.Context //nolint:containedctx // ends with the link, for the library's reads
	cancel  context.CancelCauseFunc

	reading sync.Mutex
	rest    []byte // of the message read last
	next    uint64 // number of the message to be read

	mu   sync.Mutex
	sent uint64
	over error // why the link is over, nil while it is not
}

// source is where an end of a link reads what the other says, in its order: nats.ErrSlowConsumer
// says that this was more than is kept.
type source interface {
	NextMsgWithContext(ctx context.Context) (*nats.Msg, error)
}

func newLink(conn *nats.Conn, in source, out, back string, session uint64, closing func()) *link {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &link{conn: conn, in: in, out: out, back: back, session: session, closing: closing, ctx: ctx, cancel: cancel}
}

// Read waits for what the other end says. io.EOF is its good end.
func (l *link) Read(b []byte) (int, error) {
	l.reading.Lock()
	defer l.reading.Unlock()
	for len(l.rest) == 0 {
		if err := l.receive(); err != nil {
			l.finish(err, lastWords(err))
			return 0, l.why()
		}
	}
	n := copy(b, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// lastWords are what the other end hears of why this one ends the link: nothing if it ended it
// itself.
func lastWords(why error) []byte {
	if errors.Is(why, io.EOF) || errors.Is(why, net.ErrClosed) {
		return nil
	}
	return []byte(why.Error())
}

// receive takes one message.
func (l *link) receive() error {
	raw, err := l.in.NextMsgWithContext(l.ctx)
	switch {
	case errors.Is(err, nats.ErrNoResponders), err == nil && nobodyReads(raw):
		return errors.New("its connection to the broker has ended")
	case errors.Is(err, nats.ErrSlowConsumer):
		return ErrFlood
	case err != nil:
		return err
	}
	m, err := parseMessage(raw.Data)
	switch {
	case err != nil:
		return err
	case m.session != l.session:
		return nil // a straggler
	case m.kind != kindData && m.kind != kindEnd:
		return nil // said again
	case m.number < l.next:
		return fmt.Errorf("message %d came again, where %d was to come", m.number, l.next)
	case m.number > l.next:
		return fmt.Errorf("message %d came where %d was to come: some were lost", m.number, l.next)
	}
	l.next++
	if m.kind == kindEnd {
		if len(m.data) > 0 {
			return fmt.Errorf("the other end says: %.*s", maxReason, m.data)
		}
		return io.EOF
	}
	l.rest = m.data
	return nil
}

// maxReason bounds what is repeated of why the other end ended a link, in bytes.
const maxReason = 500

// nobodyReads says that a message is the broker's answer to one that nobody read.
func nobodyReads(m *nats.Msg) bool { return len(m.Data) == 0 && m.Header.Get("Status") == "503" }

// Write sends b. It waits for the broker and never for the other end.
func (l *link) Write(b []byte) (n int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n < len(b) {
		if l.over != nil {
			return n, l.over
		}
		part := b[n:min(len(b), n+maxData)]
		if err := l.say(kindData, part); err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}

// say sends one message. The caller holds the lock.
func (l *link) say(k kind, data []byte) error {
	m := message{k, l.session, l.sent, data}
	l.sent++
	if err := l.conn.PublishMsg(&nats.Msg{Subject: l.out, Reply: l.back, Data: m.bytes()}); err != nil {
		return fmt.Errorf("send to the broker: %w", err)
	}
	return nil
}

// Close ends the link at both ends.
func (l *link) Close() error {
	l.finish(net.ErrClosed, []byte{})
	return nil
}

// left waits until nobody reads any more from where a link that has ended was read.
func (l *link) left() {
	l.reading.Lock()
	defer l.reading.Unlock()
}

// finish ends the link for a reason, unless it has one. Last, unless nil, is what the other
// end hears.
func (l *link) finish(why error, last []byte) {
	l.mu.Lock()
	if l.over != nil {
		l.mu.Unlock()
		return
	}
	if last != nil {
		_ = l.say(kindEnd, last) // it may be gone
	}
	l.over = why
	l.mu.Unlock()
	l.cancel(why)
	l.closing()
}

func (l *link) why() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}
