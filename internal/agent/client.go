package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/clock"
	"github.com/hopbench/hopbench/internal/fleet/samples"
	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/protocol"
)

// Client is the coordinator's side of an agent's control connection. Its
// methods may be called from several goroutines at the same time.
type Client struct {
	control io.ReadWriteCloser
	clock   clock.Monotonic
	hello   Hello
	life    context.Context //nolint:containedctx // ends with the connection
	ended   context.CancelFunc
	done    sync.WaitGroup
	heard   heard
	crowd   *Crowd // of one alone after Connect, nil after NewClient

	writing sync.Mutex

	mu         sync.Mutex
	next       uint64
	pending    map[uint64]*call
	failed     error
	cause      error // of this end's closing the connection
	agent      clock.Estimator
	asking     []asking // in their order
	touch      touch
	take       func(b samples.Block, more bool) error // nil where no samples are wanted
	takeResult func(SeatResult) error                 // likewise
}

// call is a request that waits for its reply.
type call struct {
	progress func(measurement.Progress)
	prepared chan struct{} // gets one when the agent says so
	reply    chan reply    // gets one, or is closed without
	over     func()        // called then
}

// NewClient starts to read from control, which it owns from then on. The agent is one of
// this machine and version, and shares its clock, as those of a lab; see Connect.
func NewClient(control io.ReadWriteCloser) *Client {
	c := newClient(control)
	c.done.Go(c.read)
	return c
}

func newClient(control io.ReadWriteCloser) *Client {
	life, ended := context.WithCancel(context.Background())
	started := clock.Start()
	return &Client{
		control: control, clock: started, life: life, ended: ended, pending: map[uint64]*call{},
		heard: heard{from: control, clock: started},
	}
}

// Connect is NewClient for an agent at the other end of a network: it says hello, keeps up
// the lease, and follows the agent's clock, all until Close. When it fails, control is
// closed.
func Connect(ctx context.Context, control io.ReadWriteCloser) (*Client, error) {
	return ConnectOneOf(ctx, control, NewCrowd(func() int { return 1 }))
}

// ConnectOneOf is Connect for one of a crowd.
func ConnectOneOf(ctx context.Context, control io.ReadWriteCloser, crowd *Crowd) (*Client, error) {
	c := NewClient(control)
	c.crowd = crowd
	// One that does not even read holds up the request itself.
	stop := context.AfterFunc(ctx, func() { c.end(context.Cause(ctx)) })
	defer stop()
	answer, err := c.do(ctx, request{Op: opHello, Hello: &helloRequest{Protocol: protocol.AgentVersion, Version: hostinfo.Version(), Coordinator: hostinfo.Process()}}, nil)
	if err == nil && (answer.Hello == nil || answer.Hello.Lease < 0) {
		err = &probe.Error{Op: opHello, Reason: probe.Protocol, Err: errors.New("the agent's reply is no hello")}
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	c.hello = *answer.Hello
	c.keepInTouch()
	return c, nil
}

// Hello is what the agent said of itself, nothing without Connect.
func (c *Client) Hello() Hello { return c.hello }

// Done is closed when the control connection has ended; Err says why from then on.
func (c *Client) Done() <-chan struct{} { return c.life.Done() }

// AfterEnd has do called, in a goroutine of its own, when the control connection has ended.
func (c *Client) AfterEnd(do func()) { context.AfterFunc(c.life, do) }

// Heard is when the agent was heard of last, which is every third of its lease at least while it
// and the network are well.
func (c *Client) Heard() time.Time { return c.clock.Moment(time.Duration(c.heard.last.Load())) }

// Err is why the control connection ended, nil while it has not.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// finishTime is how long a frame may take that is under way when the connection is closed.
const finishTime = time.Second

// Close ends the control connection, and with it all that the agent does. A frame that is
// being written is finished, unless the agent does not take it: half of one is an error
// there.
func (c *Client) Close() error {
	overdue := time.AfterFunc(finishTime, func() { _ = c.control.Close() }) // which ends the writing
	c.writing.Lock()
	err := c.control.Close()
	c.writing.Unlock()
	overdue.Stop()
	c.done.Wait()
	return ignoreClosed(err)
}

// Serving is how an agent serves tests.
type Serving struct {
	// Token is the secret that clients must prove; may be empty.
	Token string
	// IPerf3 serves iperf3's clients too, which cannot prove a token.
	IPerf3 bool
}

// Listen makes the agent the far end of tests at addr, for as long as the
// control connection lives, or until Unlisten. It returns when the agent listens, with
// the address, whose port is one that the agent's system chose where it was 0.
func (c *Client) Listen(ctx context.Context, addr netip.AddrPort, s Serving) (netip.AddrPort, error) {
	answer, err := c.do(ctx, request{Op: opListen, Listen: &listenRequest{Address: addr, Token: s.Token, IPerf3Open: s.IPerf3}}, nil)
	return answered(opListen, answer.Listen, err)
}

// Unlisten ends the server at an address that Listen returned, and its tests.
func (c *Client) Unlisten(ctx context.Context, addr netip.AddrPort) error {
	_, err := c.do(ctx, request{Op: opUnlisten, Unlisten: &addr}, nil)
	return err
}

// Prove has the agent prove the token to the target of a request, from its source and
// over its spec's device, and tells what the two ends saw. Nothing is measured. An agent
// that has a lease pings and traces only what it has proved the token to.
func (c *Client) Prove(ctx context.Context, req probe.Request) (probe.Proof, error) {
	answer, err := c.do(ctx, request{Op: opProve, Run: &req}, nil)
	return answered(opProve, answer.Proof, err)
}

// Counters reads what the kernel of the agent's host has counted at an interface and in
// the whole host.
func (c *Client) Counters(ctx context.Context, name string) (Counters, error) {
	asked := time.Now()
	answer, err := c.do(ctx, request{Op: opCounters, Interface: name}, nil)
	counters, err := answered(opCounters, answer.Counters, err)
	if err != nil {
		return counters, err
	}
	counters.Taken = asked.Add(time.Since(asked) / 2)
	if e, ok := c.Clock(); ok {
		counters.Taken = c.clock.Moment(e.Ours(answer.Stamp))
	}
	return counters, nil
}

// Canary has the agent send a small HTTP request, and tells what became of it.
func (c *Client) Canary(ctx context.Context, r CanaryRequest) (Canary, error) {
	answer, err := c.do(ctx, request{Op: opCanary, Canary: &r}, nil)
	return answered(opCanary, answer.Canary, err)
}

const (
	// answerTime is how long an agent may take to say that it is there.
	answerTime = 5 * time.Second
	// endTime is how long it may take from a connection's failing to its end.
	endTime = time.Second
)

// Answers waits for any answer of the agent, and says for how long at most it did not run in
// so much past: 0 where it did, or does not know; and which of some addresses its host had, and
// has lost. An error is why it is not there, as far as is known in 5 s.
func (c *Client) Answers(ctx context.Context, past time.Duration, own ...netip.Addr) (stood time.Duration, lost []hostinfo.LostAddress, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	answer, err := c.do(ctx, request{Op: opStood, Past: past, Addresses: own}, nil)
	switch probe.ReasonOf(err) {
	case probe.TimedOut:
		return 0, nil, fmt.Errorf("it does not answer within %v", answerTime)
	case probe.Local: // if the connection ends, that was it
		select {
		case <-c.Done():
			return 0, nil, c.Err()
		case <-time.After(endTime):
		}
	}
	return answer.Stood, answer.Lost, nil
}

// answered is the part of a reply that an operation asks for, unless there was an error.
func answered[T any](op string, part *T, err error) (T, error) {
	if err == nil && part == nil {
		err = &probe.Error{Op: op, Reason: probe.Protocol, Err: errors.New("the agent's reply says nothing of what was asked")}
	}
	if err != nil {
		var nothing T
		return nothing, err
	}
	return *part, nil
}

// Run has the agent do one test. Progress, which may be nil, is called from
// one goroutine at a time and not after Run returned. req.Prepared, which may be
// nil, is called here when the agent has prepared the test, which starts at the moment
// that it returns. When ctx ends, the agent is told to cancel, and Run returns
// without waiting for it. When the test started is on this process's clock, as well as
// the agent's is known. The error is always a *probe.Error.
func (c *Client) Run(ctx context.Context, req probe.Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
	answer, err := c.do(ctx, request{Op: opRun, Run: &req, Hold: req.Prepared != nil}, progress)
	out, err := answered(opRun, answer.Outcome, err)
	if err != nil {
		return out, err
	}
	if out.OneWay != nil {
		out.OneWay.SourceStarted = int64(answer.Stamp)
	}
	if e, ok := c.Clock(); ok && answer.Stamp != 0 {
		out.Started = c.clock.Moment(e.Ours(answer.Stamp))
	}
	return out, nil
}

func (c *Client) do(ctx context.Context, r request, report func(measurement.Progress)) (reply, error) {
	op := "agent: " + r.Op
	// Ends with the reply too: one that is prepared may wait long for its start.
	waiting, over := context.WithCancel(ctx)
	defer over()
	this := &call{progress: report, prepared: make(chan struct{}, 1), reply: make(chan reply, 1), over: over}
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
	for {
		select {
		case <-this.prepared:
			if err := c.start(waiting, r); err != nil && waiting.Err() == nil {
				return reply{}, c.cancel(op, r.ID, err)
			}
		case answer, ok := <-this.reply:
			if !ok {
				return reply{}, &probe.Error{Op: op, Reason: probe.Local, Err: c.Err()}
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

// start asks the caller of a prepared run when it starts, and tells the agent.
func (c *Client) start(ctx context.Context, r request) error {
	if r.Run == nil || r.Run.Prepared == nil {
		return nil
	}
	moment, err := r.Run.Prepared(ctx)
	if err != nil {
		return err
	}
	at := startAt{ID: r.ID}
	agent, known := c.Clock()
	switch {
	case moment.IsZero():
	case known:
		at.At = agent.Theirs(c.clock.Of(moment))
	default:
		if err := sleep(ctx, time.Until(moment)); err != nil {
			return err
		}
	}
	return c.write(protocol.TypeAgentStart, at)
}

// sleep waits for d, unless that has passed.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// cancel gives up a call, here and at the agent.
func (c *Client) cancel(op string, id uint64, why error) error {
	c.forget(id)
	err := &probe.Error{Op: op, Reason: probe.Cancelled, Err: why}
	if errors.Is(why, context.DeadlineExceeded) {
		err.Reason = probe.TimedOut
	}
	if cancel := c.write(protocol.TypeAgentCancel, about{ID: id}); cancel != nil && !c.ends() {
		err.Err = errors.Join(err.Err, cancel)
	}
	return err
}

// ends says whether this end has closed the connection for a reason, or it has ended.
func (c *Client) ends() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause != nil || c.failed != nil
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

// read delivers what the agent sends until the connection ends.
func (c *Client) read() {
	err := c.receive()
	closed := c.control.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		err = c.cause
	}
	c.failed = fmt.Errorf("the control connection to the agent ended: %w", errors.Join(err, ignoreClosed(closed)))
	for id, p := range c.pending {
		close(p.reply)
		p.over()
		delete(c.pending, id)
	}
	c.letGo()
	c.ended()
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (c *Client) receive() error {
	for {
		t, payload, err := protocol.ReadFrame(&c.heard, maxReply)
		if err != nil {
			return err
		}
		now := c.clock.Now()
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
				p.over()
			}
			c.mu.Unlock()
		case protocol.TypeAgentClock:
			var x stamps
			if err := protocol.DecodeAgent(payload, &x); err != nil {
				return fmt.Errorf("clock: %w", err)
			}
			c.noteClock(x, now)
		case protocol.TypeAgentSamples:
			if err := c.samples(payload); err != nil {
				return fmt.Errorf("samples: %w", err)
			}
		case protocol.TypeAgentResult:
			if err := c.result(payload); err != nil {
				return fmt.Errorf("result: %w", err)
			}
		case protocol.TypeError: // its last word
			return protocol.Decode(t, payload, protocol.TypeAgentReply, nil)
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
