// Package runner carries out a plan on a testbed: trial after trial in the
// plan's order, each with proof of the path it took, judged by gates, and
// stored before the next begins. A trial that fails is kept with its reason,
// and the run goes on; a testbed that broke is built again.
package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/gate"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/testbed"
	"github.com/hopbench/hopbench/internal/trial"
)

// Keeper keeps trials; store.Store is one.
type Keeper interface {
	Put(ctx context.Context, trial measurement.Trial) error
	Trials(ctx context.Context) ([]measurement.Trial, error)
}

// Memory keeps trials in memory.
type Memory struct{ Kept []measurement.Trial }

// Put keeps a trial.
func (m *Memory) Put(_ context.Context, t measurement.Trial) error {
	m.Kept = append(m.Kept, t)
	return nil
}

// Trials are those kept so far.
func (m *Memory) Trials(context.Context) ([]measurement.Trial, error) { return m.Kept, nil }

// Planner says what is to be done next.
type Planner interface {
	// Next is the next trial to do; false when there is none.
	Next() (experiment.PlannedTrial, bool)
	// Done hears of every trial that was kept, at first of those kept before. Err
	// is why its test failed, nil if it did not or that is not known any more.
	Done(t measurement.Trial, err error)
	// Left are the trials that are still to come, as far as that is known.
	Left() []experiment.PlannedTrial
}

// Options of a run. Planner, Testbed, Build and Keeper are required.
type Options struct {
	Planner Planner
	// Testbed that has been built; Run closes it. Build builds it again should
	// it break.
	Testbed testbed.Testbed
	Build   func(context.Context) (testbed.Testbed, error)
	Keeper  Keeper
	// Others is how many other runs have measured on this machine since it was asked
	// last; nil where that is not known.
	Others func() int
	// SetAside takes trials out of those that count, which the planner, an Again, then does
	// again. Where it is nil, trials of which that would be so are missing.
	SetAside func(context.Context, Repeated) error
	// Unlimited lets trials take as long as their tests do.
	Unlimited bool
	// StopOnFault ends the run with ErrFault when the testbed breaks, instead of
	// building it again.
	StopOnFault bool
	// OnEvent hears of the run's progress, from one goroutine at a time.
	OnEvent func(Event)
}

// Repeated are trials that are done again, and why.
type Repeated struct {
	IDs []string
	// Copied is the test of which a sender had to copy its payload after it had not.
	Copied string
	// NoResult is the trial whose ends brought back nothing, or too few pairs; nil of others.
	NoResult *measurement.Trial
}

// repeater is a planner that can have trials done again.
type repeater interface {
	// Again has trials done again in their turn, or at the end of their blocks.
	Again(ids []string, last bool)
}

// Event is a step of a run.
type Event struct {
	// Trial is the one that begins (Finished nil) or has ended.
	Trial    experiment.PlannedTrial
	Finished *measurement.Trial
	// Live is a sign of life of the trial under way.
	Live *measurement.Progress
	// Switched says that the trial's path came into force in place of another.
	Switched *testbed.Switched
	// Rebuilt is why the testbed was built again.
	Rebuilt error
	// Stored is how long it took to store the trial that has ended.
	Stored time.Duration
	// Done of Planned trials are stored, and Left is about how long the rest
	// will take.
	Done, Planned int
	Left          time.Duration
}

// maxRebuilds bounds how often a run builds a broken testbed again without a trial
// that counts in between; a testbed that breaks more often than that will not give a
// result worth having.
const maxRebuilds = 3

// ErrFault says that a run was stopped because its testbed broke.
var ErrFault = errors.New("stopped at a fault")

// Run does the trials of the plan that the keeper does not have. It returns
// ctx's error when stopped early, and ErrFault as the options say; what was
// measured until then is kept.
func Run(ctx context.Context, o Options) (err error) {
	r := &run{Options: o, first: map[string]measurement.Fingerprint{}, instruments: map[string]map[string]string{}, copies: map[string]bool{}, said: map[string]map[string]string{}, discarded: map[string]int{}}
	if r.OnEvent == nil {
		r.OnEvent = func(Event) {}
	}
	defer func() { err = errors.Join(err, r.Testbed.Close()) }()
	stored, err := r.Keeper.Trials(ctx)
	if err != nil {
		return err
	}
	for _, t := range stored {
		r.note(t, nil)
	}
	for {
		if err := r.restore(ctx); err != nil {
			return err
		}
		planned, ok := r.Planner.Next()
		if !ok {
			return r.fault()
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.trial(ctx, planned); err != nil {
			return err
		}
	}
}

// note takes a trial that is kept into account.
func (r *run) note(t measurement.Trial, err error) {
	r.done++
	r.Planner.Done(t, err)
	if r.instruments[t.Test] == nil && t.Gate.Passed {
		r.instruments[t.Test] = t.Effective
	}
	if f := t.Fingerprint; f != nil && f.Learned {
		first := r.first[t.Path]
		if len(first.Hops) == 0 && f.Matches {
			first.Hops = f.Hops
		}
		first.ReceivedTTL, first.PathMTU = cmp.Or(first.ReceivedTTL, f.ReceivedTTL), cmp.Or(first.PathMTU, f.PathMTU)
		r.first[t.Path] = first
	}
}

// fault is why the run is to stop at a broken testbed, nil if it is not.
func (r *run) fault() error {
	if broken := r.Testbed.Err(); broken != nil && r.StopOnFault {
		return fmt.Errorf("%w: %w", ErrFault, broken)
	}
	return nil
}

type run struct {
	Options
	done int
	// rebuilds since the last trial that counts.
	rebuilds int
	// booked says that the fault of the testbed is that of a trial already.
	booked bool
	// first is what the first trials of each path learned of it.
	first map[string]measurement.Fingerprint
	// said is the environment of each end as it was kept last.
	said map[string]map[string]string
	// instruments are how the first trial of each test that passed was measured.
	instruments map[string]map[string]string
	// copies are the tests all of whose senders are to copy.
	copies map[string]bool
	// discarded is how many attempts at each trial brought back nothing, or too few pairs.
	discarded map[string]int
	// overhead is how much longer than their expected duration trials have
	// taken in all, over measured of them.
	overhead time.Duration
	measured int
}

// trial does one trial and keeps it.
func (r *run) trial(ctx context.Context, planned experiment.PlannedTrial) error {
	r.emit(Event{Trial: planned})
	if err := r.rest(ctx, planned.Rest); err != nil {
		return err
	}
	start := time.Now()
	spec := planned.Spec
	if copies := r.copies[planned.Test] || r.instruments[planned.Test][sendMethod] == measurement.SentCopy; copies && spec.SendMethod == measurement.SendFast && kind.OptionNamed(sendMethod).Takes(spec.Kind) {
		spec.SendMethod = measurement.SendCopy // also where it need not any more
	}
	wanted := trial.Wanted{ID: planned.ID, Path: planned.Path, Spec: spec, First: r.first[planned.Path], Instrument: r.instruments[planned.Test], Others: r.Others, Unlimited: r.Unlimited,
		Switched: func(s testbed.Switched) { r.emit(Event{Trial: planned, Switched: &s}) }}
	done, err := trial.Do(ctx, r.Testbed, wanted, func(p measurement.Progress) {
		r.emit(Event{Trial: planned, Live: &p})
	})
	if errors.Is(err, trial.ErrInterrupted) {
		return nil // it is still the next of the plan
	}
	if err != nil {
		return err
	}
	if fault, ok := errors.AsType[*testbed.Fault](done.Err); ok {
		r.booked = fault.Of(planned.Path)
	}
	elapsed := time.Since(start)
	finished := planned.Trial()
	finished.Start, finished.Elapsed = start, measurement.SecondsOf(elapsed)
	finished.Gate, finished.Fingerprint, finished.Outcome = done.Gate, &done.Fingerprint, done.Outcome
	if before := r.discarded[planned.ID]; before > 0 {
		finished.Attempt = before + 1
	}
	r.sayOnce(planned.Path+" source", &finished.Source)
	r.sayOnce(planned.Path+" destination", &finished.Destination)
	r.measured++
	r.overhead += elapsed - planned.Spec.ExpectedDuration().Duration()
	if repeated, err := r.repeat(ctx, planned, finished); repeated || err != nil {
		return err
	}
	if err := r.keep(ctx, planned, finished, done.Err); err != nil {
		return err
	}
	return r.copied(ctx, spec, finished)
}

// mostAttempts bounds how often a trial is begun that brings back nothing.
const mostAttempts = 3

// repeat sets a trial aside whose ends brought back nothing, or too few pairs, and has it
// done again at the end of its block: otherwise the block lacks a partner.
func (r *run) repeat(ctx context.Context, planned experiment.PlannedTrial, t measurement.Trial) (bool, error) {
	planner, can := r.Planner.(repeater)
	if !can || r.SetAside == nil || !gate.NoResult(t.Gate) || r.discarded[t.ID]+1 == mostAttempts || r.fault() != nil {
		return false, nil // where the run stops at a fault, the trial says what broke
	}
	if err := r.Keeper.Put(ctx, t); err != nil {
		return false, err
	}
	r.emit(Event{Trial: planned, Finished: &t})
	if err := r.SetAside(ctx, Repeated{IDs: []string{t.ID}, NoResult: &t}); err != nil {
		return false, err
	}
	r.discarded[t.ID]++
	planner.Again([]string{t.ID}, true)
	// They were said of what does not count.
	delete(r.said, planned.Path+" source")
	delete(r.said, planned.Path+" destination")
	return true, nil
}

// sendMethod is the option, and the setting, of how a payload is sent.
const sendMethod = "send_method"

// copied has all trials of a test done again, with copies, if a trial is the first in
// which a sender had to make them, or had to for some of its flows: what splice(2) takes,
// other runs of the user may have taken. So all trials of a test are measured in one way.
func (r *run) copied(ctx context.Context, spec measurement.Spec, t measurement.Trial) error {
	planner, can := r.Planner.(repeater)
	if !can || r.SetAside == nil || spec.SendMethod != measurement.SendFast {
		return nil
	}
	was := r.instruments[t.Test][sendMethod]
	switch t.Effective[sendMethod] {
	case "", measurement.SentSplice, measurement.SentSendfile:
		return nil
	case measurement.SentCopy:
		if was == "" || was == measurement.SentCopy {
			return nil
		}
	}
	stored, err := r.Keeper.Trials(ctx)
	if err != nil {
		return err
	}
	var ids []string
	for _, s := range stored {
		if s.Test == t.Test {
			ids = append(ids, s.ID)
		}
	}
	if err := r.SetAside(ctx, Repeated{IDs: ids, Copied: t.Test}); err != nil {
		return err
	}
	planner.Again(ids, false)
	r.done -= len(ids)
	r.copies[t.Test] = true
	delete(r.instruments, t.Test)
	clear(r.said) // some of it in trials that do not count any more
	return nil
}

// keep stores a trial and tells of it.
func (r *run) keep(ctx context.Context, planned experiment.PlannedTrial, t measurement.Trial, testErr error) error {
	ended := time.Now()
	if err := r.Keeper.Put(ctx, t); err != nil {
		return err
	}
	stored := time.Since(ended)
	if t.Gate.Passed {
		r.rebuilds = 0
	}
	r.note(t, testErr)
	r.emit(Event{Trial: planned, Finished: &t, Stored: stored})
	return nil
}

// rest waits before a trial, unless it is the first; ctx's error when it is over.
func (r *run) rest(ctx context.Context, pause time.Duration) error {
	if r.measured == 0 || pause == 0 {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pause):
		return nil
	}
}

// sayOnce drops the environment of an end that is the same as before.
func (r *run) sayOnce(whose string, end *measurement.End) {
	if maps.Equal(r.said[whose], end.Environment) {
		end.Environment = nil
	} else if end.Environment != nil {
		r.said[whose] = end.Environment
	}
}

// restore builds a testbed that broke again, if anything is left to do on it.
func (r *run) restore(ctx context.Context) error {
	broken := r.Testbed.Err()
	if broken == nil {
		return nil
	}
	if err := r.book(ctx, broken); err != nil {
		return err
	}
	if err := r.fault(); err != nil {
		return err
	}
	if _, more := r.Planner.Next(); !more { // what is left may only be found now
		return nil
	}
	if r.rebuilds == maxRebuilds {
		return fmt.Errorf("the testbed broke %d times without a trial that counts, last because %w", maxRebuilds+1, broken)
	}
	// What a broken testbed says when it is closed adds nothing to broken.
	r.Testbed.Close()
	next, err := r.Build(ctx)
	if err != nil {
		return fmt.Errorf("build the testbed again (it broke: %w): %w", broken, err)
	}
	r.rebuilds++
	r.booked = false
	r.Testbed = next
	r.emit(Event{Rebuilt: broken})
	return nil
}

// book makes the death of a hop the failure of the next trial on its path, unless it
// was that of the trial under way: that is when a hop that nobody builds again would
// have failed. So it is never lost, and never that of another path.
func (r *run) book(ctx context.Context, broken error) error {
	fault, ok := errors.AsType[*testbed.Fault](broken)
	if !ok || r.booked {
		return nil
	}
	r.booked = true
	for _, p := range r.Planner.Left() {
		if !fault.Of(p.Path) {
			continue
		}
		died := measurement.Finding{Name: "test", Code: measurement.FoundHopDiedBefore, Text: fault.Error(), Fatal: true, PathFailure: true}
		failed := p.Trial()
		failed.Start, failed.Gate, failed.Metrics = time.Now(), gate.Of([]measurement.Finding{died}), measurement.Metrics{}
		return r.keep(ctx, p, failed, fault)
	}
	return nil
}

func (r *run) emit(e Event) {
	// An estimate of how long the rest will take.
	perTrial := 100 * time.Millisecond
	if r.measured > 0 {
		perTrial = r.overhead / time.Duration(r.measured)
	}
	left := r.Planner.Left()
	e.Left = experiment.Plan{Trials: left}.ExpectedDuration(perTrial)
	e.Done, e.Planned = r.done, r.done+len(left)
	r.OnEvent(e)
}
