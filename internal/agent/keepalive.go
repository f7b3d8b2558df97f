package agent

import (
	"fmt"
	"time"

	"github.com/hopbench/hopbench/internal/protocol"
)

// A client exchanges stamps with its agent burst times in quick succession, so that the
// clock is known when the first test begins, and then every exchangeEvery: some 300
// bytes on the wire, once a second, from the coordinator's machine.
const (
	burst         = 16
	burstEvery    = 10 * time.Millisecond
	exchangeEvery = time.Second
	// leaseParts is how often within a lease the client is heard of at least.
	leaseParts = 3
	// crowdWrites is how many clients of a crowd begin an exchange at the same time, and
	// crowdPause how long the next one waits before it tries again.
	crowdWrites = 64
	crowdPause  = 200 * time.Millisecond
)

// Crowd is shared by the clients of thousands of agents that one connection carries, as that
// to a broker.
type Crowd struct {
	slower func() int    // how many times as rarely as of a few the clock of each is followed
	writes chan struct{} // bounds the goroutines that wait for the connection: each has a stack
}

// NewCrowd returns one for clients that follow their agents' clocks so many times as rarely as
// slower says. A lease is kept up all the same.
func NewCrowd(slower func() int) *Crowd {
	return &Crowd{slower, make(chan struct{}, crowdWrites)}
}

// enter says whether one more may begin an exchange now; if so, the caller leaves.
func (c *Crowd) enter() bool {
	select {
	case c.writes <- struct{}{}:
		return true
	default:
		return false
	}
}

func (c *Crowd) leave() { <-c.writes }

// touch is what a client does until the connection ends, to follow the agent's clock, keep
// up its lease, and notice when it is silent itself. Timers do it: a goroutine for each of
// thousands of agents would wait nearly all the time, and its stack take 8 KiB.
type touch struct {
	next  *time.Timer // begins the next exchange
	times int         // exchanges begun, of the timer's goroutine alone
	lease func() bool // stops waiting for the agent's lease to end
}

// keepInTouch begins to.
func (c *Client) keepInTouch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed != nil {
		return
	}
	if lease := c.hello.Lease.Duration(); lease > 0 {
		c.touch.lease = c.heard.watch(lease, func() {
			c.end(fmt.Errorf("%w of the agent on %s for %v: its machine or the network is down, or this one slept", errSilent, c.hello.Host, lease))
		})
	}
	c.done.Add(1)
	c.touch.next = time.AfterFunc(0, c.touchOnce)
}

// touchOnce begins an exchange, and sees to it that there will be another.
func (c *Client) touchOnce() {
	defer c.done.Done()
	after := crowdPause
	if c.crowd.enter() {
		err := c.write(protocol.TypeAgentClock, stamps{Sent: c.clock.Now()})
		c.crowd.leave()
		if err != nil {
			c.end(err)
			return
		}
		after = c.untilNext(c.touch.times, c.hello.Lease.Duration())
		c.touch.times++
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed == nil {
		c.done.Add(1)
		c.touch.next.Reset(after)
	}
}

// letGo ends what keepInTouch began. The caller holds the lock, and the connection has ended.
func (c *Client) letGo() {
	if c.touch.lease != nil {
		c.touch.lease()
	}
	if c.touch.next != nil && c.touch.next.Stop() {
		c.done.Done()
	}
}

// untilNext is how long after its n-th exchange a client begins the next.
func (c *Client) untilNext(n int, lease time.Duration) time.Duration {
	times := max(1, c.crowd.slower())
	every := exchangeEvery
	if n < burst/times { // thousands that join at once would do little else
		every = burstEvery
	}
	if every *= time.Duration(times); lease > 0 {
		every = max(min(every, lease/leaseParts), burstEvery)
	}
	return every
}

// end closes the connection, for a reason unless it has one already.
func (c *Client) end(why error) {
	c.mu.Lock()
	if c.cause == nil && c.failed == nil {
		c.cause = why
	}
	c.mu.Unlock()
	_ = c.control.Close() // the reading side reports the end
}
