package agent

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/hopbench/hopbench/internal/clock"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/protocol"
)

// errSilent says that nothing was heard of the other end for a lease.
var errSilent = errors.New("nothing was heard")

// farewell is how long the agent tries to tell a silent coordinator why it ends.
const farewell = time.Second

// expire ends all that the agent does, because the coordinator was silent for the lease:
// it may have crashed or been suspended, or the network may be cut.
func (s *server) expire() {
	why := fmt.Errorf("%w of the coordinator for %v, so all load was stopped", errSilent, s.opts.Lease)
	s.cancel(why)
	s.opts.Log.Warn("the lease ended", "error", why)
	cut := time.AfterFunc(farewell, func() { _ = s.control.Close() })
	defer cut.Stop()
	if s.writing.TryLock() { // else somebody writes to it in vain
		// For one that slept and wakes up; whether it gets there changes nothing.
		_ = protocol.WriteFrame(s.control, protocol.TypeError, protocol.RemoteError{Reason: string(probe.TimedOut), Message: why.Error()})
		s.writing.Unlock()
	}
	_ = s.control.Close() // the reading side reports the end
}

// heard reads from the other end, of which every byte keeps up the lease: a long reply on
// a slow line is no silence.
type heard struct {
	from  io.Reader
	clock clock.Monotonic
	last  atomic.Int64 // when something was read, in ns by the clock
	lease atomic.Pointer[lease]
}

// lease is what ends when nothing was heard for its length.
type lease struct {
	timer  *time.Timer
	length time.Duration
}

// watch has end called when nothing was heard for so long, until the returned function is
// called.
func (h *heard) watch(length time.Duration, end func()) (stop func() bool) {
	l := &lease{time.AfterFunc(length, end), length}
	h.lease.Store(l)
	return l.timer.Stop
}

func (h *heard) Read(b []byte) (int, error) {
	n, err := h.from.Read(b)
	if n > 0 {
		h.last.Store(int64(h.clock.Now()))
	}
	// A timer that was stopped, or has fired, stays so.
	if l := h.lease.Load(); n > 0 && l != nil && l.timer.Stop() {
		l.timer.Reset(l.length)
	}
	return n, err
}
