// Package agent is the process at an endpoint: in a node of a lab, or on a
// host. One coordinator drives it over one control connection, with the
// frames of package protocol: the agent listens as a test's far end, and runs
// tests as their near end. When the control
// connection ends, so does everything that the agent does.
package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/protocol"
)

// Options of an agent. The zero value is usable.
type Options struct {
	// Log gets what servers refuse; nil discards it.
	Log *slog.Logger
	// Lease is how long the agent goes on without a word of its coordinator; 0 is
	// without a bound.
	Lease time.Duration
	// Limits hold whatever the coordinator asks.
	Limits Limits
	// AllowTargets are the addresses to which load may go that cannot prove a token:
	// servers of iperf3 and of FTP.
	AllowTargets []netip.Prefix
}

// Limits of what an agent does for its coordinator. What is zero is not bounded.
type Limits struct {
	MaxRateBitsPerSecond float64
	MaxDuration          time.Duration // of one test, all its parts together
	MaxFlows             int           // of one test
}

// The operations of a request.
const (
	opListen = "listen"
	opRun    = "run"
)

// request is the payload of a TypeAgentRequest frame. ID is the coordinator's
// number for it, which progress, the reply and a cancel repeat.
type request struct {
	ID     uint64         `json:"id"`
	Op     string         `json:"op"`
	Listen *listenRequest `json:"listen,omitempty"`
	Run    *probe.Request `json:"run,omitempty"`
	// Hold makes a run wait, once prepared, for the coordinator's start.
	Hold bool `json:"hold,omitempty"`
}

type listenRequest struct {
	Address netip.AddrPort `json:"address"`
	Token   string         `json:"token,omitempty"`
	// IPerf3Open serves iperf3's clients too, which cannot prove the token.
	IPerf3Open bool `json:"iperf3_open,omitempty"`
}

// about is the payload of TypeAgentCancel, TypeAgentPrepared and
// TypeAgentStart: the request they are about.
type about struct {
	ID uint64 `json:"id"`
}

// progress is the payload of TypeAgentProgress.
type progress struct {
	ID       uint64               `json:"id"`
	Progress measurement.Progress `json:"progress"`
}

// reply is the payload of TypeAgentReply: the one end of a request.
type reply struct {
	ID      uint64               `json:"id"`
	Error   *replyError          `json:"error,omitempty"`
	Outcome *measurement.Outcome `json:"outcome,omitempty"`
}

// replyError carries a *probe.Error across the connection.
type replyError struct {
	Op      string       `json:"op"`
	Reason  probe.Reason `json:"reason"`
	Message string       `json:"message"`
}

const (
	// maxRequest bounds what a coordinator may send in one frame.
	maxRequest = 64 << 10
	// maxReply bounds what an agent answers: an outcome holds the series of
	// every flow.
	maxReply = protocol.MaxAgentReply
	// maxTestFlows is what the largest test takes of a server: its flows each
	// way, and some for control and latency.
	maxTestFlows = 2*probe.MaxFlows + 16
	// maxRunning bounds the requests in progress at the same time.
	maxRunning = 64
)

// server is an agent at work.
type server struct {
	opts    Options
	control net.Conn
	ctx     context.Context
	wg      sync.WaitGroup

	writing sync.Mutex

	mu      sync.Mutex
	running map[uint64]context.CancelFunc
	held    map[uint64]chan struct{} // prepared runs; closed to start one
}

// Serve does what the coordinator at the other end of control asks, until
// control or ctx ends. It then ends its servers and tests, waits for them, and
// closes control. It returns nil when the coordinator closed the connection or
// ctx ended, and an error when the connection failed or carried nonsense.
func Serve(ctx context.Context, control net.Conn, o Options) error {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	inner, cancel := context.WithCancel(ctx)
	s := &server{opts: o, control: control, ctx: inner, running: map[uint64]context.CancelFunc{}, held: map[uint64]chan struct{}{}}
	stop := context.AfterFunc(ctx, func() { _ = control.Close() })
	defer stop()
	err := s.read()
	cancel()
	// Wakes whoever is still writing to a coordinator that reads no more.
	closed := control.Close()
	s.wg.Wait()
	if ctx.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	return fmt.Errorf("control connection: %w", errors.Join(err, closed))
}

func (s *server) read() error {
	for {
		t, payload, err := protocol.ReadFrame(s.control, maxRequest)
		if err != nil {
			return err
		}
		switch t {
		case protocol.TypeAgentRequest:
			r, err := parseRequest(payload)
			if err != nil {
				return err
			}
			s.begin(r)
		case protocol.TypeAgentCancel:
			var a about
			if err := json.Unmarshal(payload, &a); err != nil {
				return fmt.Errorf("%w: cancel: %w", protocol.ErrMalformed, err)
			}
			s.mu.Lock()
			if cancel := s.running[a.ID]; cancel != nil {
				cancel()
			}
			s.mu.Unlock()
		case protocol.TypeAgentStart:
			var a about
			if err := json.Unmarshal(payload, &a); err != nil {
				return fmt.Errorf("%w: start: %w", protocol.ErrMalformed, err)
			}
			s.release(a.ID)
		default:
			return fmt.Errorf("%w: frame of type %#x", protocol.ErrMalformed, byte(t))
		}
	}
}

// parseRequest reads the payload of a TypeAgentRequest frame.
func parseRequest(payload []byte) (request, error) {
	var r request
	if err := json.Unmarshal(payload, &r); err != nil {
		return request{}, fmt.Errorf("%w: request: %w", protocol.ErrMalformed, err)
	}
	return r, nil
}

// begin answers r from a goroutine of its own.
func (s *server) begin(r request) {
	ctx, cancel := context.WithCancel(s.ctx)
	s.mu.Lock()
	_, twice := s.running[r.ID]
	full := len(s.running) >= maxRunning
	if !twice && !full {
		s.running[r.ID] = cancel
	}
	s.mu.Unlock()
	if twice || full {
		cancel()
		s.reply(reply{ID: r.ID, Error: &replyError{Op: r.Op, Reason: probe.Limit,
			Message: fmt.Sprintf("request %d is refused: at most %d run at the same time, each with its own number", r.ID, maxRunning)}})
		return
	}
	s.wg.Go(func() {
		answer := s.handle(ctx, r)
		cancel()
		s.mu.Lock()
		delete(s.running, r.ID)
		s.mu.Unlock()
		answer.ID = r.ID
		s.reply(answer)
	})
}

func (s *server) handle(ctx context.Context, r request) reply {
	switch {
	case r.Op == opListen && r.Listen != nil:
		return reply{Error: errorOf(r.Op, s.listen(*r.Listen))}
	case r.Op == opRun && r.Run != nil:
		run := *r.Run
		if r.Hold {
			run.Prepared = func(ctx context.Context) error { return s.hold(ctx, r.ID) }
		}
		out, err := probe.Run(ctx, run, func(p measurement.Progress) {
			s.progress(r.ID, p)
		})
		if err != nil {
			return reply{Error: errorOf(r.Op, err)}
		}
		out.ThinAmong(run.Pairs) // the reply of a test of thousands of flows must fit a frame
		return reply{Outcome: &out}
	}
	return reply{Error: &replyError{Op: r.Op, Reason: probe.Protocol, Message: fmt.Sprintf("unknown operation %q", r.Op)}}
}

// hold tells the coordinator that run id is prepared and waits for its start.
func (s *server) hold(ctx context.Context, id uint64) error {
	start := make(chan struct{})
	s.mu.Lock()
	s.held[id] = start
	s.mu.Unlock()
	s.write(protocol.TypeAgentPrepared, about{ID: id})
	select {
	case <-start:
		return nil
	case <-ctx.Done():
		s.mu.Lock()
		delete(s.held, id)
		s.mu.Unlock()
		return context.Cause(ctx)
	}
}

// release starts a held run. One that is not held has ended, or was never there.
func (s *server) release(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if start := s.held[id]; start != nil {
		delete(s.held, id)
		close(start)
	}
}

func errorOf(op string, err error) *replyError {
	if err == nil {
		return nil
	}
	if known, ok := errors.AsType[*probe.Error](err); ok {
		return &replyError{Op: known.Op, Reason: known.Reason, Message: known.Err.Error()}
	}
	return &replyError{Op: op, Reason: probe.Failed, Message: err.Error()}
}

// listen starts a server that lives as long as the control connection.
func (s *server) listen(r listenRequest) error {
	if r.Address.Port() == 0 {
		return errors.New("listen: give a port")
	}
	// The coordinator decides what is measured; its clients are its own agents.
	server, err := probe.NewServer(probe.ServerOptions{
		Token: r.Token, Log: s.opts.Log, IPerf3Open: r.IPerf3Open,
		MaxConnections: 4 * probe.MaxFlows, MaxFlows: maxTestFlows, MaxDuration: 3 * probe.MaxDuration,
		Unshared: true, Spin: true,
	})
	if err != nil {
		return err
	}
	var config net.ListenConfig
	tcp, err := config.Listen(s.ctx, "tcp", r.Address.String())
	if err != nil {
		return err
	}
	ln, err := server.Bind(tcp)
	if err != nil {
		return err
	}
	s.wg.Go(func() {
		if err := ln.Serve(s.ctx); err != nil {
			s.opts.Log.Error("server ended", "address", r.Address.String(), "error", err)
		}
	})
	return nil
}

// reply ends a request. A number that JSON cannot carry must not take the
// connection with it, nor one in a sign of life.
func (s *server) reply(r reply) {
	if r.Outcome != nil {
		r.Outcome.KeepFinite()
	}
	s.write(protocol.TypeAgentReply, r)
}

func (s *server) progress(id uint64, p measurement.Progress) {
	p, _ = measurement.OnlyFinite(p)
	s.write(protocol.TypeAgentProgress, progress{ID: id, Progress: p})
}

// write sends one frame. A coordinator that no longer reads ends the agent:
// the connection is closed, and the reading side notices.
func (s *server) write(t protocol.Type, v any) {
	s.writing.Lock()
	defer s.writing.Unlock()
	err := protocol.WriteFrame(s.control, t, v)
	if err == nil || s.ctx.Err() != nil {
		return
	}
	s.opts.Log.Error("control connection", "error", err)
	_ = s.control.Close() // the reading side reports the end
}
