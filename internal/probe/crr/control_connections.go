package crr

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hopbench/hopbench/internal/probe/datagram"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
)

// A server serves the transactions of a crr test while a control connection of
// that test is with it. Where a load balancer may be on the way, the client
// therefore opens control connections until it has one with every back end. It
// cannot know how many there are. It stops after missesPerBackend × n connections
// in a row that went to the n back ends it has. If there were one more, and the
// balancer chose at random, the probability of that would be at most
// (n / (n + 1))^(missesPerBackend × n): below 2 in 10⁵ for n = 1, near 10⁻⁷ for many.
const (
	missesPerBackend = 16
	maxControls      = 64
)

// control is a control connection of a crr test at the client.
type control struct {
	*session.Link
	report protocol.Report
}

// begin sends START.
func (c *control) begin(deadline time.Time) error {
	w := session.ControlConn{Conn: c.Conn, Deadline: deadline}
	return session.Wrap("start", protocol.WriteFrame(&w, protocol.TypeStart, nil))
}

// end ends the test with this server and reads its report.
func (c *control) end(deadline time.Time) error {
	w := session.ControlConn{Conn: c.Conn, Deadline: deadline}
	return w.EndTest(&c.report)
}

// connectControls opens a control connection with every server that the test's
// transactions may reach.
func connectControls(ctx context.Context, req session.Request, testID string) (all []*control, err error) {
	defer func() {
		if err != nil {
			closeControls(all)
			all = nil
		}
	}()
	one := func(ctx context.Context) (*control, error) {
		l, err := session.Connect(ctx, req, testID, 0)
		return &control{Link: l}, err
	}
	first, err := one(ctx)
	if err != nil {
		return nil, err
	}
	all = append(all, first)
	if !datagram.Translated(req.Target, first.Ready) {
		return all, nil
	}
	var mu sync.Mutex
	misses := 0
	for misses < missesPerBackend*len(all) && len(all) < maxControls {
		group, ctx := errgroup.WithContext(ctx)
		for range session.ConnectAtOnce {
			group.Go(func() error {
				c, err := one(ctx)
				if err != nil {
					return err
				}
				mu.Lock()
				known := false
				for _, a := range all {
					known = known || a.Ready.Server == c.Ready.Server
				}
				if known {
					misses++
				} else {
					misses, all = 0, append(all, c)
				}
				mu.Unlock()
				if !known {
					return nil
				}
				return c.dismiss()
			})
		}
		if err := group.Wait(); err != nil {
			return all, err
		}
	}
	return all, nil
}

// dismiss ends a control connection with a server that another one is with.
func (c *control) dismiss() error {
	defer closeControls([]*control{c})
	deadline := time.Now().Add(session.HandshakeTimeout)
	if err := c.begin(deadline); err != nil {
		return err
	}
	return c.end(deadline)
}

func closeControls(all []*control) {
	for _, c := range all {
		_ = c.Conn.Abort() // whatever it says, the test is over
	}
}

func (t *test) close() { closeControls(t.controls) }

// backends says how the transactions were divided among several servers.
func (t *test) backends() []string {
	if len(t.controls) == 1 {
		return datagram.Destinations(t.controls[0].Remote, []string{t.controls[0].Ready.Server})
	}
	parts := make([]string, len(t.controls))
	var strangers []string
	for i, c := range t.controls {
		parts[i] = fmt.Sprintf("%d to %s", c.report.Answered, c.Ready.Server)
		if !bytes.Equal(c.Ready.Cookie, t.controls[0].Ready.Cookie) {
			strangers = append(strangers, c.Ready.Server)
		}
	}
	facts := []string{fmt.Sprintf("the connections towards %s went to %d back ends: %s", t.controls[0].Remote, len(parts), strings.Join(parts, ", "))}
	if len(strangers) > 0 {
		facts = append(facts, fmt.Sprintf("%s served none of the test: a server of an older version shares no crr test with others", strings.Join(strangers, ", ")))
	}
	return facts
}

// checkAnswered compares the transactions that a server says it served with those
// that this end began.
func checkAnswered(r protocol.Report, began int64) error {
	if r.Answered > began {
		return fmt.Errorf("%w: %d connections were served of %d", protocol.ErrMalformed, r.Answered, began)
	}
	return nil
}
