package probe

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

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

// crrControl is a control connection of a crr test at the client.
type crrControl struct {
	*link
	report protocol.Report
}

// begin sends START.
func (c *crrControl) begin(deadline time.Time) error {
	w := wire{Conn: c.conn, deadline: deadline}
	return failure("start", protocol.WriteFrame(&w, protocol.TypeStart, nil))
}

// end ends the test with this server and reads its report.
func (c *crrControl) end(deadline time.Time) error {
	w := wire{Conn: c.conn, deadline: deadline}
	if err := protocol.WriteFrame(&w, protocol.TypeReceived, nil); err != nil {
		return failure("end the test", err)
	}
	return failure("read the server's report", protocol.Expect(&w, protocol.TypeReport, protocol.MaxControl, &c.report))
}

// connectControls opens a control connection with every server that the test's
// transactions may reach.
func connectControls(ctx context.Context, req Request, session string) (all []*crrControl, err error) {
	defer func() {
		if err != nil {
			closeControls(all)
			all = nil
		}
	}()
	one := func(ctx context.Context) (*crrControl, error) {
		l, err := connect(ctx, req, session, 0)
		return &crrControl{link: l}, err
	}
	first, err := one(ctx)
	if err != nil {
		return nil, err
	}
	all = append(all, first)
	if !translated(req.Target, first.ready) {
		return all, nil
	}
	var mu sync.Mutex
	misses := 0
	for misses < missesPerBackend*len(all) && len(all) < maxControls {
		group, ctx := errgroup.WithContext(ctx)
		for range connectAtOnce {
			group.Go(func() error {
				c, err := one(ctx)
				if err != nil {
					return err
				}
				mu.Lock()
				known := false
				for _, a := range all {
					known = known || a.ready.Server == c.ready.Server
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
func (c *crrControl) dismiss() error {
	defer closeControls([]*crrControl{c})
	deadline := time.Now().Add(handshakeTimeout)
	if err := c.begin(deadline); err != nil {
		return err
	}
	return c.end(deadline)
}

func closeControls(all []*crrControl) {
	for _, c := range all {
		_ = c.conn.Abort() // whatever it says, the test is over
	}
}

func (t *crrTest) close() { closeControls(t.controls) }

// backends says how the transactions were divided among several servers.
func (t *crrTest) backends() []string {
	if len(t.controls) == 1 {
		return destinations(t.controls[0].remote, []string{t.controls[0].ready.Server})
	}
	parts := make([]string, len(t.controls))
	var strangers []string
	for i, c := range t.controls {
		parts[i] = fmt.Sprintf("%d to %s", c.report.Answered, c.ready.Server)
		if !bytes.Equal(c.ready.Cookie, t.controls[0].ready.Cookie) {
			strangers = append(strangers, c.ready.Server)
		}
	}
	facts := []string{fmt.Sprintf("the connections towards %s went to %d back ends: %s", t.controls[0].remote, len(parts), strings.Join(parts, ", "))}
	if len(strangers) > 0 {
		facts = append(facts, fmt.Sprintf("%s served none of the test: a server of an older version shares no crr test with others", strings.Join(strangers, ", ")))
	}
	return facts
}
