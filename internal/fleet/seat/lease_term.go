package seat

import (
	"sync"
	"time"
)

// Term is the time that a lease has, by the clock of who holds it. It counts from when its
// last renewal was sent, so that it is over here before it is over at the broker.
type Term struct {
	length time.Duration
	lost   chan struct{}

	mu    sync.Mutex
	timer *time.Timer
	until time.Time
	over  bool
	ended func()
}

// NewTerm starts a term of length at from. When it runs out, or is lost, Lost is closed
// and then ended called, once.
func NewTerm(length time.Duration, from time.Time, ended func()) *Term {
	t := &Term{length: length, lost: make(chan struct{}), until: from.Add(length), ended: ended}
	t.mu.Lock() // the timer may end before it is kept
	defer t.mu.Unlock()
	t.timer = time.AfterFunc(time.Until(t.until), t.check)
	return t
}

func (t *Term) check() {
	t.mu.Lock()
	left := time.Until(t.until)
	if !t.over && left > 0 { // renewed meanwhile
		t.timer.Reset(left)
		t.mu.Unlock()
		return
	}
	t.mu.Unlock()
	t.Lose()
}

// Lost is closed when the term ran out or was lost.
func (t *Term) Lost() <-chan struct{} { return t.lost }

// Live is ErrLost once the term is over, in whatever way.
func (t *Term) Live() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over || !time.Now().Before(t.until) {
		return ErrLost
	}
	return nil
}

// Renew lets the term last its length from when a renewal was sent that has been
// confirmed by now. A confirmation that comes after the end is too late: ErrLost.
func (t *Term) Renew(sent time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over || !time.Now().Before(t.until) {
		return ErrLost
	}
	if until := sent.Add(t.length); until.After(t.until) {
		t.until = until
		t.timer.Reset(time.Until(until))
	}
	return nil
}

// Lose ends the term as one that ran out, unless it is over.
func (t *Term) Lose() {
	if t.Finish() {
		close(t.lost)
		t.ended()
	}
}

// Finish ends the term without closing Lost: its holder needs it no more. It says whether
// the term was not over before.
func (t *Term) Finish() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return false
	}
	t.over = true
	t.timer.Stop()
	return true
}
