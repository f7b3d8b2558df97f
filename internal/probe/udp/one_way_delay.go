package udp

import (
	"fmt"
	"time"

	"github.com/hopbench/hopbench/internal/clock"
	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/datagram"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/quantity"
)

// clockAt says when START was at this end, by the clock of its machine, where that is
// known. The times that count from START may be wrong by more, and by a step of the clock,
// as may the stamps be.
func clockAt(start time.Time, more time.Duration) *protocol.Clock {
	more += 2 * clock.Step()
	c := &protocol.Clock{Uncertainty: measurement.SecondsOf(more)}
	id := hostinfo.ClockID()
	if at, uncertainty, ok := clock.System(start); ok && id != "" {
		c.ID, c.Start, c.Uncertainty = id, int64(at), measurement.SecondsOf(uncertainty+more)
	}
	return c
}

// stampResolution is by how much a sender's or a receiver's time of a packet may be off
// besides, in seconds.
const stampResolution = 1e-6

// fillOneWay sets the one-way delays (RFC 7679) of a test where they are known.
func (t *test) fillOneWay(out *measurement.Outcome) {
	if one := t.byOneClock(); one != nil {
		one.Fill(out.Metrics)
		return
	}
	out.OneWay = t.byStamps()
	if out.OneWay != nil && !out.OneWay.Fill(out.Metrics) {
		out.OneWay = nil
		t.lacksOneWay("by the stamps of the two ends packets arrived before they were sent")
	}
}

// byOneClock is that of ends that have a clock in common, nil of others.
func (t *test) byOneClock() *measurement.OneWay {
	var all measurement.OneWay
	for i, f := range t.flows {
		p, from, to := f.received.Packets, f.sent.Clock, f.received.Clock
		if p.ClockStepped || p.Received == 0 || from == nil || to == nil || from.ID == "" || from.ID != to.ID {
			return nil
		}
		all.Include(i == 0, delaysOf(p, time.Duration(to.Start-from.Start)), from.Uncertainty+to.Uncertainty+stampResolution)
	}
	return &all
}

// delaysOf are those of a flow's packets, with what the receiver's times are to be later
// by.
func delaysOf(p *protocol.Packets, later time.Duration) measurement.Delays {
	least := p.LeastDelay + measurement.SecondsOf(later)
	return measurement.Delays{Least: least, Median: least + p.DelayMedian, P99: least + p.DelayVariation}
}

// byStamps is that of ends whose clocks are known by the stamps that they exchanged, nil
// where they are not.
func (t *test) byStamps() *measurement.OneWay {
	first := t.flows[0]
	if first.Ready.ClockID == "" {
		t.lacksOneWay("the destination answers no stamps of its clock; a later version of hopbench does")
	}
	if !datagram.NeedStamps(first.Ready) {
		return nil
	}
	// From the first packet of the measured time to the last that came.
	from, to := t.req.Spec.MaxWarmup.Duration(), t.ended.Sub(t.start)
	least, most, ok := clock.Bounds(t.exchanges, from, to)
	switch {
	case len(t.exchanges) == 0:
		t.lacksOneWay("the destination answered none of the stamps that were sent over UDP")
		return nil
	case !ok:
		t.lacksOneWay("a clock of the two ends jumped during the test")
		return nil
	}
	server := first.served()
	if server == nil {
		t.lacksOneWay("the destination does not say when it began by its clock")
		return nil
	}
	reference := server.Stamped
	all := &measurement.OneWay{
		From: measurement.SecondsOf(from), To: measurement.SecondsOf(to), Exchanges: len(t.exchanges),
		AheadLeast: measurement.SecondsOf(least - time.Duration(reference)), AheadMost: measurement.SecondsOf(most - time.Duration(reference)),
		ToSource: !t.sends(),
	}
	if !datagram.Translated(t.req.Target, first.Ready) {
		all.DestinationStarted = reference
	}
	for i, f := range t.flows {
		p, its := f.received.Packets, f.served()
		if p.ClockStepped || p.Received == 0 || its == nil || string(f.Ready.Cookie) != string(first.Ready.Cookie) {
			t.lacksOneWay("not all flows ended at the server whose clock is known")
			return nil
		}
		later := time.Duration(its.Stamped - reference)
		if all.ToSource {
			later = -later
		}
		all.Include(i == 0, delaysOf(p, later), f.sent.Clock.Uncertainty+f.received.Clock.Uncertainty+stampResolution)
	}
	t.facts = session.AppendNew(t.facts, fmt.Sprintf("one-way delay: the clocks of the two ends were compared by %s of stamps over the path; what that leaves open is half of what the fastest ones took there and back, and what the clocks drifted",
		quantity.Count(len(t.exchanges), "exchange")))
	return all
}

// served is what the server says of its clock.
func (f *flow) served() *protocol.Clock {
	if f.send != nil {
		return f.received.Clock
	}
	return f.sent.Clock
}

// lacksOneWay says why there is no one-way delay.
func (t *test) lacksOneWay(why string) {
	t.facts = session.AppendNew(t.facts, "no one-way delay: "+why)
}
