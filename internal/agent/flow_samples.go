package agent

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hopbench/hopbench/internal/fleet/samples"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/sampling"
)

// Kept is what a coordinator says of an agent's samples: those up to a block are on its
// disk.
type Kept struct {
	// Run is the one that it keeps samples of: an agent has no use for those of another.
	Run string `json:"run"`
	// Seq is the highest that is on the disk, of those that came over this connection; 0
	// before there is one.
	Seq int64 `json:"seq"`
	// Credit is how many bytes may be sent and not be on the disk.
	Credit int `json:"credit_bytes"`
}

const (
	// fewFlows are sampled every fineStep, more every coarseStep, so that a block of a
	// second has some hundred samples.
	fewFlows   = 16
	fineStep   = 100 * time.Millisecond
	coarseStep = time.Second
	// blockEvery is how often a block is made of what was sampled.
	blockEvery = time.Second
	// maxRun bounds the name of a run.
	maxRun = 255
)

// A samples frame begins with a byte that says whether the agent has more blocks, for which
// it has no credit. A block follows, or nothing where that has changed since the last one.
const (
	noMore byte = iota
	more
)

// flowWatch samples the flows of one test into the outbox.
type flowWatch struct {
	server  *server
	trial   string
	sampled probe.Sampled
	step    time.Duration
	flows   []probe.ReadFlow
	last    []probe.FlowCount
	lastAt  time.Duration // when last was read, since the start
	pending []samples.Sample
	filled  time.Duration // when pending was begun
}

// sample has the samples of a test go to the coordinator, if it asks for them.
func (s *server) sample(run *probe.Request) error {
	if run.Sampled == nil {
		return nil
	}
	if s.opts.Samples == nil || run.Sampled.Seat < 1 || run.Sampled.Attempt < 1 {
		return &probe.Error{Op: opRun, Reason: probe.Unsupported, Err: errors.New("only agents that joined a fleet keep samples, each of a seat and an attempt from 1")}
	}
	run.Watch = func(start time.Time, flows []probe.ReadFlow) func() {
		w := &flowWatch{server: s, trial: run.ID, sampled: *run.Sampled, step: fineStep, flows: flows, last: make([]probe.FlowCount, len(flows))}
		if len(flows) > fewFlows {
			w.step = coarseStep
		}
		var ended atomic.Bool
		sampler := sampling.Start(w.step, func() {
			if at := time.Since(start); at-w.lastAt > w.step/2 && !ended.Load() { // not the moment that it began
				w.read(at)
			}
		})
		return func() {
			ended.Store(true)
			sampler.End()
			w.readAlone(time.Since(start)) // the last is as short as it is
		}
	}
	return nil
}

// read takes a sample of each flow, and makes a block where it is time.
func (w *flowWatch) read(at time.Duration) {
	// This machine stood still, or does not any more. What is long has a block of its own anyway.
	if took := at - w.lastAt; max(took, w.step) >= blockEvery && (took-w.step).Abs() > w.step/10 {
		w.readAlone(at)
		return
	}
	w.count(at)
	if at-w.filled >= blockEvery {
		w.filled = at
		w.flush(w.step)
	}
}

// readAlone takes a sample of each flow that has a length of its own, and so a block of its own.
func (w *flowWatch) readAlone(at time.Duration) {
	w.flush(w.step)
	took := max(at-w.lastAt, 1)
	w.count(at)
	w.filled = at
	w.flush(took)
}

// count adds what each flow counted since it was read last.
func (w *flowWatch) count(at time.Duration) {
	for i, read := range w.flows {
		now, known := read()
		if !known {
			continue
		}
		last := w.last[i]
		w.pending = append(w.pending, samples.Sample{
			At: w.lastAt, Flow: i + 1, Bytes: max(now.Bytes-last.Bytes, 0), RTT: now.RTT,
			CongestionWindow: now.CongestionWindow, Retransmits: max(now.Retransmits-last.Retransmits, 0),
		})
		w.last[i] = now
	}
	w.lastAt = at
}

// flush makes a block of steps of a length, and sends what there is credit for.
func (w *flowWatch) flush(step time.Duration) {
	if err := w.server.opts.Samples.Add(w.trial, w.sampled.Seat, w.sampled.Attempt, step, w.pending); err != nil {
		w.server.opts.Log.Error("samples are left out", "trial", w.trial, "error", err)
	}
	w.pending = w.pending[:0]
	w.server.sendSamples()
}

// kept takes what the coordinator says of the samples that it got.
func (s *server) kept(payload []byte) error {
	var k Kept
	if err := parse("kept", payload, &k); err != nil {
		return err
	}
	if s.opts.Samples == nil {
		return fmt.Errorf("%w: this agent sends no samples", protocol.ErrMalformed)
	}
	if k.Run == "" || len(k.Run) > maxRun {
		return fmt.Errorf("%w: samples of a run without a name", protocol.ErrMalformed)
	}
	if s.opts.Samples.Begin(k.Run) {
		s.sending.Lock()
		s.late = nil // nobody wants those of another run
		s.sending.Unlock()
	}
	if err := s.opts.Samples.Acknowledge(k.Seq, k.Credit); err != nil {
		return fmt.Errorf("%w: %w", protocol.ErrMalformed, err)
	}
	s.sending.Lock()
	first := !s.wanted
	s.wanted = true
	s.sending.Unlock()
	s.sendSamples()
	if first {
		s.sendLate()
	}
	return nil
}

// sendSamples sends blocks as long as there is credit. It never waits for the coordinator.
func (s *server) sendSamples() {
	s.sending.Lock() // so that they are sent in the order of their numbers
	defer s.sending.Unlock()
	if !s.wanted {
		return
	}
	for {
		b, ok := s.opts.Samples.Next()
		if !ok {
			break
		}
		s.waiting = noMore
		if s.opts.Samples.Waiting() {
			s.waiting = more
		}
		s.writeSamples(b.Data)
	}
	if s.waiting == noMore && s.opts.Samples.Waiting() { // what came since, without credit
		s.waiting = more
		s.writeSamples(nil)
	}
}

// writeSamples sends a block, or nil to say no more than whether there are others. The caller
// holds the lock.
func (s *server) writeSamples(block []byte) {
	s.writeFrame(func() error {
		return protocol.WriteBytes(s.control, protocol.TypeAgentSamples, []byte{s.waiting}, block)
	})
}

// TakeSamples has take get each block of samples that the agent sends, from one goroutine,
// which must not wait; more says that the agent has others, for which it has no credit. It
// sends none before the first SayKept. The zero Block is none, and says more alone. An error
// ends the connection.
func (c *Client) TakeSamples(take func(b samples.Block, more bool) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.take = take
}

// SayKept tells the agent which of its samples are kept, and how many it may send.
func (c *Client) SayKept(k Kept) error { return c.write(protocol.TypeAgentKept, k) }

// Refuse ends the connection for a reason, without waiting: what the agent sends cannot be
// believed.
func (c *Client) Refuse(why error) { c.end(why) }

// samples takes a samples frame.
func (c *Client) samples(payload []byte) error {
	c.mu.Lock()
	take := c.take
	c.mu.Unlock()
	if take == nil || len(payload) == 0 || payload[0] > more {
		return fmt.Errorf("%w: samples that nobody asked for", protocol.ErrMalformed)
	}
	if len(payload) == 1 {
		return take(samples.Block{}, payload[0] == more)
	}
	b, err := samples.Read(payload[1:])
	if err != nil {
		return fmt.Errorf("%w: %w", protocol.ErrMalformed, err)
	}
	return take(b, payload[0] == more)
}
