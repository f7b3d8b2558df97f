package agent

import (
	"encoding/json"
	"fmt"

	"github.com/hopbench/hopbench/internal/fleet/samples"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/protocol"
)

// SeatResult is what a test brought whose connection ended before its coordinator had kept
// that: it is of a trial that is over.
type SeatResult struct {
	samples.Key
	Outcome measurement.Outcome
}

// resultHeader is more than what a result has besides its outcome, in bytes.
const resultHeader = 4 << 10

// holdResult keeps what a test of a fleet brought until the coordinator has it on its disk,
// over whichever connection.
func (s *server) holdResult(run probe.Request, out measurement.Outcome) {
	if run.Sampled == nil {
		return
	}
	out.KeepFinite()
	text, err := json.Marshal(out)
	if err != nil || len(text) > protocol.MaxAgentReply-resultHeader {
		s.opts.Log.Error("a result is not kept beyond its connection", "trial", run.ID, "bytes", len(text), "error", err)
		return
	}
	s.opts.Samples.Finished(samples.Result{
		Key: samples.Key{Trial: run.ID, Seat: run.Sampled.Seat, Attempt: run.Sampled.Attempt}, Outcome: text,
	})
}

// sendLate sends the first result of those of earlier connections. The next follows once it
// is kept, so that no more than one is on its way.
func (s *server) sendLate() {
	s.sending.Lock()
	defer s.sending.Unlock()
	if len(s.late) > 0 {
		s.write(protocol.TypeAgentResult, s.late[0])
	}
}

// settled lets go of a result that the coordinator has on its disk.
func (s *server) settled(payload []byte) error {
	var of samples.Key
	if err := parse("settled", payload, &of); err != nil {
		return err
	}
	if s.opts.Samples == nil {
		return fmt.Errorf("%w: this agent keeps no results", protocol.ErrMalformed)
	}
	s.opts.Samples.Settled(of)
	s.sending.Lock()
	next := len(s.late) > 0 && s.late[0].Key == of
	if next {
		s.late = s.late[1:]
	}
	s.sending.Unlock()
	if next {
		s.sendLate()
	}
	return nil
}

// TakeResults has take get each result of an earlier connection that the agent sends, from one
// goroutine, which must not wait. It sends none before the first SayKept, and the next after
// SaySettled of the one before. An error ends the connection.
func (c *Client) TakeResults(take func(SeatResult) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.takeResult = take
}

// SaySettled tells the agent that what a test brought is kept.
func (c *Client) SaySettled(of samples.Key) error {
	return c.write(protocol.TypeAgentSettled, of)
}

// result takes a result frame.
func (c *Client) result(payload []byte) error {
	c.mu.Lock()
	take := c.takeResult
	c.mu.Unlock()
	if take == nil {
		return fmt.Errorf("%w: a result that nobody asked for", protocol.ErrMalformed)
	}
	var r struct {
		samples.Key
		Outcome *measurement.Outcome `json:"outcome"`
	}
	if err := protocol.DecodeAgent(payload, &r); err != nil {
		return err
	}
	if r.Trial == "" || r.Seat < 1 || r.Attempt < 1 || r.Outcome == nil {
		return fmt.Errorf("%w: a result of no test", protocol.ErrMalformed)
	}
	return take(SeatResult{Key: r.Key, Outcome: *r.Outcome})
}
