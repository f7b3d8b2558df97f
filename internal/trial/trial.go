// Package trial does one trial on any testbed: it switches to the path, traces
// it, has all sources prepare the test and start it together, collects what they
// bring back, combines it, compares the path taken with the one wanted, and has
// the gates judge the whole.
package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/clock"
	"github.com/hopbench/hopbench/internal/gate"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/testbed"
)

// Wanted is a trial to be done.
type Wanted struct {
	ID   string
	Path string
	Spec measurement.Spec
	// First is the fingerprint of the path's first trial of the run, zero before
	// it: what is compared with on a testbed that does not declare its paths.
	First measurement.Fingerprint
	// Instrument is how the first trial of the test that passed was measured, nil
	// before that.
	Instrument map[string]string
	// Others is how many other runs have measured on this machine since it was asked
	// last; nil where that is not known.
	Others func() int
	// Unlimited lets the trial take as long as the test itself does: nothing is
	// known of the path from which it would follow how long that may be.
	Unlimited bool
	// Switched hears that another path came into force than was before; nil where nobody
	// wants to.
	Switched func(testbed.Switched)
}

// Done is a trial that was done.
type Done struct {
	Outcome     measurement.Outcome
	Fingerprint measurement.Fingerprint
	Gate        measurement.Gate
	// Err is why the test failed, nil if it did not.
	Err error
}

// grace is how much longer than expected a trial may take before it is given
// up: connecting, tracing and collecting on a slow or lossy path. Each pair of thousands adds
// gracePerPair, in which it is told of its test and what it brought is heard.
const (
	grace        = 10 * time.Second
	gracePerPair = 2 * time.Millisecond
)

// ErrInterrupted is why a trial is to be done again: a hop died that is none of its
// path, and the testbed broke with it. It says nothing of the path.
var ErrInterrupted = errors.New("interrupted by the death of another path's hop")

// Do does a trial. The error is that of ctx, which ended it, or ErrInterrupted: half a
// trial is no trial; or of a testbed that cannot keep what the trial would bring. Progress
// may be nil.
func Do(ctx context.Context, bed testbed.Testbed, w Wanted, progress func(measurement.Progress)) (Done, error) {
	return do(ctx, bed, w, progress, clockOffset)
}

func do(ctx context.Context, bed testbed.Testbed, w Wanted, progress func(measurement.Progress), offset func(since time.Time) time.Duration) (Done, error) {
	var d Done
	began := time.Now()
	before := offset(began)
	up, release := whileUp(ctx, bed, w.Path)
	defer release()
	if attempter, ok := bed.(testbed.Attempter); ok {
		if err := attempter.Begin(ctx, w.ID); err != nil {
			return d, err
		}
	}
	switched, err := switchTo(up, bed, w.Path)
	if err == nil {
		if switched.Changed && w.Switched != nil {
			w.Switched(switched)
		}
		longest := longestOf(w.Spec)
		path, _ := pathOf(bed, w.Path)
		if len(path.Pairs) > 0 {
			longest += mostTraces * path.Pairs[0].Expect.RoundTrip
		}
		if len(path.Pairs) > 1 {
			longest += stragglers(w.Spec, len(path.Pairs)) + time.Duration(len(path.Pairs))*gracePerPair
		}
		if patient, ok := bed.(testbed.Patient); ok {
			longest += patient.Away()
		}
		longest = longest.Round(time.Second)
		limited := ctx
		if !w.Unlimited {
			var cancel context.CancelFunc
			limited, cancel = context.WithTimeout(ctx, longest)
			defer cancel()
		}
		d.Outcome, d.Fingerprint, err = Measure(limited, bed, w, progress)
		d.Fingerprint.Switched, d.Fingerprint.Settle = switched.Changed, measurement.SecondsOf(switched.Settle)
		d.Fingerprint.Switch = SwitchOf(switched)
		if err != nil && limited.Err() != nil {
			err = fmt.Errorf("no result within %v: %w", longest, err)
		}
		if confirmer, ok := bed.(testbed.Confirmer); ok {
			if other := confirmer.Confirm(up, w.Path); other != nil {
				// Nothing is learned from what may have been another path.
				d.Fingerprint.Matches, d.Fingerprint.Learned = false, false
				d.Fingerprint.Why = &measurement.Finding{Code: measurement.FoundNotConfirmed, Text: other.Error()}
			}
		}
	} else {
		d.Fingerprint.Why = &measurement.Finding{Code: measurement.FoundNotSwitched}
		d.Fingerprint.Switch = SwitchOf(switched)
	}
	if ctx.Err() != nil {
		return d, ctx.Err()
	}
	if broken := bed.Err(); broken != nil {
		fault, known := errors.AsType[*testbed.Fault](broken)
		if !known {
			fault = &testbed.Fault{Err: broken}
		}
		switch {
		case fault.Of(w.Path), err != nil && len(fault.Paths) == 0:
			err = fault
		case err != nil:
			return d, fmt.Errorf("%w: %w", ErrInterrupted, fault)
		}
	}
	// What is no number can be neither judged nor stored.
	d.Outcome.KeepFinite()
	d.Fingerprint, _ = measurement.OnlyFinite(d.Fingerprint)
	l := limits(bed, w)
	l.ClockStep = offset(began) - before
	if w.Others != nil {
		l.OtherRuns = w.Others()
	}
	d.Gate, _ = measurement.OnlyFinite(gate.Judge(w.Spec, d.Outcome, d.Fingerprint, l, err))
	d.Err = err
	d.Outcome.Thin()
	return d, nil
}

// longestOf is how long a trial may take of whose path nothing is known, with the wait for
// the answers to its last requests.
func longestOf(spec measurement.Spec) time.Duration {
	return max(2*(spec.ExpectedDuration()+spec.Timeout).Duration(), probe.Longest(spec.Defaults())) + grace
}

// clockOffset is by how much more this machine's real-time clock has gone forward since a
// time than its monotonic clock (clock_gettime(2)): it grows when the clock is set, while
// slewing (adjtime(3)) moves both alike. The two are read one after the other; the median
// of some readings has none in it between whose halves this process had to wait for a CPU.
func clockOffset(since time.Time) time.Duration {
	var offsets [5]time.Duration
	for i := range offsets {
		now := time.Now()
		offsets[i] = now.Round(0).Sub(since.Round(0)) - now.Sub(since) // Round strips the monotonic reading
	}
	slices.Sort(offsets[:])
	return offsets[len(offsets)/2]
}

// limits are those of the gates. A reader can judge what is compared with
// nothing, and the CPUs that a testbed shares with its paths are its
// nature.
func limits(bed testbed.Testbed, w Wanted) gate.Limits {
	paths := bed.Paths()
	alone := len(paths) == 1
	l := gate.Limits{Path: w.Path, BusyWarns: alone || bed.Info().Relative, FewWarn: alone, Instrument: w.Instrument}
	if path, err := pathOf(bed, w.Path); err == nil {
		l.Limits, l.Pairs = path.Limits, len(path.Pairs)
	}
	return l
}

func pathOf(bed testbed.Testbed, name string) (testbed.Path, error) {
	paths := bed.Paths()
	i := slices.IndexFunc(paths, func(p testbed.Path) bool { return p.Name == name })
	if i < 0 {
		return testbed.Path{}, fmt.Errorf("the testbed has no path %q", name)
	}
	return paths[i], nil
}

// switchTo brings a path into force where the testbed switches its paths, and
// waits until it has settled.
func switchTo(ctx context.Context, bed testbed.Testbed, path string) (testbed.Switched, error) {
	switcher, ok := bed.(testbed.Switcher)
	if !ok {
		return testbed.Switched{}, nil
	}
	s, err := switcher.Switch(ctx, path)
	if err != nil {
		return s, fmt.Errorf("switch the path: %w", err)
	}
	select {
	case <-time.After(s.Settle):
		return s, nil
	case <-ctx.Done():
		return s, ctx.Err()
	}
}

// SwitchOf is what a trial keeps of commands that switched to its path, nil where there
// were none.
func SwitchOf(s testbed.Switched) *measurement.PathSwitch {
	if len(s.Set) == 0 {
		return nil
	}
	return &measurement.PathSwitch{Set: s.Set, Took: measurement.SecondsOf(s.Took), Proof: s.Proof, Evidence: s.Evidence}
}

// trial is one under way, on the path that is in force.
type trial struct {
	Wanted
	bed     testbed.Testbed
	path    testbed.Path
	spec    measurement.Spec
	sources []testbed.Agent // of the path's pairs
	failed  []error         // of each pair, why it brought back nothing
	// unanswered is how many requests of each pair had no answer, though it brought back others.
	unanswered []int64
	began      time.Time
	own        *clock.Standstills // of this process
}

// Measure does a trial's test on the path as it is, and says which path that
// was, also when the test failed.
func Measure(ctx context.Context, bed testbed.Testbed, w Wanted, progress func(measurement.Progress)) (measurement.Outcome, measurement.Fingerprint, error) {
	t := &trial{Wanted: w, bed: bed, spec: w.Spec, began: time.Now(), own: clock.WatchStandstills()}
	defer t.own.Close()
	failed := func(code measurement.FindingCode, err error) (measurement.Outcome, measurement.Fingerprint, error) {
		return measurement.Outcome{}, measurement.Fingerprint{Why: &measurement.Finding{Code: code, Text: err.Error()}}, err
	}
	var err error
	if t.path, err = pathOf(bed, w.Path); err != nil {
		return failed(measurement.FoundPathFailed, err)
	}
	for _, pair := range t.path.Pairs {
		source, err := bed.Agent(pair.Source)
		if err != nil {
			return failed(measurement.FoundPathFailed, err)
		}
		t.sources = append(t.sources, source)
	}
	t.failed, t.unanswered = make([]error, len(t.sources)), make([]int64, len(t.sources))
	ctx, release := whileUp(ctx, bed, w.Path)
	defer release()
	observer, _ := bed.(testbed.Observer)
	if observer != nil {
		if err := observer.Reset(ctx, w.Path); err != nil {
			return failed(measurement.FoundPathFailed, err)
		}
	}
	outer := t.traceOuter(ctx)
	if err := t.onlyPairFailed(ctx); err != nil {
		_, f, _ := failed(measurement.FoundTraceFailed, err)
		f.Why.Outer = true
		return measurement.Outcome{}, f, err
	}
	seen := t.traces(ctx)
	if err := t.onlyPairFailed(ctx); err != nil {
		_, f, _ := failed(measurement.FoundTraceFailed, err)
		return measurement.Outcome{}, f, fmt.Errorf("trace the path: %w", err)
	}
	var observation testbed.Observation
	if observer != nil {
		// The traces took places of a hop that lets only so many flows pass.
		if err := observer.Reset(ctx, w.Path); err != nil {
			return failed(measurement.FoundPathFailed, err)
		}
		observation = observer.Observe(ctx, w.Path, w.Spec)
		progress = observed(observation, progress)
	}
	outcome, each, err := t.test(ctx, progress)
	if observation != nil {
		err = errors.Join(err, observation.End(ctx, &outcome, err))
	}
	return outcome, t.fingerprints(seen, outer, each), err
}

// hopsEvery is how often progress says what the hops have counted.
const hopsEvery = time.Second

// observed tells an observation of the progress, and adds to it what the hops count. The
// progress may be nil.
func observed(o testbed.Observation, progress func(measurement.Progress)) func(measurement.Progress) {
	said := time.Now()
	return func(p measurement.Progress) {
		o.Progress(p)
		if progress == nil {
			return
		}
		if now := time.Now(); now.Sub(said) >= hopsEvery {
			said, p.Hops = now, o.Hops()
		}
		progress(p)
	}
}

// request is what the source of a pair is asked to do: the test, with the interface and
// DSCP that make the pair's path, and without what is the business of all pairs together.
func (t *trial) request(p testbed.Pair) probe.Request {
	r := p.Request
	r.ID, r.Spec = t.ID, t.spec
	r.Spec.Ramp, r.Spec.Waves, r.Spec.WaveEvery, r.Spec.MissingPairs = 0, 0, 0, 0
	r.Spec.Device = cmp.Or(p.Request.Spec.Device, r.Spec.Device)
	r.Spec.DSCP = cmp.Or(p.Request.Spec.DSCP, r.Spec.DSCP)
	return r
}

// onlyPairFailed is why the pair of a path failed that has one.
func (t *trial) onlyPairFailed(ctx context.Context) error {
	if len(t.failed) > 1 || t.failed[0] == nil {
		return nil // the others go on
	}
	t.findHoles(ctx)
	return t.failed[0]
}

// whileUp is a context that ends with the testbed: one that breaks ends a trial on the
// path at once, not when the trial's time is over, unless pairs of it can go on. The
// caller calls release.
func whileUp(ctx context.Context, bed testbed.Testbed, path string) (up context.Context, release func()) {
	up, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-bed.Done():
			if !goesOn(bed, path) {
				cancel(bed.Err())
			}
		case <-up.Done():
		}
	})
	return up, func() {
		cancel(nil)
		watching.Wait()
	}
}
