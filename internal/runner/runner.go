// Package runner carries out a plan on a testbed: trial after trial in the
// plan's order, each with proof of the path it took, judged by gates, and
// stored before the next begins. A trial that fails is kept with its reason,
// and the run goes on; a testbed that broke is built again.
package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/measurement"
)

// Testbed is where the paths of an experiment exist.
type Testbed interface {
	// Info says what the testbed is and what its absolute numbers mean.
	Info() measurement.Testbed
	// Environment is the machine and the settings that bear on the numbers,
	// Facts are sentences on what it did not allow as wished.
	Environment() map[string]string
	Facts() []string
	// Measure does one trial: it takes the fingerprint of the path and then
	// does the test on it. The fingerprint is valid even when the test failed.
	Measure(ctx context.Context, trial experiment.PlannedTrial, progress func(measurement.Progress)) (measurement.Outcome, measurement.Fingerprint, error)
	// Broken is not nil once the testbed cannot measure any more, and says why.
	Broken() error
	Close() error
}

// Keeper keeps trials; store.Store is one.
type Keeper interface {
	Put(ctx context.Context, trial measurement.Trial) error
	Trials(ctx context.Context) ([]measurement.Trial, error)
}

// Options of a run. All fields but StopOnFault and OnEvent are required.
type Options struct {
	// Experiment with its overrides, not scaled.
	Experiment *experiment.Experiment
	Plan       experiment.Plan
	// Testbed that has been built; Run closes it. Build builds it again should
	// it break.
	Testbed Testbed
	Build   func(context.Context) (Testbed, error)
	Keeper  Keeper
	// StopOnFault ends the run with ErrFault when the testbed breaks, instead of
	// building it again.
	StopOnFault bool
	// OnEvent hears of the run's progress, from one goroutine at a time.
	OnEvent func(Event)
}

// Event is a step of a run.
type Event struct {
	// Trial is the one that begins (Finished nil) or has ended.
	Trial    experiment.PlannedTrial
	Finished *measurement.Trial
	// Live is a sign of life of the trial under way.
	Live *measurement.Progress
	// Rebuilt is why the testbed was built again.
	Rebuilt error
	// Done of Planned trials are stored, and Left is about how long the rest
	// will take.
	Done, Planned int
	Left          time.Duration
}

// maxRebuilds bounds how often a run builds a broken testbed again; a testbed
// that breaks more often than that will not give a result worth having.
const maxRebuilds = 3

// ErrFault says that a run was stopped because its testbed broke.
var ErrFault = errors.New("stopped at a fault")

// trialGrace is how much longer than expected a trial may take before it is
// given up: connecting, tracing and collecting on a slow or lossy path.
const trialGrace = 10 * time.Second

// Run does the trials of the plan that the keeper does not have. It returns
// ctx's error when stopped early, and ErrFault as the options say; what was
// measured until then is kept.
func Run(ctx context.Context, o Options) (err error) {
	r := &run{Options: o, done: map[string]bool{}}
	if r.OnEvent == nil {
		r.OnEvent = func(Event) {}
	}
	defer func() { err = errors.Join(err, r.Testbed.Close()) }()
	stored, err := r.Keeper.Trials(ctx)
	if err != nil {
		return err
	}
	for _, t := range stored {
		r.done[t.ID] = true
	}
	for _, planned := range r.Plan.Trials {
		if r.done[planned.ID] {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.trial(ctx, planned); err != nil {
			return err
		}
	}
	return r.fault()
}

// fault is why the run is to stop at a broken testbed, nil if it is not.
func (r *run) fault() error {
	if broken := r.Testbed.Broken(); broken != nil && r.StopOnFault {
		return fmt.Errorf("%w: %w", ErrFault, broken)
	}
	return nil
}

type run struct {
	Options
	done     map[string]bool
	rebuilds int
	// overhead is how much longer than their expected duration trials have
	// taken in all, over measured of them.
	overhead time.Duration
	measured int
}

// trial does one trial and stores it.
func (r *run) trial(ctx context.Context, planned experiment.PlannedTrial) error {
	if err := r.ensureTestbed(ctx); err != nil {
		return err
	}
	r.emit(Event{Trial: planned})
	start := time.Now()
	settled, err := r.switchTo(ctx, planned.Path)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return r.keep(ctx, planned, start, measurement.Outcome{}, measurement.Fingerprint{Why: "it was not switched to"}, err)
	}
	expected := planned.Spec.ExpectedDuration().Duration()
	limit, cancel := context.WithTimeout(ctx, 2*expected+trialGrace)
	defer cancel()

	outcome, fingerprint, err := r.Testbed.Measure(limit, planned, func(p measurement.Progress) {
		r.emit(Event{Trial: planned, Live: &p})
	})
	if ctx.Err() != nil {
		// Stopped in the middle: half a trial is no trial.
		return ctx.Err()
	}
	if limit.Err() != nil && err != nil {
		err = fmt.Errorf("no result within %v: %w", (2*expected + trialGrace).Round(time.Second), err)
	}
	fingerprint.Switched, fingerprint.Settle = settled.switched, settled.settle
	return r.keep(ctx, planned, start, outcome, fingerprint, err)
}

// keep judges and stores what a trial brought.
func (r *run) keep(ctx context.Context, planned experiment.PlannedTrial, start time.Time, outcome measurement.Outcome, fingerprint measurement.Fingerprint, err error) error {
	if broken := r.Testbed.Broken(); broken != nil {
		err = broken
	}
	// What is no number can be neither judged nor stored.
	outcome.KeepFinite()
	fingerprint, _ = measurement.OnlyFinite(fingerprint)
	elapsed := time.Since(start)
	trial := measurement.Trial{
		ID: planned.ID, Block: planned.Block, Order: planned.Order,
		Path: planned.Path, Test: planned.Test,
		Start: start, Elapsed: measurement.SecondsOf(elapsed),
		Fingerprint: &fingerprint,
		Outcome:     outcome,
	}
	trial.Gate = Judge(planned.Spec, outcome, fingerprint, r.limits(planned.Path), err)
	trial.Thin()
	if err := r.Keeper.Put(ctx, trial); err != nil {
		return err
	}
	r.done[planned.ID] = true
	r.measured++
	r.overhead += elapsed - planned.Spec.ExpectedDuration().Duration()
	r.emit(Event{Trial: planned, Finished: &trial})
	return nil
}

// ensureTestbed builds the testbed again if it broke.
func (r *run) ensureTestbed(ctx context.Context) error {
	broken := r.Testbed.Broken()
	if broken == nil {
		return nil
	}
	if err := r.fault(); err != nil {
		return err
	}
	if r.rebuilds == maxRebuilds {
		return fmt.Errorf("the testbed broke %d times, last because %w", maxRebuilds+1, broken)
	}
	// What a broken testbed says when it is closed adds nothing to broken.
	r.Testbed.Close()
	next, err := r.Build(ctx)
	if err != nil {
		return fmt.Errorf("build the testbed again (it broke: %w): %w", broken, err)
	}
	r.rebuilds++
	r.Testbed = next
	r.emit(Event{Rebuilt: broken})
	return nil
}

func (r *run) emit(e Event) {
	e.Planned = len(r.Plan.Trials)
	e.Done = len(r.done)
	e.Left = r.left()
	r.OnEvent(e)
}

// left estimates the time that the trials not yet done will take.
func (r *run) left() time.Duration {
	perTrial := 100 * time.Millisecond
	if r.measured > 0 {
		perTrial = r.overhead / time.Duration(r.measured)
	}
	var left time.Duration
	for _, p := range r.Plan.Trials {
		if !r.done[p.ID] {
			left += p.Spec.ExpectedDuration().Duration() + perTrial
		}
	}
	return left
}

// limits are what a trial on a path cannot exceed, from the scaled experiment.
func (r *run) limits(path string) Limits {
	e := r.Experiment.Scaled()
	var l Limits
	for _, end := range e.Endpoints {
		switch end.Name {
		case e.Source:
			l.SourceEgressBitsPerSecond = end.EgressBitsPerSecond
		case e.Destination:
			l.DestinationEgressBitsPerSecond = end.EgressBitsPerSecond
		}
	}
	for _, p := range e.Paths {
		if p.Name != path {
			continue
		}
		backends := 1
		for _, h := range p.Hops {
			if p.Bypasses(h) {
				continue
			}
			if h.Backends > 0 {
				// Each has an egress of its own, and from here on links may be
				// each one's own, too.
				backends = h.Parallel()
				l.DestinationEgressBitsPerSecond *= float64(backends)
			}
			rate := h.RateBitsPerSecond * float64(max(h.Parallel(), backends))
			lower(&l.PathBitsPerSecond, rate)
			if !h.OneWay {
				lower(&l.ReturnBitsPerSecond, rate)
			}
		}
	}
	l.Pairs = e.Pairs
	l.BusyWarns = r.Testbed.Info().Relative
	return l
}

// lower lowers a limit to a rate; 0 is no limit for either.
func lower(limit *float64, rate float64) {
	if rate > 0 && (*limit == 0 || rate < *limit) {
		*limit = rate
	}
}
