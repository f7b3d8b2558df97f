package trial

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/session"
)

// commonStart lets pairs start when those of the first wave are prepared or have failed,
// the others when it is their turn.
type commonStart struct {
	every  time.Duration             // from one wave to the next, or the length of a ramp
	first  int                       // pairs of the first wave
	ready  chan arrival              // gets each of those
	once   []sync.Once               // of each pair's arrival
	giveUp []context.CancelCauseFunc // of each pair's test, nil where there is none
	start  chan struct{}
	// Once start is closed: at is when the first wave starts, zero for at once, origin when
	// that is, and ahead how long before its start a source must know of it.
	at, origin time.Time
	ahead      time.Duration
	slowest    atomic.Int64 // nanoseconds that a pair took to prepare
}

// arrival says that a pair is prepared, or has failed before.
type arrival struct {
	pair     int
	prepared bool
}

func newCommonStart(spec measurement.Spec, pairs int) *commonStart {
	c := &commonStart{every: (spec.Ramp + spec.WaveEvery).Duration(), ready: make(chan arrival, pairs), once: make([]sync.Once, pairs), giveUp: make([]context.CancelCauseFunc, pairs), start: make(chan struct{})}
	for k := range pairs {
		if spec.StartOf(k, pairs) == 0 {
			c.first++
		}
	}
	return c
}

// arrive says, once, that a pair is prepared or has failed; that matters of the first wave.
func (c *commonStart) arrive(k int, wait measurement.Seconds, prepared bool) {
	if wait == 0 {
		c.once[k].Do(func() { c.ready <- arrival{k, prepared} })
	}
}

// took notes how long a pair took to prepare.
func (c *commonStart) took(d time.Duration) {
	for {
		known := c.slowest.Load()
		if int64(d) <= known || c.slowest.CompareAndSwap(known, int64(d)) {
			return
		}
	}
}

// mostEarly bounds how long before its start a pair connects: a server waits no longer
// than session.StartTimeout.
const mostEarly = 10 * time.Second

// early is how long before its start a pair of a later wave connects: half of the time
// between waves, or of a ramp, as a device has then had time to scale itself since the wave
// before. Those that have started fill the path's queues, and a lost SYN is sent again
// after 1, 2, 4 s (RFC 6298); so no shorter than twice what it has taken others.
func (c *commonStart) early() time.Duration {
	return min(max(2*time.Duration(c.slowest.Load()), c.every/2), mostEarly) + c.ahead
}

// turn returns when a pair of a later wave is to connect, so that it is prepared when it
// starts: a device in the path that scales itself places a flow when it is new.
func (c *commonStart) turn(ctx context.Context, wait measurement.Seconds) error {
	if wait == 0 {
		return nil
	}
	cancelled := func() error {
		return &probe.Error{Op: "wait for the start", Reason: probe.Cancelled, Err: context.Cause(ctx)}
	}
	select {
	case <-c.start:
	case <-ctx.Done():
		return cancelled()
	}
	for moment := c.origin.Add(wait.Duration()); ; {
		left := time.Until(moment) - c.early() // meanwhile a wave before may have taken longer
		if left <= 0 {
			return nil
		}
		select {
		case <-time.After(max(left/2, min(left, 10*time.Millisecond))):
		case <-ctx.Done():
			return cancelled()
		}
	}
}

// await is called by a pair that is prepared, and says when it starts.
func (c *commonStart) await(ctx context.Context, wait measurement.Seconds) (time.Time, error) {
	select {
	case <-c.start:
	case <-ctx.Done():
		return time.Time{}, context.Cause(ctx)
	}
	at := c.at
	if wait > 0 {
		at = c.origin.Add(wait.Duration())
	}
	return at, context.Cause(ctx) // of one that came too late
}

// open waits for every pair of the first wave, but no longer than its patience once one is
// prepared, and starts those that are there: at a moment that is so far ahead as is said
// then, or at once where that is 0. The others are given up: who waits for them would be
// given up himself, by his server.
func (c *commonStart) open(patience time.Duration, ahead func() time.Duration) {
	var late <-chan time.Time
	there := map[int]bool{}
	for len(there) < c.first {
		select {
		case a := <-c.ready:
			there[a.pair] = true
			if a.prepared && late == nil {
				late = time.After(patience)
			}
			continue
		case <-late:
		}
		for k, giveUp := range c.giveUp[:c.first] { // a wave is pairs in a row
			if !there[k] && giveUp != nil {
				giveUp(fmt.Errorf("not ready %v after the first of the pairs", patience))
			}
		}
		break
	}
	head := ahead()
	c.origin, c.ahead = time.Now().Add(head), max(head, busyStart)
	if head > 0 {
		c.at = c.origin
	}
	close(c.start)
}

const (
	// spare is how long before a server gives up a client that has not begun, the client
	// begins.
	spare = 3 * time.Second
	// tellOne is what it takes to tell one of thousands of pairs of its test.
	tellOne = 2 * time.Millisecond
)

// stragglers is for how long pairs wait for others, at most: a bit less than their servers
// wait for them, and more than a connection takes that comes to nothing.
func stragglers(spec measurement.Spec, pairs int) time.Duration {
	return session.ConnectTime(spec) - spare + time.Duration(pairs)*tellOne
}
