package meter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hopbench/hopbench/internal/admission"
	"github.com/hopbench/hopbench/internal/analysis/statistics"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/sampling"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
)

// Bounds of the readings of a trial. None of them makes a trial longer than lastTime.
const (
	readings     = 100 // of a trial that takes as long as it should
	mostReadings = 1000
	readTime     = 10 * time.Second
	lastTime     = 500 * time.Millisecond
	// sameDate is how far apart two dates without anything new are one: they come on this
	// process's clock with half of what the round trip of each reading took.
	sameDate = 500 * time.Millisecond
)

// Hops are the meters of a testbed's hops.
type Hops struct {
	meters map[string]Meter    // by hop
	paths  map[string][]string // hops by path
}

// Open makes the meters of an inventory.
func Open(inv *inventory.Inventory, counter func(endpoint string) (Counter, error)) (*Hops, error) {
	h := &Hops{meters: map[string]Meter{}, paths: map[string][]string{}}
	for _, hop := range inv.Hops {
		m, err := newMeter(hop, counter)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("hop %s: %w", hop.Name, err), h.Close())
		}
		h.meters[hop.Name] = m
	}
	for _, p := range inv.Paths {
		h.paths[p.Name] = p.Hops
	}
	return h, nil
}

// Close ends their connections. Nothing is read any more.
func (h *Hops) Close() error {
	var err error
	for _, m := range h.meters {
		err = errors.Join(err, m.Close())
	}
	return err
}

// Try reads each hop once, and says by its name what is wrong with its source: nil where
// nothing is.
func (h *Hops) Try(ctx context.Context) map[string]error {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	var mu sync.Mutex
	var all sync.WaitGroup
	wrong := map[string]error{}
	for name, m := range h.meters {
		all.Go(func() {
			_, err := m.Read(ctx)
			mu.Lock()
			defer mu.Unlock()
			wrong[name] = err
		})
	}
	all.Wait()
	return wrong
}

// Watch has the hops of a path read until it is ended.
type Watch struct{ hops []*watched }

// watched is one hop in one trial. What its sampler writes is read when that has ended,
// but for readings, which mu guards until then.
type watched struct {
	name     string
	sampler  *sampling.Sampler
	cancel   context.CancelFunc // of a reading that is under way
	ending   atomic.Bool
	mu       sync.Mutex
	readings []Reading
	asked    int
	failed   int
	err      error // of the first that failed
	worked   bool  // whether the last one did
}

// Watch begins to read, and waits for nobody: a hop whose source is slow is read less
// often. The caller ends it.
func (h *Hops) Watch(ctx context.Context, path string, spec measurement.Spec) *Watch {
	w := &Watch{}
	for _, name := range h.paths[path] {
		m := h.meters[name]
		one := &watched{name: name, worked: true}
		reading, cancel := context.WithCancel(ctx)
		one.cancel = cancel
		interval := max(m.Interval(), spec.ExpectedDuration().Duration()/readings)
		one.sampler = sampling.Start(interval, func() {
			switch {
			case !one.ending.Load():
				one.take(reading, m, readTime)
			case one.worked: // of another source there is no last reading to wait for
				one.take(ctx, m, lastTime)
			}
		})
		w.hops = append(w.hops, one)
	}
	return w
}

// take reads once. What the trial's end interrupted is no failure.
func (w *watched) take(ctx context.Context, m Meter, limit time.Duration) {
	if ctx.Err() != nil {
		return
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var r Reading
	err := admission.Contain(func() (err error) {
		r, err = m.Read(limited)
		return err
	})
	if err != nil && ctx.Err() != nil {
		return
	}
	if err != nil && limited.Err() != nil {
		err = fmt.Errorf("no answer within %v", limit)
	}
	w.asked++
	if w.worked = err == nil; !w.worked {
		if w.failed++; w.err == nil {
			w.err = err
		}
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.readings = append(w.readings, r); len(w.readings) > mostReadings {
		w.readings = sampling.Thin(w.readings)
	}
}

// Now is what each hop has counted as far as it was read, one sample each. It waits for no
// reading.
func (w *Watch) Now() []measurement.HopSeries {
	var out []measurement.HopSeries
	for _, one := range w.hops {
		if sample, ok := one.now(); ok {
			out = append(out, measurement.HopSeries{Name: one.name, Samples: []measurement.HopSample{sample}})
		}
	}
	return out
}

func (w *watched) now() (measurement.HopSample, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.readings) < 2 {
		return measurement.HopSample{}, false
	}
	return w.readings[len(w.readings)-1].Totals.Since(w.readings[0].Totals), true
}

// End reads a last time and adds what was seen to a test's outcome. A hop of which nothing
// is known is a fact, and no reason not to believe the test.
func (w *Watch) End(o *measurement.Outcome) {
	var all sync.WaitGroup
	for _, one := range w.hops {
		all.Go(func() {
			one.ending.Store(true)
			one.cancel()
			one.sampler.End()
		})
	}
	all.Wait()
	if o.Started.IsZero() {
		return
	}
	for _, one := range w.hops {
		series, err := one.series(o.Started)
		if err != nil {
			o.Facts = append(o.Facts, fmt.Sprintf("the figures of hop %s are missing: %v", one.name, err))
			continue
		}
		o.HopSeries = append(o.HopSeries, series)
		if one.failed > 0 {
			o.Facts = append(o.Facts, fmt.Sprintf("the figures of hop %s have gaps: %d of %d readings failed, the first because of this: %v", one.name, one.failed, one.asked, one.err))
		}
	}
}

// series are the readings that say something new, as totals since the first.
func (w *watched) series(started time.Time) (measurement.HopSeries, error) {
	s := measurement.HopSeries{Name: w.name}
	fresh, again := freshOf(w.readings)
	switch {
	case again:
		return s, errors.New("its counters began anew in the trial")
	case len(fresh) > 1:
	case w.err != nil:
		return s, w.err
	case len(w.readings) == 0:
		return s, errors.New("its source gave no answer in the time of the trial")
	default:
		return s, errors.New("its source had nothing new to say in the time of the trial; it counts more rarely than that, or nothing passed the hop")
	}
	s.Grain = measurement.SecondsOf(grainOf(fresh))
	for _, r := range fresh {
		sample := r.Totals.Since(fresh[0].Totals)
		sample.At = measurement.SecondsOf(r.Taken.Sub(started))
		s.Samples = append(s.Samples, sample)
	}
	return s, nil
}

// freshOf leaves out what was told before: a source that is asked more often than it
// counts repeats itself. Again says that its counters began anew.
func freshOf(all []Reading) (fresh []Reading, again bool) {
	for _, r := range all {
		if len(fresh) > 0 {
			before := fresh[len(fresh)-1]
			if !r.Taken.After(before.Taken) {
				continue
			}
			more, less := compare(before.Totals, r.Totals)
			if less {
				return nil, true
			}
			if !more && (r.Timing == Seen || r.Timing == Dated && r.Taken.Sub(before.Taken) < sameDate) {
				continue
			}
		}
		fresh = append(fresh, r)
	}
	return fresh, false
}

// compare says whether some total became more, and whether bytes or packets became less:
// times that a system derives from others may do so by a little.
func compare(before, after measurement.HopSample) (more, less bool) {
	less = after.ForwardBytes < before.ForwardBytes || after.BackwardBytes < before.BackwardBytes ||
		after.ForwardPackets < before.ForwardPackets || after.BackwardPackets < before.BackwardPackets
	after.Combine(before, func(now, then float64) float64 {
		more = more || now > then
		return now
	})
	return more, less
}

// grainOf is how far apart the moments are at which a source counts: 0 where it does when it
// is asked, and at least that where there are too few to tell. The first reading of a
// source that does not tell when it counted is no such moment, nor is the last time that it
// was asked.
func grainOf(fresh []Reading) time.Duration {
	first, last := fresh[0], fresh[len(fresh)-1]
	switch first.Timing {
	case Asked:
		return 0
	case Seen:
		if len(fresh) < 3 {
			return last.Taken.Sub(first.Taken)
		}
		fresh = fresh[1:]
	}
	gaps := make([]float64, len(fresh)-1)
	for i := range gaps {
		gaps[i] = fresh[i+1].Taken.Sub(fresh[i].Taken).Seconds()
	}
	return measurement.Seconds(statistics.Median(gaps)).Duration()
}
