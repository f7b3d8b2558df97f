package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// pullRequest asks a consumer of JetStream for messages (nats-server's
// JSApiConsumerGetNextRequest).
type pullRequest struct {
	Expires   time.Duration `json:"expires"` // in nanoseconds
	Batch     int           `json:"batch"`
	Heartbeat time.Duration `json:"idle_heartbeat"`
}

// Statuses of messages that are no seats.
const (
	statusHeartbeat = "100"
	statusNone      = "404"
	statusExpired   = "408"
	statusNobody    = "503"
)

// pull asks for one message, which is nil if none came.
//
// It is not the library's Fetch, which reads no more once its context is over, and only then
// unsubscribes: a seat that the server delivers in between would go to nobody until its lease
// is over.
func (q *SeatQueue) pull(ctx context.Context) (*nats.Msg, error) {
	_, round := q.at()
	request, err := json.Marshal(pullRequest{Expires: pullTime, Batch: 1, Heartbeat: pullTime / 3})
	if err != nil {
		return nil, err
	}
	conn, inbox := q.js.Conn(), q.js.Conn().NewInbox()
	came := make(chan *nats.Msg, 8) // one message, and what may be said before it is read
	sub, err := conn.ChanSubscribe(inbox, came)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }() // the server forgets it with the connection at the latest
	if err := conn.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+q.name+"."+seatConsumer, inbox, request); err != nil {
		return nil, err
	}
	silent := time.NewTimer(2 * pullTime / 3)
	defer silent.Stop()
	for {
		select {
		case msg := <-came:
			switch status := statusOf(msg); status {
			case "":
				return msg, nil
			case statusHeartbeat:
				silent.Reset(2 * pullTime / 3)
			case statusNone, statusExpired:
				return nil, nil
			case statusNobody:
				return nil, nats.ErrNoResponders
			default:
				return nil, fmt.Errorf("ask for a seat: %s %s", status, msg.Header.Get("Description"))
			}
		case <-silent.C:
			q.leave(sub, came)
			return nil, errors.New("ask for a seat: the server is silent")
		case <-round.Done():
			q.leave(sub, came)
			return nil, nil
		case <-ctx.Done():
			q.leave(sub, came)
			return nil, nil
		}
	}
}

// statusOf is what a server says in a message that is none of a stream.
func statusOf(msg *nats.Msg) string {
	if len(msg.Data) > 0 {
		return ""
	}
	return msg.Header.Get("Status")
}

// leave takes a request back. What was delivered until the server knows goes to another client
// at once.
func (q *SeatQueue) leave(sub *nats.Subscription, came chan *nats.Msg) {
	conn := q.js.Conn()
	if !conn.IsConnected() || sub.Drain() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	// What cannot be taken back stays leased, as that of a client that died.
	_ = conn.FlushWithContext(ctx)
	for {
		select {
		case msg := <-came:
			if statusOf(msg) == "" {
				q.giveBack(msg)
			}
		default:
			return
		}
	}
}

// giveBack has the server deliver a seat to another client, which takes it for its next
// generation. If that is lost, so is the seat until the lease is over.
func (q *SeatQueue) giveBack(msg *nats.Msg) { _ = q.js.Conn().Publish(msg.Reply, []byte("-NAK")) }
