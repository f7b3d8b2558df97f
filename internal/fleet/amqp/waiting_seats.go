package amqp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hopbench/hopbench/internal/fleet/messages"
)

const (
	// mostWaiting bounds how many messages are looked at.
	mostWaiting = 1000
	// arrivalTime is how long a broker may take to bring the first of what waits, or one more.
	arrivalTime = time.Second
)

// Waiting looks for what is in the queue at an address, without taking it: how many seats of
// which run. What is no seat is of the run "". More says that there is more than is told.
func Waiting(ctx context.Context, o Options) (runs map[string]int, more bool, err error) {
	l, err := dial(ctx, o)
	if err != nil {
		return nil, false, err
	}
	// What was not settled goes back to the queue with the connection.
	defer func() { err = errors.Join(err, l.conn.Close()) }()
	if err := l.receiver.IssueCredit(mostWaiting); err != nil {
		return nil, false, fmt.Errorf("ask for what is in the queue %s: %w", o.Address, err)
	}
	runs = map[string]int{}
	for range mostWaiting {
		arrives, cancel := context.WithTimeout(ctx, arrivalTime)
		msg, err := l.receiver.Receive(arrives, nil)
		cancel()
		if err != nil {
			if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
				return nil, false, fmt.Errorf("look into the queue %s: %w", o.Address, err)
			}
			return runs, false, nil
		}
		runs[messages.Whose(o.Run, msg.GetData())]++
	}
	return runs, true, nil
}
