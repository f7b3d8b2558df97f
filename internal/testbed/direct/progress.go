package direct

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/sampling"
)

// enoughWithin is how long a test that is stopped may take to tell what there is.
const enoughWithin = 2 * time.Second

// Part is what moved over TCP in a part of a test, counted from its start: what this end
// received, and what it sent that the other end's kernel has acknowledged.
type Part struct {
	From, To time.Duration
	Bytes    int64
}

// Stopped is what there is of a test that was stopped.
type Stopped struct {
	Spec measurement.Spec
	// Outcome is of what was done, where Whole says that the kind of test can tell; it
	// does not have the length that was asked for.
	Outcome measurement.Outcome
	Whole   bool
	// Moved is all that moved, for a test of throughput over TCP.
	Moved Part
}

// Watch does tests by Run, tells of them while they go on, and keeps what there is of one
// that is stopped.
type Watch struct {
	Run RunFunc
	// Tell is called from another goroutine after each Every of a test of throughput over
	// TCP, if Every is above 0, and for what is left at its end.
	Every time.Duration
	Tell  func(Part)

	mu      sync.Mutex
	stopped *Stopped
	failed  Part
}

// Stopped is the test that was stopped, nil without one.
func (w *Watch) Stopped() *Stopped {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stopped
}

// Failed is what moved in the newest test until it failed; none where it did not.
func (w *Watch) Failed() Part {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

// Do is a RunFunc.
func (w *Watch) Do(ctx context.Context, req probe.Request, progress func(measurement.Progress)) (measurement.Outcome, error) {
	var moved Part
	req.Watch = func(start time.Time, flows []session.ReadFlow) func() { return w.watch(start, flows, &moved) }
	running := ctx
	if req.Spec.Kind == measurement.RR {
		// It can end early, as if its time were over.
		enough, end := context.WithCancel(context.WithoutCancel(ctx))
		defer end()
		var cancel context.CancelFunc
		running, cancel = context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		defer context.AfterFunc(ctx, func() {
			end()
			time.AfterFunc(enoughWithin, cancel) // of one that has not begun; later it does nothing
		})()
		req.Hooks = &session.Hooks{Enough: enough}
	}
	out, err := w.Run(running, req, progress)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = Part{}
	switch {
	case ctx.Err() != nil:
		// Ping tells what was measured so far along with its error.
		whole := err == nil || req.Spec.Kind == measurement.Ping && errors.Is(err, context.Canceled)
		w.stopped = &Stopped{Spec: req.Spec, Outcome: out, Whole: whole && len(out.Metrics) > 0, Moved: moved}
	case err != nil:
		w.failed = moved
	}
	return out, err
}

// watch tells what the flows move, and keeps it, until the returned function is called.
func (w *Watch) watch(start time.Time, flows []session.ReadFlow, all *Part) (ended func()) {
	last, known := make([]int64, len(flows)), make([]bool, len(flows)) // of a flow that ended before the test, too
	look := func() {
		sum, whole := int64(0), true
		for i, read := range flows {
			if count, ok := read(); ok {
				last[i], known[i] = count.Bytes, true
			}
			sum += last[i]
			whole = whole && known[i]
		}
		part := Part{From: all.To, To: time.Since(start), Bytes: sum - all.Bytes}
		all.To, all.Bytes = part.To, sum
		// Not every system knows what was acknowledged.
		if w.Every > 0 && whole && part.To-part.From > w.Every/10 {
			w.Tell(part)
		}
	}
	if w.Every <= 0 {
		return look
	}
	return sampling.Start(w.Every, look).End
}
