package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/protocol"
)

// Client is the coordinator's side of an agent's control connection. Its
// methods may be called from several goroutines at the same time.
type Client struct {
	control net.Conn
	done    sync.WaitGroup

	writing sync.Mutex

	mu      sync.Mutex
	next    uint64
	pending map[uint64]*call
	failed  error
}

// call is a request that waits for its reply.
type call struct {
	progress func(measurement.Progress)
	prepared chan struct{} // gets one when the agent says so
	reply    chan reply
}

// NewClient starts to read from control, which it owns from then on.
func NewClient(control net.Conn) *Client {
	c := &Client{control: control, pending: map[uint64]*call{}}
	c.done.Go(c.read)
	return c
}

// Close ends the control connection, and with it all that the agent does.
func (c *Client) Close() error {
	err := c.control.Close()
	c.done.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Serving is how an agent serves tests.
type Serving struct {
	// Token is the secret that clients must prove; may be empty.
	Token string
	// IPerf3 serves iperf3's clients too, which cannot prove a token.
	IPerf3 bool
}

// Listen makes the agent the far end of tests at addr, for as long as the
// control connection lives. It returns when the agent listens.
func (c *Client) Listen(ctx context.Context, addr netip.AddrPort, s Serving) error {
	_, err := c.do(ctx, request{Op: opListen, Listen: &listenRequest{Address: addr, Token: s.Token, IPerf3Open: s.IPerf3}}, nil)
	return err
}

// Run has the agent do one test. Progress, which may be nil, is called from
// one goroutine at a time and not after Run returned. req.Prepared, which may be
// nil, is called here when the agent has prepared the test, which starts once it
// has returned. When ctx ends, the agent is told to cancel, and Run returns
// without waiting for it. The error is always a *probe.Error.
func (c *Client) Run(ctx context.Context, req probe.Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
	answer, err := c.do(ctx, request{Op: opRun, Run: &req, Hold: req.Prepared != nil}, progress)
	if err != nil {
		return measurement.Outcome{}, err
	}
	if answer.Outcome == nil {
		return measurement.Outcome{}, &probe.Error{Op: opRun, Reason: probe.Protocol, Err: errors.New("the agent's reply has no outcome")}
	}
	return *answer.Outcome, nil
}

func (c *Client) do(ctx context.Context, r request, report func(measurement.Progress)) (reply, error) {
	op := "agent: " + r.Op
	this := &call{progress: report, prepared: make(chan struct{}, 1), reply: make(chan reply, 1)}
	c.mu.Lock()
	if c.failed != nil {
		c.mu.Unlock()
		return reply{}, &probe.Error{Op: op, Reason: probe.Local, Err: c.failed}
	}
	c.next++
	r.ID = c.next
	c.pending[r.ID] = this
	c.mu.Unlock()

	if err := c.write(protocol.TypeAgentRequest, r); err != nil {
		c.forget(r.ID)
		return reply{}, &probe.Error{Op: op, Reason: probe.Local, Err: err}
	}
	waiting, stop := context.WithCancel(ctx)
	var preparing sync.WaitGroup
	defer preparing.Wait()
	defer stop()
	start := make(chan error, 1)
	for {
		select {
		case <-this.prepared:
			preparing.Go(func() { start <- r.prepared(waiting) })
		case err := <-start:
			if err == nil {
				err = c.write(protocol.TypeAgentStart, about{ID: r.ID})
			}
			if err != nil {
				return reply{}, c.cancel(op, r.ID, err)
			}
		case answer, ok := <-this.reply:
			if !ok {
				return reply{}, &probe.Error{Op: op, Reason: probe.Local, Err: c.failure()}
			}
			if e := answer.Error; e != nil {
				return reply{}, &probe.Error{Op: e.Op, Reason: e.Reason, Err: errors.New(e.Message)}
			}
			return answer, nil
		case <-ctx.Done():
			return reply{}, c.cancel(op, r.ID, context.Cause(ctx))
		}
	}
}

// prepared lets the caller of a run say when it starts.
func (r request) prepared(ctx context.Context) error {
	if r.Run == nil || r.Run.Prepared == nil {
		return nil
	}
	return r.Run.Prepared(ctx)
}

// cancel gives up a call, here and at the agent.
func (c *Client) cancel(op string, id uint64, why error) error {
	c.forget(id)
	err := &probe.Error{Op: op, Reason: probe.Cancelled, Err: why}
	if errors.Is(why, context.DeadlineExceeded) {
		err.Reason = probe.TimedOut
	}
	if cancel := c.write(protocol.TypeAgentCancel, about{ID: id}); cancel != nil {
		err.Err = errors.Join(err.Err, cancel)
	}
	return err
}

func (c *Client) write(t protocol.Type, v any) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	return protocol.WriteFrame(c.control, t, v)
}

// forget drops a call; when it returns, no progress of it is being reported.
func (c *Client) forget(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, id)
}

func (c *Client) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// read delivers what the agent sends until the connection ends.
func (c *Client) read() {
	err := c.receive()
	closed := c.control.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = fmt.Errorf("the control connection to the agent ended: %w", errors.Join(err, ignoreClosed(closed)))
	for id, p := range c.pending {
		close(p.reply)
		delete(c.pending, id)
	}
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (c *Client) receive() error {
	for {
		t, payload, err := protocol.ReadFrame(c.control, maxReply)
		if err != nil {
			return err
		}
		switch t {
		case protocol.TypeAgentProgress:
			var p progress
			if err := protocol.DecodeAgent(payload, &p); err != nil {
				return fmt.Errorf("progress: %w", err)
			}
			c.report(p)
		case protocol.TypeAgentPrepared:
			var a about
			if err := protocol.DecodeAgent(payload, &a); err != nil {
				return fmt.Errorf("prepared: %w", err)
			}
			c.prepared(a.ID)
		case protocol.TypeAgentReply:
			var r reply
			if err := protocol.DecodeAgent(payload, &r); err != nil {
				return fmt.Errorf("reply: %w", err)
			}
			c.mu.Lock()
			if p := c.pending[r.ID]; p != nil {
				delete(c.pending, r.ID)
				p.reply <- r
			}
			c.mu.Unlock()
		default:
			return fmt.Errorf("%w: frame of type %#x", protocol.ErrMalformed, byte(t))
		}
	}
}

// prepared passes on that a pending call's test may start.
func (c *Client) prepared(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if this := c.pending[id]; this != nil {
		select {
		case this.prepared <- struct{}{}:
		default: // said twice
		}
	}
}

// report calls a pending call's progress function. The lock is held, so that
// forget waits for it: a caller's progress must not call the Client.
func (c *Client) report(p progress) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if this := c.pending[p.ID]; this != nil && this.progress != nil {
		this.progress(p.Progress)
	}
}
