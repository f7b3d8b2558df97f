package icmp

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/icmp/wire"
	"github.com/hopbench/hopbench/internal/probe/latency"
)

// conn sends echo requests and gathers what comes back. It is used by one
// goroutine.
type conn interface {
	// send sends request index; it may wait for room in a socket buffer.
	send(index int) error
	// wait blocks until something arrives, the time has come or the context
	// ended, and appends what arrived.
	wait(until time.Time, events []event) ([]event, error)
	// socket names the kind of socket.
	socket() string
	close() error
}

// event is something that came back.
type event struct {
	what     what
	sequence uint16 // of replies and errors
	index    int    // of transmit timestamps
	// at is when this process saw it, kernel when the kernel did, on the wall
	// clock; zero when unknown.
	at, kernel time.Time
	// took is the round trip by a clock that ticks finer than at, 0 where there is
	// none.
	took    time.Duration
	ttl     int
	failure failure // of errors
	err     error   // of requests that were not sent
}

type what int

const (
	replied what = iota
	refused
	transmitted
	notSent // as the system said only after send
)

// failure is an ICMP error: who sent it, and what it said.
type failure struct {
	from      netip.Addr
	typ, code uint8
	mtu       uint32 // of the link that was too narrow
}

type state uint8

const (
	unsent state = iota
	pending
	answered
	lost
	tooLate  // answered after the timeout, and counted as lost
	rejected // by an ICMP error
	unsendable
)

// echo is one request's fate.
type echo struct {
	sent  time.Time // when this process handed it to the kernel
	left  time.Time // when the kernel handed it to the device; wall clock
	state state
	again bool // it was answered more than once
}

// session is the bookkeeping of one run: pure but for the conn it drives.
type session struct {
	plan  plan
	conn  conn
	echos []echo
	// sent and waiting count requests, oldest is the first that may be open.
	sent, waiting, oldest int

	rtts    *latency.Recorder
	lastRTT time.Duration
	lastAt  time.Time
	// highest is the greatest index answered so far.
	highest                                   int
	late, duplicate, reordered, foreign       int
	both, receiveOnly, userSpace, implausible int
	ttl, ttlChanges                           int
	firstTTL                                  int
	failures                                  map[failure]int
	sendErrors                                map[string]int
	sendErr                                   error         // the last
	behind                                    time.Duration // the worst lag behind the schedule
}

func newSession(p plan, c conn) *session {
	return &session{
		plan: p, conn: c, highest: -1,
		echos:      make([]echo, p.count),
		rtts:       latency.New(),
		failures:   map[failure]int{},
		sendErrors: map[string]int{},
	}
}

const (
	progressEvery = 100 * time.Millisecond
	// freshFor is how long a round trip is told of: who watches sees none that nobody answers.
	freshFor = time.Second
)

func (s *session) run(ctx context.Context, progress func(measurement.Progress)) error {
	start := time.Now()
	report := start.Add(progressEvery)
	var events []event
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		now := time.Now()
		for s.sent < s.plan.count && !now.Before(s.due(start)) {
			s.send(now.Sub(s.due(start)))
			now = time.Now()
			if s.sent%64 == 0 { // when behind: answers must not overflow the socket
				break
			}
		}
		until, more := s.next(start, now)
		if !more {
			return nil
		}
		var err error
		events, err = s.conn.wait(until, events[:0])
		if err != nil {
			return err
		}
		for i := range events {
			s.take(&events[i])
		}
		if now = time.Now(); progress != nil && now.After(report) {
			report = now.Add(progressEvery)
			progress(s.progress(now.Sub(start)))
		}
	}
}

func (s *session) progress(elapsed time.Duration) measurement.Progress {
	p := measurement.Progress{Elapsed: measurement.SecondsOf(elapsed)}
	if time.Since(s.lastAt) < freshFor {
		p.RTT = measurement.SecondsOf(s.lastRTT)
	}
	return p
}

// due is when the next request is to be sent.
func (s *session) due(start time.Time) time.Time {
	return start.Add(time.Duration(s.sent) * s.plan.interval)
}

func (s *session) send(lag time.Duration) {
	s.behind = max(s.behind, lag)
	e := &s.echos[s.sent]
	e.sent = time.Now()
	if err := s.conn.send(s.sent); err != nil {
		e.state = unsendable
		s.couldNotSend(err)
	} else {
		e.state = pending
		s.waiting++
	}
	s.sent++
}

func (s *session) couldNotSend(err error) {
	s.sendErr = err
	s.sendErrors[err.Error()]++
}

// next gives up requests whose time is over and returns until when to wait,
// and whether there is anything to wait for.
func (s *session) next(start, now time.Time) (time.Time, bool) {
	for ; s.oldest < s.sent; s.oldest++ {
		e := &s.echos[s.oldest]
		if e.state != pending {
			continue
		}
		if now.Sub(e.sent) <= s.plan.timeout {
			break
		}
		e.state = lost
		s.waiting--
	}
	if s.sent < s.plan.count {
		return s.due(start), true
	}
	if s.waiting == 0 {
		return time.Time{}, false
	}
	return s.echos[s.oldest].sent.Add(s.plan.timeout + time.Millisecond), true
}

// indexOf finds the latest request with a sequence number, -1 if none.
func (s *session) indexOf(sequence uint16) int {
	if s.sent == 0 {
		return -1
	}
	last := s.sent - 1
	back := int(uint16(last) - sequence)
	return max(-1, last-back)
}

func (s *session) take(ev *event) {
	if ev.what == transmitted {
		if ev.index >= 0 && ev.index < s.sent {
			s.echos[ev.index].left = ev.kernel
		}
		return
	}
	index := s.indexOf(ev.sequence)
	if index < 0 {
		s.foreign++
		return
	}
	e := &s.echos[index]
	if ev.what == notSent && e.state == pending {
		e.state = unsendable
		s.couldNotSend(ev.err)
		s.waiting--
	}
	if ev.what == notSent {
		return
	}
	if ev.what == refused {
		s.failures[ev.failure]++
		if e.state == pending {
			e.state = rejected
			s.waiting--
		}
		return
	}
	s.takeReply(e, index, ev)
}

func (s *session) takeReply(e *echo, index int, ev *event) {
	switch e.state {
	case answered, tooLate:
		if !e.again {
			e.again = true
			s.duplicate++
		}
		return
	case unsendable, unsent:
		s.foreign++
		return
	case pending:
		s.waiting--
	case lost, rejected:
		// Given up too early: this process slept over an answer that the kernel
		// stamped in time, or who sent the ICMP error was wrong.
	}
	rtt := s.rtt(e, ev)
	if rtt > s.plan.timeout {
		e.state = tooLate
		s.late++
		return
	}
	e.state = answered
	s.rtts.Record(rtt)
	s.lastRTT, s.lastAt = rtt, time.Now()
	if index < s.highest {
		s.reordered++
	}
	s.highest = max(s.highest, index)
	if ev.ttl > 0 {
		if s.ttl != 0 && s.ttl != ev.ttl {
			s.ttlChanges++
		}
		if s.firstTTL == 0 {
			s.firstTTL = ev.ttl
		}
		s.ttl = ev.ttl
	}
}

// rtt takes the best clocks there are. A round trip by the kernel's clocks
// lies within the one this process saw: a value outside means that the wall
// clock was stepped in between, and is not used.
func (s *session) rtt(e *echo, ev *event) time.Duration {
	user := cmp.Or(ev.took, ev.at.Sub(e.sent))
	if ev.kernel.IsZero() {
		s.userSpace++
		return user
	}
	from, count := e.left, &s.both
	if from.IsZero() {
		from, count = e.sent.Round(0), &s.receiveOnly // wall clock, as the kernel's
	}
	rtt := ev.kernel.Sub(from)
	// The clocks tick alike but are read differently: allow for rounding.
	if rtt <= 0 || rtt > user+user/1000+time.Microsecond {
		s.implausible++
		s.userSpace++
		return user
	}
	*count++
	return rtt
}

// unanswered is why no round trip counts, if the path did not lose the requests: it is longer
// than the timeout, or this host sent none.
func (s *session) unanswered() error {
	unsent := 0
	for _, n := range s.sendErrors {
		unsent += n
	}
	switch {
	case s.received() > 0:
		return nil
	case s.late > 0:
		return fmt.Errorf("none of %d requests was answered within the timeout of %v, after which %d answers came; the round trip takes longer: give a longer timeout", s.sent, s.plan.timeout, s.late)
	case unsent == s.sent:
		return fmt.Errorf("none of %d requests could be sent: %w", s.sent, s.sendErr)
	}
	return nil
}

func (s *session) received() int { return int(s.rtts.Samples()) }

func (s *session) outcome() measurement.Outcome {
	o := measurement.Outcome{
		Metrics: measurement.Metrics{},
		Effective: map[string]string{
			"ping_socket":        s.conn.socket(),
			"ping_timestamps":    s.timestamps(),
			"ping_payload_bytes": fmt.Sprint(len(s.plan.cookie) + len(s.plan.filler)),
			"ping_sent":          fmt.Sprint(s.sent),
			"ping_received":      fmt.Sprint(s.received()),
		},
		Source: measurement.End{ReceivedTTL: s.ttl},
		Facts:  s.facts(),
	}
	// A run that was stopped does not know what becomes of those whose time is not over.
	known := s.sent - s.waiting
	if known > 0 {
		o.Metrics["loss_fraction"] = float64(known-s.received()) / float64(known)
	}
	if s.received() > 0 {
		s.rtts.Lose(int64(known-s.received()) - s.rtts.Unanswered())
		s.rtts.FillMetrics(o.Metrics, measurement.Ping)
		distribution := s.rtts.Distribution()
		o.Latency = &distribution
	}
	return o
}

// timestamps names the clocks that most round trips were taken with.
func (s *session) timestamps() string {
	switch {
	case s.received()+s.late == 0:
		return "none"
	case s.both >= s.receiveOnly && s.both >= s.userSpace:
		return "kernel"
	case s.receiveOnly >= s.userSpace:
		return "kernel receive, user-space send"
	}
	return "user space"
}

func (s *session) facts() []string {
	var facts []string
	add := func(n int, format string, a ...any) {
		if n > 0 {
			facts = append(facts, fmt.Sprintf("%d of %d echo requests ", n, s.sent)+fmt.Sprintf(format, a...))
		}
	}
	add(s.late, "were answered later than the timeout of %v and count as lost", s.plan.timeout)
	add(s.duplicate, "were answered again (duplicates)")
	add(s.reordered, "were answered after a later one (reordered)")
	facts = append(facts, s.failureFacts()...)
	if s.foreign > 0 {
		facts = append(facts, fmt.Sprintf("%d ICMP messages matched no open request and were ignored", s.foreign))
	}
	if s.ttlChanges > 0 {
		facts = append(facts, fmt.Sprintf("the answers' time to live changed %d times, first %d, last %d: the path back changed",
			s.ttlChanges, s.firstTTL, s.ttl))
	}
	if used := min(s.both, 1) + min(s.receiveOnly, 1) + min(s.userSpace, 1); used > 1 {
		facts = append(facts, fmt.Sprintf("round trips were taken with different clocks: %d kernel, %d kernel receive and user-space send, %d user space",
			s.both, s.receiveOnly, s.userSpace))
	}
	if s.implausible > 0 {
		facts = append(facts, fmt.Sprintf("%d kernel timestamps were not plausible (was the wall clock set?) and not used", s.implausible))
	}
	if s.behind > max(s.plan.interval, time.Millisecond) {
		facts = append(facts, fmt.Sprintf("requests left up to %v behind their schedule: this host was too busy", s.behind.Round(time.Microsecond)))
	}
	return facts
}

// failureFacts says who refused requests, most frequent first.
func (s *session) failureFacts() []string {
	lines := map[string]int{}
	for f, n := range s.failures {
		text := fmt.Sprintf("%d ICMP errors from %v: %s", n, f.from, wire.Describe(s.plan.v6, f.typ, f.code))
		if f.mtu > 0 {
			text += fmt.Sprintf(" (path MTU %d bytes)", f.mtu)
		}
		lines[text] = n
	}
	for what, n := range s.sendErrors {
		lines[fmt.Sprintf("%d of %d echo requests could not be sent: %s", n, s.sent, what)] = n
	}
	return slices.SortedFunc(maps.Keys(lines), func(a, b string) int { return cmp.Or(lines[b]-lines[a], strings.Compare(a, b)) })
}
