// Package sendqueue makes connections whose writes do not wait for the other end.
package sendqueue

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/protocol"
)

// maxQueued bounds, in bytes, what waits for an end that reads nothing: two of the
// largest replies, and what else an agent says meanwhile.
const maxQueued = 2*protocol.MaxAgentReply + 1<<20

// Queue is a connection whose writes do not wait for its other end: a network or an
// ssh that hangs must not hold up a test that reports its progress. What is written
// waits here, up to maxQueued; then this and every later write fails.
type Queue struct {
	io.ReadWriteCloser
	linger time.Duration
	done   chan struct{}
	wake   chan struct{} // has one when there is something to do

	mu      sync.Mutex
	waiting [][]byte
	bytes   int
	failed  error
}

// lingerTime is for how long a closed connection sends what waits.
const lingerTime = time.Second

// New is a connection over c, which it owns from then on: closing it closes c. What it
// takes beyond what c does at once waits, in its order.
func New(c io.ReadWriteCloser) *Queue {
	q := &Queue{ReadWriteCloser: c, linger: lingerTime, done: make(chan struct{}), wake: make(chan struct{}, 1)}
	go q.send()
	return q
}

// Write takes all of p, or fails because the connection has.
func (q *Queue) Write(p []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failed != nil {
		return 0, q.failed
	}
	if q.bytes+len(p) > maxQueued {
		q.fail(fmt.Errorf("the other end reads nothing: %d bytes wait for it", q.bytes))
		return 0, q.failed
	}
	q.waiting = append(q.waiting, append([]byte(nil), p...))
	q.bytes += len(p)
	q.signal()
	return len(p), nil
}

// fail drops what waits and all that comes. The caller holds the lock.
func (q *Queue) fail(why error) {
	q.waiting, q.failed = nil, cmp.Or(q.failed, why)
	q.signal()
}

func (q *Queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// send writes what waits until nothing can come any more.
func (q *Queue) send() {
	defer close(q.done)
	for range q.wake {
		for {
			q.mu.Lock()
			if len(q.waiting) == 0 {
				over := q.failed != nil
				q.mu.Unlock()
				if over {
					return
				}
				break
			}
			next := q.waiting[0]
			q.waiting = q.waiting[1:]
			q.mu.Unlock()
			_, err := q.ReadWriteCloser.Write(next)
			q.mu.Lock()
			q.bytes -= len(next)
			if err != nil {
				q.fail(err)
			}
			q.mu.Unlock()
		}
	}
}

// Close ends the connection once what waits is sent, such as why this end closes it, or
// could not be in the linger time.
func (q *Queue) Close() error {
	q.mu.Lock()
	q.failed = cmp.Or(q.failed, net.ErrClosed)
	q.signal()
	q.mu.Unlock()
	select {
	case <-q.done:
	case <-time.After(q.linger):
	}
	err := q.ReadWriteCloser.Close()
	<-q.done
	return err
}
