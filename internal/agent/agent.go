// Package agent is the process at an endpoint: in a node of a lab, or on a
// host. One coordinator drives it over one control connection, with the
// frames of package protocol: the agent listens as a test's far end, and runs
// tests as their near end. When the control
// connection ends, or its coordinator is silent for a lease, so does everything that the
// agent does.
package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/clock"
	"github.com/hopbench/hopbench/internal/fleet/samples"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/protocol"
)

// Options of an agent. The zero value is that of an agent in a lab, whose coordinator is
// on this machine and has the same rights.
type Options struct {
	// Log gets what servers refuse; nil discards it.
	Log *slog.Logger
	// Lease, unless 0, is how long the agent goes on without hearing of its
	// coordinator, which is at the other end of a network then and not believed
	// more than it has to be: it says hello first, its tests keep to Limits, and load
	// goes only where the token was proved, or to AllowTargets.
	Lease        time.Duration
	Limits       probe.Limits
	AllowTargets []netip.Prefix
	// Claim, unless nil, says why a coordinator that names itself so may not have this
	// agent, or what lets its host go when the agent ends.
	Claim func(ctx context.Context, coordinator string) (release func(), err error)
	// Samples, unless nil, holds the samples and results of tests until the coordinator has
	// them on its disk. It outlives the connection.
	Samples *samples.Outbox
	// Simulated, unless nil, does what an agent does besides speaking with its coordinator.
	Simulated *Simulation
}

// Simulation stands for a machine: what it says of itself, its clock and its tests. It
// listens nowhere.
type Simulation struct {
	Hello Hello // as far as it is the machine's
	Clock Clock
	Run   func(context.Context, probe.Request, func(measurement.Progress)) (measurement.Outcome, error)
	Prove func(context.Context, probe.Request) (probe.Proof, error)
}

// Clock is the clock of an agent, a clock.Monotonic.
type Clock interface {
	Now() time.Duration
	Of(t time.Time) time.Duration
	Moment(d time.Duration) time.Time
}

// server is an agent at work.
type server struct {
	opts    Options
	control io.ReadWriteCloser
	clock   Clock
	ctx     context.Context //nolint:containedctx // it lives as long as the one connection
	cancel  context.CancelCauseFunc
	wg      sync.WaitGroup
	// greeted and letGo, which may be nil, are of the reading goroutine.
	greeted bool
	letGo   func()
	// probeRun and probeProve are those of package probe, but in a simulation.
	probeRun   func(context.Context, probe.Request, func(measurement.Progress)) (measurement.Outcome, error)
	probeProve func(context.Context, probe.Request) (probe.Proof, error)

	writing sync.Mutex
	sending sync.Mutex       // of samples, and what was said of them
	wanted  bool             // the coordinator has said what it keeps
	waiting byte             // what it was told last
	late    []samples.Result // of earlier connections, that the coordinator is to have

	standstills *clock.Standstills // nil of a simulation

	mu        sync.Mutex
	running   map[uint64]context.CancelFunc
	held      map[uint64]chan time.Duration // prepared runs; gets when to start, 0 for at once
	listening map[netip.AddrPort]*listening
	proven    map[netip.Addr]struct{}
	addresses map[netip.Addr]struct{} // that this host had
}

// Serve does what the coordinator at the other end of control asks, until
// control or ctx ends, or the lease. It then ends its servers and tests, waits for them,
// and closes control. It returns nil when the coordinator closed the connection or
// ctx ended, and an error when the connection failed or carried nonsense, or the
// coordinator was silent for the lease.
func Serve(ctx context.Context, control io.ReadWriteCloser, o Options) error {
	return newServer(ctx, control, o).serve(ctx)
}

func newServer(ctx context.Context, control io.ReadWriteCloser, o Options) *server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	inner, cancel := context.WithCancelCause(ctx)
	s := &server{
		opts: o, control: control, clock: clock.Start(), ctx: inner, cancel: cancel,
		running: map[uint64]context.CancelFunc{}, held: map[uint64]chan time.Duration{},
		listening: map[netip.AddrPort]*listening{}, proven: map[netip.Addr]struct{}{}, addresses: map[netip.Addr]struct{}{},
		probeRun: probe.Run, probeProve: probe.Prove,
	}
	if m := o.Simulated; m != nil {
		s.clock, s.probeRun, s.probeProve = m.Clock, m.Run, m.Prove
	}
	return s
}

func (s *server) serve(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = s.control.Close() })
	defer stop()
	if s.opts.Samples != nil {
		s.opts.Samples.Reconnected()
		s.late = s.opts.Samples.Results()
	}
	if s.opts.Simulated == nil {
		s.standstills = clock.WatchStandstills()
		defer s.standstills.Close()
	}
	from := &heard{from: s.control}
	if s.opts.Lease > 0 {
		stop := from.watch(s.opts.Lease, s.expire)
		defer stop()
	}
	err := s.read(from)
	s.cancel(nil)
	// Wakes whoever is still writing to a coordinator that reads no more.
	closed := s.control.Close()
	s.wg.Wait()
	if s.letGo != nil {
		s.letGo()
	}
	if silent := context.Cause(s.ctx); errors.Is(silent, errSilent) {
		return silent
	}
	if ctx.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	return fmt.Errorf("control connection: %w", errors.Join(err, closed))
}

func (s *server) read(from io.Reader) error {
	for {
		t, payload, err := protocol.ReadFrame(from, maxRequest)
		if err != nil {
			return err
		}
		now := s.clock.Now()
		switch t {
		case protocol.TypeAgentRequest:
			r, err := parseRequest(payload)
			if err != nil {
				return err
			}
			s.begin(r)
		case protocol.TypeAgentCancel:
			var a about
			if err := parse("cancel", payload, &a); err != nil {
				return err
			}
			s.mu.Lock()
			if cancel := s.running[a.ID]; cancel != nil {
				cancel()
			}
			s.mu.Unlock()
		case protocol.TypeAgentStart:
			var at startAt
			if err := parse("start", payload, &at); err != nil {
				return err
			}
			if at.At != 0 && (at.At < 0 || at.At-now > maxStart) {
				return fmt.Errorf("%w: a start at %v, more than %v from now", protocol.ErrMalformed, at.At, maxStart)
			}
			s.release(at)
		case protocol.TypeAgentClock:
			var x stamps
			if err := parse("clock", payload, &x); err != nil {
				return err
			}
			// From this goroutine: nothing else to wait for than a frame that is
			// being written.
			s.write(protocol.TypeAgentClock, stamps{Sent: x.Sent, At: now})
		case protocol.TypeAgentKept:
			if err := s.kept(payload); err != nil {
				return err
			}
		case protocol.TypeAgentSettled:
			if err := s.settled(payload); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%w: frame of type %#x", protocol.ErrMalformed, byte(t))
		}
	}
}

// maxStart is how far ahead a start may be.
const maxStart = time.Minute

// begin answers r from a goroutine of its own.
func (s *server) begin(r request) {
	if s.opts.Lease > 0 && !s.greeted {
		// Before anything else is believed of what a coordinator of another version
		// says.
		if r.Op != opHello || r.Hello == nil || checkVersions(*r.Hello) != nil {
			s.reply(reply{ID: r.ID, Error: s.refuseStranger(r)})
			return
		}
		if err := s.claim(r.Hello.Coordinator); err != nil {
			s.reply(reply{ID: r.ID, Error: errorOf(r.Op, err)})
			return
		}
		s.greeted = true
	}
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
	s.writeFrame(func() error { return protocol.WriteFrame(s.control, t, v) })
}

func (s *server) writeFrame(do func() error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	err := do()
	if err == nil || s.ctx.Err() != nil {
		return
	}
	s.opts.Log.Error("control connection", "error", err)
	_ = s.control.Close() // the reading side reports the end
}
