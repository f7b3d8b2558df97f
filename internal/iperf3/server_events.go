package iperf3

import (
	"errors"
	"net/netip"
	"time"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/measurement"
)

// Event is the beginning or the end of one test at a server.
type Event struct {
	Client    netip.Addr
	UDP       bool
	Direction measurement.Direction // as the client sees it
	Streams   int                   // in each direction
	// Duration is 0 when bytes or blocks end the test.
	Duration, Omit time.Duration
	// Rate of all streams of a direction, in bit/s; 0 is not bounded.
	Rate float64
	// Ended tells the end, and the fields below belong to it.
	Ended    bool
	Elapsed  time.Duration
	Bytes    int64 // of payload that moved at this end
	Err      error
	Vanished bool // Err is the client's closing of its connection
}

// announce tells of the test's beginning and returns what tells of its end.
func (t *session) announce() (ended func(error)) {
	tell := t.server.opts.OnTest
	p, began := t.params, time.Now()
	e := Event{
		Client: admission.Address(t.client.Addr()), UDP: bool(p.UDP), Direction: measurement.Send, Streams: int(p.Parallel),
		Duration: p.length(), Omit: p.omit(), Rate: p.Rate * p.Parallel,
	}
	switch {
	case bool(p.Reverse):
		e.Direction = measurement.Receive
	case bool(p.Bidirectional):
		e.Direction = measurement.Both
	}
	tell(e)
	return func(err error) {
		e.Ended, e.Elapsed, e.Err, e.Vanished = true, time.Since(began), err, errors.Is(err, errVanished)
		t.mu.Lock()
		for _, s := range t.streams {
			e.Bytes += s.bytes.Load()
		}
		t.mu.Unlock()
		tell(e)
	}
}
