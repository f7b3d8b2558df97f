package rr

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"runtime"
	"time"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/probe/datagram"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/protocol"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/sockets"
)

const (
	// lateAfter is how long after its intended time a request is called late.
	lateAfter = time.Millisecond
	// drainTime is how long after the last request over TCP the responses may
	// take; over UDP the timeout says that.
	drainTime = 3 * time.Second
	// sendBurst is how many requests leave before responses are looked for.
	sendBurst = 16
	// maxSlots bounds the requests that a lost one can be outlived by.
	maxSlots = 1 << 20
	minSlots = 1 << 17
)

// carrier carries several requests and responses at a time. Its methods never
// block, but for receive up to its wait.
type carrier interface {
	// send begins to send a request; rest says that some of it, or all, is
	// left for push.
	send(sequence uint32) error
	rest() bool
	push() error
	// receive says which requests were answered: n of them from first on. It
	// returns ErrTick when nothing came.
	receive(wait time.Duration) (first uint32, n int, err error)
}

// slot is a request that is in flight.
type slot struct {
	sequence       uint32
	pending        bool
	lost           bool          // after its timeout
	intended, sent time.Duration // since START
}

// pipeline keeps up to limit requests in flight. With a period it is an open
// loop: requests leave at their intended times, whether or not responses came,
// and each one's latency counts from that time, so that neither a stall of the
// path nor one of this end is hidden (Gil Tene's "coordinated omission").
// Without, it is a closed loop: a response releases the next request.
type pipeline struct {
	carrier
	*loop
	spin  bool
	slots []slot // by sequence number, a power of two of them
	limit int
	// period is the time between two requests in nanoseconds, 0 in a closed loop.
	period float64
	// timeout after which a request is lost; 0 where the transport loses none. drain
	// is how long the last responses may take.
	timeout, drain time.Duration

	next, oldest uint32 // sequence numbers: to be sent, and perhaps in flight
	inFlight     int
	scheduled    int64 // requests of the open loop that were due and sent
	end          time.Duration
	// looked is up to when what was due was sent, or could not be.
	looked time.Duration

	// unsent requests were due in the measured time and never left.
	late, unsent int64
	latest       time.Duration
	// silent says that at the end some responses were missing for too long, so that nothing
	// more can be asked of this connection.
	silent bool
	// samples, where capacity was given, keeps every request after the warm-up.
	samples []session.Sample
}

func newPipeline(c carrier, l *loop, requestsPerSecond float64, limit int, timeout time.Duration) *pipeline {
	p := &pipeline{carrier: c, loop: l, limit: limit, timeout: timeout, drain: max(drainTime, timeout)}
	slots := limit
	if requestsPerSecond > 0 {
		p.period = 1e9 / requestsPerSecond
		p.limit = kind.MaxInFlight
		slots = max(kind.MaxInFlight, int(min(requestsPerSecond*timeout.Seconds(), maxSlots)))
	} else if timeout > 0 {
		slots = max(slots, minSlots)
	}
	p.slots = make([]slot, 1<<bits.Len(uint(slots-1)))
	return p
}

// intended is when a request of the open loop should leave.
func (p *pipeline) intended(n int64) time.Duration { return time.Duration(float64(n) * p.period) }

func (p *pipeline) run(start time.Time) error {
	p.end = p.warmup + p.length
	ending, drained := false, time.Duration(0)
	for polls := 1; ; polls++ {
		now := time.Since(start)
		p.expire(now)
		if !ending && (now >= p.end || p.stop.Load()) {
			ending, p.end, drained = true, p.endAt(now), now+p.drain
			p.countUnsent()
		}
		if ending && p.inFlight == 0 && !p.rest() {
			p.measured = p.end - p.warmup
			return nil
		}
		if ending && now >= drained {
			return p.giveUp()
		}
		wait, err := p.sendDue(start, now, ending)
		if err != nil {
			return err
		}
		if p.spin {
			wait = 0
			if polls%session.SpinYield == 0 {
				runtime.Gosched()
			}
		}
		if err := p.take(start, wait); err != nil {
			return err
		}
	}
}

// endAt is when the loop ends that finds at a time that it has to. One that is told to stop
// before its time had no occasion to send what became due since it last looked.
func (p *pipeline) endAt(now time.Duration) time.Duration {
	if now < p.end && p.period > 0 {
		return p.looked
	}
	return min(p.end, now)
}

// giveUp counts as lost what an open loop had no answer to in the end, over a transport
// that itself loses nothing. Where nothing at all was measured and nothing came since, that
// is an error; so it is in a closed loop, in which the requests of all the silence were never due.
func (p *pipeline) giveUp() error {
	if p.period == 0 {
		return session.ErrSilent
	}
	for ; p.oldest != p.next; p.oldest++ {
		if s := &p.slots[p.oldest&uint32(len(p.slots)-1)]; s.pending {
			p.loseSlot(s)
		}
	}
	p.silent, p.measured = true, p.end-p.warmup
	if p.recorder.Samples() == 0 && p.answered < p.end {
		return session.ErrSilent
	}
	return nil
}

// sendDue sends what is due and returns how long to wait for responses then.
func (p *pipeline) sendDue(start time.Time, now time.Duration, ending bool) (time.Duration, error) {
	wait := sockets.Tick
	p.looked = now
	if p.rest() {
		if err := p.push(); err != nil {
			return 0, err
		}
	}
	for sent := 0; !ending && now < p.end && p.free(); sent++ {
		if sent == sendBurst {
			return 0, nil
		}
		intended := now
		if p.period > 0 {
			if intended = p.intended(p.scheduled); intended > now {
				wait = min(wait, intended-now)
				break
			}
			p.scheduled++
		}
		if intended >= p.warmup && now-intended > lateAfter {
			p.late++
			p.latest = max(p.latest, now-intended)
		}
		p.slots[p.next&uint32(len(p.slots)-1)] = slot{sequence: p.next, pending: true, intended: intended, sent: now}
		p.next++
		p.inFlight++
		if err := p.send(p.next - 1); err != nil {
			return 0, err
		}
		now = time.Since(start)
		p.looked = now
	}
	if !ending {
		wait = min(wait, p.end-now)
	}
	if p.timeout > 0 && p.oldest != p.next {
		wait = min(wait, p.slots[p.oldest&uint32(len(p.slots)-1)].sent+p.timeout-now)
	}
	return max(wait, 0), nil
}

// free says whether one more request may be in flight.
func (p *pipeline) free() bool {
	return p.inFlight < p.limit && int(p.next-p.oldest) < len(p.slots) && !p.rest()
}

// take receives responses.
func (p *pipeline) take(start time.Time, wait time.Duration) error {
	first, n, err := p.receive(wait)
	if err != nil {
		if err == sockets.ErrTick { //nolint:errorlint // the very value, in a hot loop
			return nil
		}
		return err
	}
	now := time.Since(start)
	p.answered = now
	for i := range n {
		sequence := first + uint32(i)
		if p.timeout == 0 && int32(sequence-p.next) >= 0 {
			return fmt.Errorf("%w: an answer to a request that was not made", protocol.ErrMalformed)
		}
		s := &p.slots[sequence&uint32(len(p.slots)-1)]
		if !s.pending || s.sequence != sequence {
			if s.lost && s.sequence == sequence {
				s.lost = false
				if p.counts(s.intended) {
					p.tardy++
				}
			}
			continue // a duplicate, or after its timeout
		}
		s.pending = false
		p.inFlight--
		if p.counts(s.intended) {
			p.recorder.Record(now - s.intended)
			p.lastRTT.Store(int64(now - s.intended))
			p.keep(session.Sample{Intended: s.intended, RTT: now - s.intended})
		}
	}
	return nil
}

func (p *pipeline) counts(intended time.Duration) bool {
	return intended >= p.warmup && intended < p.end
}

// keep never grows the list: its capacity was given for the whole test.
func (p *pipeline) keep(s session.Sample) {
	if len(p.samples) < cap(p.samples) {
		p.samples = append(p.samples, s)
	}
}

// expire gives up requests that were sent too long ago. They were sent in
// order, so it stops at the first that still has time.
func (p *pipeline) expire(now time.Duration) {
	for p.oldest != p.next {
		s := &p.slots[p.oldest&uint32(len(p.slots)-1)]
		if s.pending {
			if p.timeout == 0 || now-s.sent < p.timeout {
				return
			}
			p.loseSlot(s)
		}
		p.oldest++
	}
}

func (p *pipeline) loseSlot(s *slot) {
	s.pending, s.lost = false, true
	p.inFlight--
	if p.counts(s.intended) {
		p.lose()
		p.keep(session.Sample{Intended: s.intended, Fate: session.Lost})
	}
}

// countUnsent counts the requests of the measured time that were due by the end and
// could not be sent. They are as late as those that were lost.
func (p *pipeline) countUnsent() {
	if p.period == 0 {
		return
	}
	// A request that is due at the very end, but for rounding, is not due before it.
	first := func(at time.Duration) int64 { return int64(math.Ceil(float64(at)/p.period - 1e-6)) }
	from, to := max(p.scheduled, first(p.warmup)), first(p.end)
	for n := from; n < to && len(p.samples) < cap(p.samples); n++ {
		p.keep(session.Sample{Intended: p.intended(n), Fate: session.Unsent})
	}
	p.unsent = max(to-from, 0)
	p.recorder.Lose(p.unsent)
}

// facts tells what a reader of the percentiles must know.
func (p *pipeline) facts() []string {
	var facts []string
	if p.late > 0 && p.period > 0 {
		facts = append(facts, fmt.Sprintf("%s left more than %v after the intended time, the latest %v: latency counts from the intended time",
			quantity.Count(int(p.late), "request"), lateAfter, p.latest.Round(time.Microsecond)))
	}
	if p.unsent > 0 {
		facts = append(facts, fmt.Sprintf("overload: %s due could not be sent, because too many were unanswered or this end was too slow; in the percentiles these count as never answered", quantity.Count(int(p.unsent), "request")))
	}
	if p.silent {
		facts = append(facts, fmt.Sprintf("what was not answered %v after the last request counts as lost", p.drain))
	}
	return facts
}

// tcpCarrier carries requests over TCP, whose responses come in order.
type tcpCarrier struct {
	*sockets.Conn
	request  []byte
	left     []byte // of the request that is being sent
	in       []byte
	response int // bytes of a response
	have     int // bytes of one that came in part
	expected uint32
}

func (c *tcpCarrier) rest() bool { return len(c.left) > 0 }

func (c *tcpCarrier) send(uint32) error {
	c.left = c.request
	return c.push()
}

func (c *tcpCarrier) push() error {
	for len(c.left) > 0 {
		n, err := c.TryWrite(c.left)
		c.left = c.left[n:]
		if err == sockets.ErrTick { //nolint:errorlint // TryWrite's very value, in a hot loop
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *tcpCarrier) receive(wait time.Duration) (uint32, int, error) {
	got, err := c.ReadWithin(c.in, wait, c.rest())
	if err != nil {
		return 0, 0, err
	}
	for begins := (c.response - c.have) % c.response; begins < got; begins += c.response {
		if c.in[begins] == endOfTest {
			w := session.ControlConn{Conn: c.Conn, Deadline: time.Now().Add(session.Grace)}
			return 0, 0, saidAtEnd(c.in[begins:got], &w)
		}
	}
	first, n := c.expected, (c.have+got)/c.response
	c.have = (c.have + got) % c.response
	c.expected += uint32(n)
	return first, n, nil
}

// udpCarrier carries requests over UDP.
type udpCarrier struct {
	*sockets.Conn
	request, in []byte
	full        bool // the kernel had no room for the request
	rejected    rejections
}

func (c *udpCarrier) rest() bool { return c.full }

func (c *udpCarrier) send(sequence uint32) error {
	binary.BigEndian.PutUint32(c.request[datagram.SequenceOffset:], sequence)
	return c.push()
}

func (c *udpCarrier) push() error {
	_, err := c.TryWrite(c.request)
	if outgrown(err) || c.rejected.bears(err) {
		_, err = c.TryWrite(c.request)
	}
	c.full = errors.Is(err, sockets.ErrTick)
	if c.full {
		return nil
	}
	return err
}

func (c *udpCarrier) receive(wait time.Duration) (uint32, int, error) {
	n, err := c.ReadWithin(c.in, wait, c.full)
	switch {
	case errors.Is(err, io.EOF) || err == nil && n < datagram.HeaderBytes:
		return 0, 0, nil // somebody's empty or short packet
	case outgrown(err), c.rejected.bears(err):
		return 0, 0, sockets.ErrTick
	case err != nil:
		return 0, 0, err
	}
	c.rejected.answered = true
	return binary.BigEndian.Uint32(c.in[datagram.SequenceOffset:]), 1, nil
}
