package session

import (
	"time"

	"github.com/hopbench/hopbench/internal/admission"
)

const (
	leastRate = 1000
	leastPart = 16
)

// StillTime is how long a test may move less than leastRate, in bytes per second, or than a part
// of what it asked for where that is less.
const StillTime = 2 * time.Minute

// LeastAtRate is how many bytes a test of a rate in bit/s moves in StillTime at least,
// 0 for a rate that nobody asked for.
func LeastAtRate(rate float64) int64 {
	least := float64(leastRate)
	if asked := rate / 8; asked > 0 {
		least = min(least, asked/leastPart)
	}
	return int64(least * StillTime.Seconds())
}

// LeastExchanges is the same for tests of so many requests a second, of which one has
// to be answered; 0 is as many as can be.
func LeastExchanges(requestsPerSecond float64) int64 {
	if requestsPerSecond == 0 || requestsPerSecond*StillTime.Seconds() >= leastPart {
		return 1
	}
	return 0
}

// Meter counts the bytes of payload that a test moves at the server. Those of its
// connections that have ended are in ended, and in endedUnpaced unless this end paced them.
type Meter struct {
	counts *Counts
	client Client

	ended, endedUnpaced int64

	// limit in bit/s and least in bytes per StillTime, of which 0 is none; halt ends the
	// test.
	limit float64
	least int64
	halt  func(error)
	tick  time.Duration
	timer *time.Timer
	// started says that the test has, turn which of its timers counts, of which the present one
	// runs since began.
	started bool
	turn    int
	began   time.Time
	// unpaced is what this end does not pace.
	unpaced admission.RateWatch
	// marked had moved at the last StillTime.
	marked   int64
	markedAt time.Time
}

// Add counts a connection's bytes until the returned function is called.
func (m *Meter) Add(sends bool, of func() int64) (remove func()) {
	return m.add(sends, 0, of)
}

// AddPaced is Add for what this end sends and its kernel paces to a rate in bit/s. That rate
// is compared with the limit in place of the bytes: they are counted when the kernel takes
// them, and it holds megabytes of each flow.
func (m *Meter) AddPaced(rate float64, of func() int64) (remove func()) {
	return m.add(true, rate, of)
}

func (m *Meter) add(sends bool, paced float64, of func() int64) (remove func()) {
	c := m.counts
	c.mu.Lock()
	defer c.mu.Unlock()
	g := &gauge{meter: m, sends: sends, moved: of, paced: paced}
	c.running[g] = struct{}{}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		n := g.moved()
		delete(c.running, g)
		c.tellOthers(m.client, n-g.told)
		m.ended += n
		if g.paced == 0 {
			m.endedUnpaced += n
		}
		if g.sends {
			c.sent += n
		} else {
			c.received += n
		}
	}
}

// Moved is how many bytes the test has moved so far.
func (m *Meter) Moved() int64 {
	m.counts.mu.Lock()
	defer m.counts.mu.Unlock()
	moved, _ := m.sum()
	return moved
}

// Expect begins to compare the test with a limit in bit/s before it has started: a client may
// have something moved without that.
func (m *Meter) Expect(limit float64, halt func(error)) {
	m.counts.mu.Lock()
	defer m.counts.mu.Unlock()
	m.begin(limit, 0, halt)
}

// Watch begins to compare the test with a limit in bit/s and to what it must move at
// least, from the start on; it may be called again.
func (m *Meter) Watch(limit float64, least int64, halt func(error)) {
	m.counts.mu.Lock()
	defer m.counts.mu.Unlock()
	if m.started {
		return
	}
	m.started = true
	m.begin(limit, least, halt)
}

func (m *Meter) begin(limit float64, least int64, halt func(error)) {
	if m.timer != nil {
		m.timer.Stop()
	}
	m.timer, m.unpaced = nil, admission.RateWatch{}
	m.turn++
	if limit <= 0 && least <= 0 {
		return
	}
	m.limit, m.least, m.halt = limit, least, halt
	m.marked, _ = m.sum()
	m.began = time.Now()
	m.markedAt, m.tick = m.began, StillTime
	if limit > 0 {
		m.tick = admission.RateTick
	}
	turn := m.turn
	m.timer = time.AfterFunc(m.tick, func() { m.look(turn) })
}

func (m *Meter) sum() (moved, unpaced int64) {
	moved, unpaced = m.ended, m.endedUnpaced
	for g := range m.counts.running {
		if g.meter != m {
			continue
		}
		n := g.moved()
		moved += n
		if g.paced == 0 {
			unpaced += n
		}
	}
	return moved, unpaced
}

// unpacedLimit is what the pacing of this end leaves of the limit.
func (m *Meter) unpacedLimit() float64 {
	left := m.limit
	for g := range m.counts.running {
		if g.meter == m {
			left -= g.paced
		}
	}
	return max(left, 0)
}

func (m *Meter) look(turn int) {
	if err := m.wrong(turn); err != nil {
		m.halt(err)
	}
}

// wrong is why a test that moves too much or too little has to end.
func (m *Meter) wrong(turn int) error {
	m.counts.mu.Lock()
	defer m.counts.mu.Unlock()
	if m.timer == nil || turn != m.turn {
		return nil
	}
	moved, unpaced := m.sum()
	now := time.Now()
	if m.limit > 0 {
		limit := m.unpacedLimit()
		if rate, over, exceeds := m.unpaced.Exceeds(now.Sub(m.began), unpaced, limit, admission.RateBurst); exceeds {
			return Refusal(Limit, "the test moved %s over %v, and this end allows %s (--max-rate): give a lower --rate",
				BitRate(rate+m.limit-limit), over, BitRate(m.limit))
		}
	}
	if now.Sub(m.markedAt) >= StillTime {
		if since := moved - m.marked; since < m.least {
			return Refusal(TimedOut, "%d bytes moved in %v, and %d are the least that keep a test going", since, StillTime, m.least)
		}
		m.marked, m.markedAt = moved, now
	}
	m.timer.Reset(m.tick)
	return nil
}

// End stops watching.
func (m *Meter) End() {
	m.counts.mu.Lock()
	defer m.counts.mu.Unlock()
	if m.timer != nil {
		m.timer.Stop()
		m.timer = nil
	}
}
