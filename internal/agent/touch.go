package agent

import (
	"fmt"
	"time"

	"github.com/hopbench/hopbench/internal/clock"
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
)

// keepInTouch exchanges stamps until the connection ends, which follows the agent's clock,
// keeps up its lease, and notices when it is silent itself.
func (c *Client) keepInTouch() {
	lease := c.hello.Lease.Duration()
	every := exchangeEvery
	if lease > 0 {
		every = max(min(every, lease/leaseParts), burstEvery)
		defer c.heard.watch(lease, func() {
			c.end(fmt.Errorf("%w of the agent on %s for %v: its machine or the network is down, or this one slept", errSilent, c.hello.Host, lease))
		})()
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for n := 0; ; n++ {
		select {
		case <-timer.C:
		case <-c.ended:
			return
		}
		if err := c.write(protocol.TypeAgentClock, stamps{Sent: c.clock.Now()}); err != nil {
			c.end(err)
			return
		}
		if n < burst {
			timer.Reset(burstEvery)
		} else {
			timer.Reset(every)
		}
	}
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

// oldest bounds how long ago an exchange that is answered now was begun.
const oldest = time.Minute

// noteClock takes the answer to an exchange of stamps, which was heard at a time. An agent
// that lies says so much of its own clock.
func (c *Client) noteClock(x stamps, heard time.Duration) {
	if x.Sent > heard || heard-x.Sent > oldest {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.agent.Add(clock.Exchange{Sent: x.Sent, Heard: heard, At: x.At})
}

// Clock says how the agent's clock stands to this process's, false while that is not
// known, as it never is without Connect.
func (c *Client) Clock() (clock.Estimate, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.agent.Estimate()
}
