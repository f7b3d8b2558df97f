package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/hopbench/hopbench/internal/clock"
	"github.com/hopbench/hopbench/internal/protocol"
)

// asking is who waits for the answer to stamps that were sent at a time.
type asking struct {
	sent     time.Duration
	answered chan struct{}
}

// Exchange exchanges stamps with the agent once more, and waits for its answer.
func (c *Client) Exchange(ctx context.Context) error {
	c.writing.Lock() // the answers come in the order of the questions
	this := asking{c.clock.Now(), make(chan struct{})}
	c.mu.Lock()
	c.asking = append(c.asking, this)
	c.mu.Unlock()
	err := protocol.WriteFrame(c.control, protocol.TypeAgentClock, stamps{Sent: this.sent})
	c.writing.Unlock()
	if err != nil {
		return fmt.Errorf("ask the agent on %s for its time: %w", c.hello.Host, err)
	}
	select {
	case <-this.answered:
		return nil
	case <-c.life.Done():
		return c.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
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
	for len(c.asking) > 0 && c.asking[0].sent <= x.Sent {
		close(c.asking[0].answered)
		c.asking = c.asking[1:]
	}
}

// Clock says how the agent's clock stands to this process's, false while that is not
// known, as it never is without Connect.
func (c *Client) Clock() (clock.Estimate, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.agent.Estimate()
}

// Reads says what the agent's clock read at a moment, and the bound of the error of that,
// false while that is not known.
func (c *Client) Reads(moment time.Time) (at, uncertainty time.Duration, ok bool) {
	e, ok := c.Clock()
	ours := c.clock.Of(moment)
	ahead, uncertainty := e.At(ours)
	return ours + ahead, uncertainty, ok
}
