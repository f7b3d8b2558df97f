// Package reach makes the control connections between a coordinator and its agents: in
// this process, over TLS, and over the system's ssh. They carry the frames of package
// protocol and differ in nothing else: closing one ends the agent at its other end, or
// this agent's work for that coordinator.
package reach

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"

	"github.com/hopbench/hopbench/internal/agent"
	"github.com/hopbench/hopbench/internal/sendqueue"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
)

// DefaultPort is the TCP port of agents that listen.
const DefaultPort = inventory.AgentPort

// Dial connects to the agent of an endpoint, and starts it where that takes ssh or
// this process; the token proves both ends of a connection over TLS. Nothing of it is left
// when it fails, nor once the connection is closed. A write to the connection never waits
// for the other end. Errors are one sentence that names the endpoint and says what to do.
func Dial(ctx context.Context, e inventory.Endpoint, token string) (io.ReadWriteCloser, error) {
	var conn io.ReadWriteCloser
	var err error
	switch e.Reach.Scheme {
	case inventory.ReachLocal:
		return serveLocal(), nil
	case inventory.ReachTLS:
		conn, err = dialTLS(ctx, e.Reach, token)
	case inventory.ReachSSH:
		conn, err = dialSSH(ctx, e)
	default:
		return nil, fmt.Errorf("%s is reached by %q, which has no control connection", e.Name, e.Reach.Scheme)
	}
	if err != nil {
		return nil, fmt.Errorf("reach %s: %w", e.Name, err)
	}
	return sendqueue.New(conn), nil
}

// hostPort is where an endpoint listens.
func hostPort(r inventory.Reach) string {
	return net.JoinHostPort(r.Host, strconv.Itoa(int(cmp.Or(r.Port, DefaultPort))))
}

// local is a connection to an agent in this process.
type local struct {
	net.Conn
	done chan struct{}
}

// serveLocal starts an agent that lives until its connection is closed.
func serveLocal() io.ReadWriteCloser {
	near, far := net.Pipe()
	c := &local{Conn: near, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		// The pipe's other end sees why it ended.
		_ = agent.Serve(context.Background(), far, agent.Options{})
	}()
	return c
}

// Close returns when the agent has ended.
func (c *local) Close() error {
	err := c.Conn.Close()
	<-c.done
	return err
}
