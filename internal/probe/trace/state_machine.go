package trace

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
)

// verdict is what an answer says about the hop that sent it.
type verdict int

const (
	passing  verdict = iota // a router on the way
	arrived                 // the destination itself
	rejected                // the path ends here with an ICMP error
)

// answer is one answer to a probe.
type answer struct {
	id        int // of the probe
	from      netip.Addr
	at        time.Time
	verdict   verdict
	icmp      bool // typ, code and mtu are set
	typ, code uint8
	mtu       uint32
}

// The pace of a trace. Probes go a few hops ahead of the answers and, where
// none come, one more every openEvery, so that thirty silent hops cost little
// more than one timeout and a near destination is not asked by thirty probes.
const (
	ahead     = 3
	openEvery = 5 * time.Millisecond
)

// Once the destination answered, hops before it are given a multiple of its
// round trip and no less than these floors; routers answer slower than they
// forward, but not by that much. The timeout stays the upper bound.
const (
	retryFactor, giveUpFactor = 3, 10
	leastRetry                = 10 * time.Millisecond
	leastGiveUp               = 50 * time.Millisecond
)

type probe struct {
	ttl  int
	sent time.Time
}

type hop struct {
	sends       int
	first, last time.Time
	answer      answer
	answered    bool
	rtt         time.Duration
}

// machine decides what to send when, and when a trace is over. It is pure:
// the time comes from its caller.
type machine struct {
	timeout time.Duration
	probes  []probe
	hops    []hop // by time to live, from 1
	opened  int   // hops that were probed
	highest int   // the furthest hop that answered
	last    int   // the hop the path ends at, 0 while unknown
	lastRTT time.Duration
	opening time.Time // when the last hop was opened
}

func newMachine(maxHops int, timeout time.Duration) *machine {
	return &machine{timeout: timeout, hops: make([]hop, maxHops)}
}

// step says what to do: probe ttl now or, when that is 0, wait until a time
// or stop.
type step struct {
	ttl   int
	until time.Time
	done  bool
}

// limit is the number of hops that matter.
func (m *machine) limit() int {
	if m.last > 0 {
		return m.last
	}
	return len(m.hops)
}

func (m *machine) next(now time.Time) step {
	wait := step{done: true}
	until := func(t time.Time) {
		if wait.done || t.Before(wait.until) {
			wait.until = t
		}
		wait.done = false
	}
	for i := range min(m.opened, m.limit()) {
		h := &m.hops[i]
		if h.answered {
			continue
		}
		retry, giveUp := m.patience(h)
		switch {
		case h.sends == 1 && !now.Before(retry):
			return step{ttl: i + 1}
		case h.sends == 1:
			until(retry)
		case now.Before(giveUp):
			until(giveUp)
		}
	}
	if m.opened < m.limit() {
		due := m.opening.Add(openEvery)
		if m.opened < m.highest+ahead || !now.Before(due) {
			return step{ttl: m.opened + 1}
		}
		until(due)
	}
	return wait
}

// patience says when to probe a hop again and when to give it up.
func (m *machine) patience(h *hop) (retry, giveUp time.Time) {
	retry = h.first.Add(m.timeout / 3)
	giveUp = h.first.Add(m.timeout)
	if m.last > 0 {
		retry = earlier(retry, h.first.Add(max(retryFactor*m.lastRTT, leastRetry)))
		giveUp = earlier(giveUp, h.last.Add(max(giveUpFactor*m.lastRTT, leastGiveUp)))
	}
	return retry, giveUp
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// sending notes a probe and returns its number.
func (m *machine) sending(ttl int, now time.Time) int {
	h := &m.hops[ttl-1]
	if h.sends == 0 {
		h.first = now
		m.opened, m.opening = ttl, now
	}
	h.sends++
	h.last = now
	m.probes = append(m.probes, probe{ttl, now})
	return len(m.probes) - 1
}

func (m *machine) take(a answer) {
	if a.id < 0 || a.id >= len(m.probes) {
		return
	}
	p := m.probes[a.id]
	h := &m.hops[p.ttl-1]
	if h.answered || a.at.Sub(p.sent) > m.timeout {
		return
	}
	h.answered, h.answer, h.rtt = true, a, a.at.Sub(p.sent)
	m.highest = max(m.highest, p.ttl)
	if a.verdict != passing && (m.last == 0 || p.ttl < m.last) {
		m.last, m.lastRTT = p.ttl, h.rtt
	}
}

// result lists the hops up to the end of the path, or all that were probed
// when it was not found.
func (m *machine) result() []measurement.TraceHop {
	var out []measurement.TraceHop
	for i := range min(m.opened, m.limit()) {
		h := &m.hops[i]
		t := measurement.TraceHop{TTL: i + 1}
		if h.answered {
			t.Address = h.answer.from.String()
			t.RTT = measurement.SecondsOf(h.rtt)
			t.Reached = h.answer.verdict == arrived
		}
		out = append(out, t)
	}
	return out
}

func (m *machine) facts(v6 bool) []string {
	var facts []string
	for i := range min(m.opened, m.limit()) {
		h := &m.hops[i]
		if h.answered && h.answer.icmp && (h.answer.verdict == rejected || h.answer.mtu > 0) {
			facts = append(facts, describe(v6, i+1, h.answer))
		}
	}
	switch {
	case m.last == 0 && m.highest == 0:
		facts = append(facts, fmt.Sprintf("no hop answered any of %d probes within %v", len(m.probes), m.timeout))
	case m.last == 0:
		facts = append(facts, fmt.Sprintf("the destination did not answer within %v, the timeout; the last hop that did was %d of %d probed", m.timeout, m.highest, m.opened))
	case m.hops[m.last-1].answer.verdict == rejected:
		facts = append(facts, "the destination was not reached")
	}
	return facts
}
