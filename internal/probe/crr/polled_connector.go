package crr

import (
	"context"
	"errors"
	"net"
	"os"
	"time"

	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/sockets"
)

// polledConnector makes the connections of a caller that has no thread of its own:
// it waits with the runtime's poller, which takes some microseconds more for each.
type polledConnector struct {
	dial func() (net.Conn, error)
	conn net.Conn
}

// newPolledConnector prepares connections, none of which begins once ctx has ended. Left
// is how long the transaction in progress may still take.
func newPolledConnector(ctx context.Context, req session.Request, left func() time.Duration) *polledConnector {
	return &polledConnector{dial: func() (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, left())
		defer cancel()
		c, err := session.Dial(ctx, req, 0, req.Target)
		if err != nil {
			return nil, err
		}
		if err := c.SetNoDelay(req.Spec.RequestBytes > manySegments); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		return c, nil
	}}
}

// Connect makes a connection within the time of a transaction.
func (p *polledConnector) Connect() (err error) {
	if p.conn, err = p.dial(); err != nil {
		return err
	}
	return p.tick()
}

// tick has the next call wait for a tick.
func (p *polledConnector) tick() error {
	return p.conn.SetDeadline(time.Now().Add(sockets.AttachedTick))
}

func (p *polledConnector) Read(b []byte) (int, error) {
	n, err := p.conn.Read(b)
	return n, p.waited(err)
}

func (p *polledConnector) Write(b []byte) (int, error) {
	n, err := p.conn.Write(b)
	return n, p.waited(err)
}

func (p *polledConnector) waited(err error) error {
	if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	if err := p.tick(); err != nil {
		return err
	}
	return sockets.ErrTick
}

// Close ends the connection made last; it may be called without one.
func (p *polledConnector) Close() error {
	if p.conn == nil {
		return nil
	}
	c := p.conn
	p.conn = nil
	return c.Close()
}
