package bus

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go"
)

// inbox keeps, within bounds, what was said to one end of a link until that reads it.
type inbox struct {
	there chan struct{} // has one element once there is something to read

	mu      sync.Mutex
	waiting []*nats.Msg
	bytes   int   // of waiting
	over    error // why there will be no more, nil while there may be
}

func newInbox() *inbox { return &inbox{there: make(chan struct{}, 1)} }

// put never waits. A message that cannot be kept ends the inbox, with nats.ErrSlowConsumer.
func (b *inbox) put(m *nats.Msg) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.over != nil:
	case len(b.waiting) == maxWaiting || b.bytes+len(m.Data) > maxWaitingBytes:
		b.finish(nats.ErrSlowConsumer)
	default:
		b.waiting, b.bytes = append(b.waiting, m), b.bytes+len(m.Data)
		b.wake()
	}
}

// end drops what waits, and has nobody wait for more.
func (b *inbox) end(why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.finish(why)
}

// finish and wake have a caller that holds the lock.
func (b *inbox) finish(why error) {
	if b.over == nil {
		b.over, b.waiting = why, nil
		b.wake()
	}
}

func (b *inbox) wake() {
	select {
	case b.there <- struct{}{}:
	default:
	}
}

// NextMsgWithContext waits for a message, for one reader at a time. Its error is why there are
// no more, or the context's.
func (b *inbox) NextMsgWithContext(ctx context.Context) (*nats.Msg, error) {
	for {
		if m, err := b.take(); m != nil || err != nil {
			return m, err
		}
		select {
		case <-b.there:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// take is the next message, nil where there is none.
func (b *inbox) take() (*nats.Msg, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.over != nil:
		return nil, b.over
	case len(b.waiting) == 0:
		return nil, nil
	}
	m := b.waiting[0]
	if b.waiting, b.bytes = b.waiting[1:], b.bytes-len(m.Data); len(b.waiting) == 0 {
		b.waiting = nil // thousands of agents mostly say nothing
	}
	return m, nil
}
