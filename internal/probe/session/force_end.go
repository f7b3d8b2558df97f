package session

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// guardSlack is how long after a deadline a served connection is ended by force:
	// the loop that keeps the deadline tells the client why, if it can.
	guardSlack = time.Second
	// haltWait is the same where a test is ended for what it does.
	haltWait = 2 * time.Second
)

// Guard ends a served connection from another goroutine: by whatever stop function
// it holds, now or when it is given one. It holds the one limit of time that no loop
// can forget.
type Guard struct {
	why atomic.Pointer[error]

	mu      sync.Mutex
	stop    func()
	stopped bool
	timer   *time.Timer
}

// Hold has stop end the connection, at once if it is to end already; nil is for one that
// has ended.
func (g *Guard) Hold(stop func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stop = stop
	if g.stopped && stop != nil {
		stop()
	}
}

// End ends the connection by force.
func (g *Guard) End() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.endLocked()
}

func (g *Guard) endLocked() {
	if !g.stopped && g.stop != nil {
		g.stop()
	}
	g.stopped = true
}

// Until moves the limit of time.
func (g *Guard) Until(t time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if left := time.Until(t) + guardSlack; g.timer == nil {
		g.timer = time.AfterFunc(left, g.expire)
	} else {
		g.timer.Reset(left)
	}
}

func (g *Guard) expire() {
	late := ErrSilent
	g.why.CompareAndSwap(nil, &late)
	g.End()
}

// Halt has the connection's loop end with an error, which its client is told, and
// ends it by force should the loop not.
func (g *Guard) Halt(err error) {
	if g.why.CompareAndSwap(nil, &err) {
		g.Until(time.Now().Add(haltWait - guardSlack))
	}
}

// Halted is the error that ends the connection, nil while none does. It may be
// called on nil.
func (g *Guard) Halted() error {
	if g == nil {
		return nil
	}
	if why := g.why.Load(); why != nil {
		return *why
	}
	return nil
}

// Rest lets the limit of time go: the connection has ended.
func (g *Guard) Rest() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.timer != nil {
		g.timer.Stop()
	}
}
