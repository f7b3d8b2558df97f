package main

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/protocol"
)

// plantedClock is the clock that an agent seems to have: so far ahead of its real one at a
// moment, and gaining so many seconds a second.
type plantedClock struct {
	began time.Duration // by the real clock
	ahead time.Duration
	drift float64
}

// shows is what it shows when the real one shows t, and real the reverse.
func (c plantedClock) shows(t time.Duration) time.Duration {
	return t + c.ahead + time.Duration(c.drift*float64(t-c.began))
}

func (c plantedClock) real(t time.Duration) time.Duration {
	return c.began + time.Duration(float64(t-c.ahead-c.began)/(1+c.drift))
}

// relay is a control connection to an agent that has another clock, as far as its
// coordinator can tell: the stamps in frames are rewritten on the way. All processes of
// this machine have the same real clock.
type relay struct {
	plantedClock
	far    io.ReadWriteCloser
	answer *io.PipeReader
	order  *io.PipeWriter
	done   sync.WaitGroup

	mu   sync.Mutex
	last time.Duration // when the last test started, by the real clock
}

// newRelay begins to pass frames on; far is closed with the relay.
func newRelay(c plantedClock, far io.ReadWriteCloser) *relay {
	r := &relay{plantedClock: c, far: far}
	var answers *io.PipeWriter
	var orders *io.PipeReader
	r.answer, answers = io.Pipe()
	orders, r.order = io.Pipe()
	r.done.Go(func() { orders.CloseWithError(r.pass(far, orders, r.ordered)) })
	r.done.Go(func() { answers.CloseWithError(r.pass(answers, far, r.answered)) })
	return r
}

func (r *relay) Read(b []byte) (int, error)  { return r.answer.Read(b) }
func (r *relay) Write(b []byte) (int, error) { return r.order.Write(b) }

// Close ends the agent's standard input, and with it the agent.
func (r *relay) Close() error {
	_ = r.order.Close() // a pipe in memory closes
	err := r.far.Close()
	_ = r.answer.Close()
	r.done.Wait()
	return err
}

// started is when the agent's last test did, by the real clock.
func (r *relay) started() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// pass copies frames, rewritten, until one end is closed.
func (r *relay) pass(to io.Writer, from io.Reader, rewrite func(protocol.Type, map[string]json.RawMessage) error) error {
	for {
		t, payload, err := protocol.ReadFrame(from, protocol.MaxAgentReply)
		if err != nil {
			return err
		}
		fields := map[string]json.RawMessage{}
		if err := json.Unmarshal(payload, &fields); err != nil {
			return err
		}
		if err := rewrite(t, fields); err != nil {
			return err
		}
		if err := protocol.WriteFrame(to, t, fields); err != nil {
			return err
		}
	}
}

// ordered rewrites a coordinator's frame: when to start is by the planted clock.
func (r *relay) ordered(t protocol.Type, fields map[string]json.RawMessage) error {
	if t == protocol.TypeAgentStart {
		return change(fields, "at_nanoseconds", r.real)
	}
	return nil
}

// answered rewrites an agent's frame.
func (r *relay) answered(t protocol.Type, fields map[string]json.RawMessage) error {
	switch t {
	case protocol.TypeAgentClock:
		return change(fields, "at_nanoseconds", r.shows)
	case protocol.TypeAgentReply:
		return change(fields, "stamp_nanoseconds", func(at time.Duration) time.Duration {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.last = at
			return r.shows(at)
		})
	}
	return nil
}

// change rewrites a time, where there is one.
func change(fields map[string]json.RawMessage, name string, by func(time.Duration) time.Duration) (err error) {
	raw, ok := fields[name]
	if !ok {
		return nil
	}
	var at time.Duration
	if err := json.Unmarshal(raw, &at); err != nil {
		return fmt.Errorf("%s of a frame: %w", name, err)
	}
	fields[name], err = json.Marshal(by(at))
	return err
}
