package tcp

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/sampling"
)

// early ends a test as soon as its window is full of steady throughput, in place of when
// the latest window would be that the longest warm-up allows. It goes by what this end knows
// while the test goes on: what it received, and what the other end's kernel acknowledged.
// A window so chosen is the first that looks steady, by the rule of chooseWindow, which does
// not see here what comes after; tests that are compared do not end early.
type early struct {
	over   atomic.Bool
	spec   measurement.Spec
	most   int // bins that are counted
	width  time.Duration
	bins   []float64 // full ones
	part   float64   // of the bin after them
	at     time.Duration
	moved  float64
	window window // once over
}

func newEarly(spec measurement.Spec) *early {
	most, width := session.BinsOf(spec)
	return &early{spec: spec, most: most, width: width}
}

// every is how often to look: once a batch, so that the time of a look does not shake its count.
func (e *early) every() time.Duration { return batchBins * e.width }

// look takes that moved bytes arrived up to a time after the start, which are spread evenly
// over what passed since the last look.
func (e *early) look(at time.Duration, moved int64) {
	if at <= e.at || e.over.Load() || len(e.bins) > e.most {
		return
	}
	rate := (float64(moved) - e.moved) / float64(at-e.at)
	for edge := e.edge(); edge <= at; edge = e.edge() {
		e.bins = append(e.bins, e.part+rate*float64(edge-e.at))
		e.part, e.at = 0, edge
	}
	e.part += rate * float64(at-e.at)
	e.at, e.moved = at, float64(moved)
	length, lead := layout(e.width, e.spec)
	earliest := lead + int(math.Ceil(e.spec.MaxWarmup.Duration().Seconds()/e.width.Seconds()*minWarmupShare))
	// On a busy machine a look is late, or a test takes longer than planned to end: what came
	// after its last bin nobody counts.
	if len(e.bins) < earliest+length || len(e.bins) > e.most {
		return
	}
	// What has come since it was steady is steady too, so the last of it is measured, and
	// nothing is sent that is not.
	last := window{first: len(e.bins) - length, last: len(e.bins), steady: true}
	if x := e.bins[last.first:]; chooseFrom(e.bins, length, earliest).steady && level(x) && filled(x) {
		e.window = last
		e.over.Store(true)
	}
}

// filled says that something came in most bins: a path on which nothing moves is level, too.
func filled(x []float64) bool {
	n := 0
	for _, v := range x {
		if v > 0 {
			n++
		}
	}
	return 2*n > len(x)
}

// edge is the end of the bin that is being filled.
func (e *early) edge() time.Duration { return time.Duration(len(e.bins)+1) * e.width }

// mayEndEarly is not nil where the request allows it and the other end can.
func (t *test) mayEndEarly() *early {
	if !t.req.EndSteady || t.req.Spec.MPTCP || t.req.Spec.MaxWarmup <= 0 {
		return nil
	}
	for _, f := range t.flows {
		if t.sends(f) && !f.Ready.EndsEarly {
			return nil
		}
	}
	return newEarly(t.req.Spec)
}

// over is nil where the test may not end early.
func (t *test) over() *atomic.Bool {
	if t.early == nil {
		return nil
	}
	return &t.early.over
}

// settle looks for the moment at which the test is over, until the returned function is
// called. An end that cannot know what was acknowledged goes on to the planned end.
func (t *test) settle() (ended func()) {
	if t.early == nil {
		return func() {}
	}
	return sampling.Start(t.early.every(), func() {
		sum := int64(0)
		for _, f := range t.flows {
			count, ok := f.count()
			if !ok {
				return
			}
			sum += count.Bytes
		}
		t.early.look(time.Since(t.start), sum)
	}).End
}
