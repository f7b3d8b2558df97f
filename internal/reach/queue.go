package reach

import (
	"fmt"
	"net"
	"sync"

	"github.com/hopbench/hopbench/internal/protocol"
)

// maxQueued bounds, in bytes, what waits for an end that reads nothing: two of the
// largest replies, and what else an agent says meanwhile.
const maxQueued = 2*protocol.MaxAgentReply + 1<<20

// queue is a connection whose writes do not wait for its other end: a network or an
// ssh that hangs must not hold up a test that reports its progress. What is written
// waits here, up to maxQueued; then this and every later write fails.
type queue struct {
	net.Conn
	done chan struct{}
	wake chan struct{} // has one when there is something to do

	mu      sync.Mutex
	waiting [][]byte
	bytes   int
	failed  error
}

func newQueue(c net.Conn) *queue {
	q := &queue{Conn: c, done: make(chan struct{}), wake: make(chan struct{}, 1)}
	go q.send()
	return q
}

// Write takes all of p, or fails because the connection has.
func (q *queue) Write(p []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failed != nil {
		return 0, q.failed
	}
	if q.bytes+len(p) > maxQueued {
		q.failed = fmt.Errorf("the other end reads nothing: %d bytes wait for it", q.bytes)
		q.signal()
		return 0, q.failed
	}
	q.waiting = append(q.waiting, append([]byte(nil), p...))
	q.bytes += len(p)
	q.signal()
	return len(p), nil
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// send writes what waits until the connection has failed.
func (q *queue) send() {
	defer close(q.done)
	for range q.wake {
		for {
			q.mu.Lock()
			failed := q.failed
			var next []byte
			if failed == nil && len(q.waiting) > 0 {
				next, q.waiting = q.waiting[0], q.waiting[1:]
			}
			q.mu.Unlock()
			if failed != nil {
				return
			}
			if next == nil {
				break
			}
			_, err := q.Conn.Write(next)
			q.mu.Lock()
			q.bytes -= len(next)
			if err != nil && q.failed == nil {
				q.failed = err
			}
			q.mu.Unlock()
		}
	}
}

// Close ends the connection with what still waits.
func (q *queue) Close() error {
	q.mu.Lock()
	if q.failed == nil {
		q.failed = net.ErrClosed
	}
	q.mu.Unlock()
	q.signal()
	err := q.Conn.Close()
	<-q.done
	return err
}
