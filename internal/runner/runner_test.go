package runner_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/experiments"
	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/store"
)

// bench is a testbed whose trials do as the test says; it measures nothing.
type bench struct {
	measure func(experiment.PlannedTrial) error
	change  func(*measurement.Outcome, *measurement.Fingerprint) // nil for none
	broken  error
	closed  int
}

func (b *bench) Info() result.Testbed           { return result.Testbed{Kind: "lab", Relative: true} }
func (b *bench) Environment() map[string]string { return nil }
func (b *bench) Facts() []string                { return nil }
func (b *bench) Broken() error                  { return b.broken }
func (b *bench) Close() error                   { b.closed++; return nil }

func (b *bench) Measure(_ context.Context, p experiment.PlannedTrial, _ func(measurement.Progress)) (measurement.Outcome, measurement.Fingerprint, error) {
	if err := b.measure(p); err != nil {
		return measurement.Outcome{}, measurement.Fingerprint{Matches: true}, err
	}
	o := goodTCP()
	o.Flows = make([]measurement.Flow, p.Spec.Flows)
	for i := range o.Flows {
		o.Flows[i].ReceivedBytes = 1e6
	}
	o.Latency = &measurement.Distribution{Samples: 100, Min: 1e-3, Max: 2e-3}
	f := measurement.Fingerprint{Matches: true}
	if b.change != nil {
		b.change(&o, &f)
	}
	return o, f, nil
}

func setUp(t *testing.T) (*experiment.Experiment, experiment.Plan, *store.Store) {
	t.Helper()
	text, err := experiments.Read("routing-appliance")
	if err != nil {
		t.Fatal(err)
	}
	head := store.Head{Experiment: string(text), File: "routing-appliance.yaml", Seed: 7, Blocks: 2}
	e, plan, err := runner.Prepare(head)
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Create(t.TempDir(), head)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return e, plan, st
}

func ids(trials []measurement.Trial) []string {
	var out []string
	for _, t := range trials {
		out = append(out, t.ID)
	}
	return out
}

func planned(p experiment.Plan) []string {
	var out []string
	for _, t := range p.Trials {
		out = append(out, t.ID)
	}
	return out
}

// A stopped run keeps what it has; resuming does exactly the rest, in the
// plan's order.
func TestStopAndResume(t *testing.T) {
	e, plan, st := setUp(t)
	ctx, cancel := context.WithCancel(t.Context())
	var done []string
	first := &bench{}
	first.measure = func(p experiment.PlannedTrial) error {
		if len(done) == 5 {
			cancel()
			return ctx.Err()
		}
		done = append(done, p.ID)
		return nil
	}
	options := runner.Options{Experiment: e, Plan: plan, Testbed: first, Keeper: st}
	if err := runner.Run(ctx, options); !errors.Is(err, context.Canceled) {
		t.Fatalf("stopped run: %v, want context.Canceled", err)
	}
	if first.closed != 1 {
		t.Errorf("the testbed was closed %d times, want once", first.closed)
	}
	options.Testbed = &bench{measure: func(p experiment.PlannedTrial) error {
		done = append(done, p.ID)
		return nil
	}}
	if err := runner.Run(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(done, planned(plan)) {
		t.Errorf("measured %v\nplanned  %v", done, planned(plan))
	}
	trials, err := st.Trials(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(ids(trials), planned(plan)) {
		t.Errorf("stored  %v\nplanned %v", ids(trials), planned(plan))
	}
}

// A number that is none is left out of its trial, which says so; the run goes on.
func TestNumbersThatAreNone(t *testing.T) {
	e, plan, st := setUp(t)
	testbed := &bench{measure: func(experiment.PlannedTrial) error { return nil }, change: func(o *measurement.Outcome, f *measurement.Fingerprint) {
		o.Metrics["rtt_p50_seconds"] = math.NaN()
		o.Source.CPUBusy = math.Inf(1)
		f.Hops = []measurement.TraceHop{{TTL: 1, RTT: measurement.Seconds(math.NaN())}}
	}}
	if err := runner.Run(t.Context(), runner.Options{Experiment: e, Plan: plan, Testbed: testbed, Keeper: st}); err != nil {
		t.Fatal(err)
	}
	trials, err := st.Trials(t.Context())
	if err != nil || len(trials) != len(plan.Trials) {
		t.Fatalf("%d trials, %v", len(trials), err)
	}
	for _, trial := range trials {
		if _, there := trial.Metrics["rtt_p50_seconds"]; there || trial.Source.CPUBusy != 0 || !slices.Contains(trial.Facts, "2 values of this trial were not finite numbers and are left out.") {
			t.Errorf("trial %s: %v, busy %v, facts %q", trial.ID, trial.Metrics, trial.Source.CPUBusy, trial.Facts)
		}
	}
}

// A failing trial is a hole with its reason; the run goes on.
func TestFailedTrialIsKeptWithItsReason(t *testing.T) {
	e, plan, st := setUp(t)
	bad := plan.Trials[3].ID
	testbed := &bench{measure: func(p experiment.PlannedTrial) error {
		if p.ID == bad {
			return errors.New("the peer vanished")
		}
		return nil
	}}
	var events int
	if err := runner.Run(t.Context(), runner.Options{
		Experiment: e, Plan: plan, Testbed: testbed, Keeper: st,
		OnEvent: func(runner.Event) { events++ },
	}); err != nil {
		t.Fatal(err)
	}
	trials, err := st.Trials(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, trial := range trials {
		if failed := trial.ID == bad; failed == trial.Gate.Passed {
			t.Errorf("trial %s: gate %+v", trial.ID, trial.Gate)
		}
		if trial.ID == bad && !strings.Contains(trial.Gate.Checks[0].Reason, "vanished") {
			t.Errorf("reason %q does not say why", trial.Gate.Checks[0].Reason)
		}
	}
	if len(trials) != len(plan.Trials) || events < 2*len(trials) {
		t.Errorf("%d of %d trials, %d events", len(trials), len(plan.Trials), events)
	}
}

// A testbed that breaks is built again, a bounded number of times.
func TestBrokenTestbed(t *testing.T) {
	for _, breaks := range []int{1, 3, 100} {
		t.Run(fmt.Sprint(breaks), func(t *testing.T) {
			e, plan, st := setUp(t)
			built, left := 0, breaks
			var all []*bench
			build := func(context.Context) (runner.Testbed, error) {
				b := &bench{}
				b.measure = func(experiment.PlannedTrial) error {
					if left > 0 {
						left--
						b.broken = errors.New("node vm2 was killed")
						return errors.New("connection lost")
					}
					return nil
				}
				built++
				all = append(all, b)
				return b, nil
			}
			first, err := build(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var rebuilt int
			err = runner.Run(t.Context(), runner.Options{
				Experiment: e, Plan: plan, Testbed: first, Build: build, Keeper: st,
				OnEvent: func(e runner.Event) {
					if e.Rebuilt != nil {
						rebuilt++
					}
				},
			})
			if want := min(breaks, 3); built != 1+want || rebuilt != want {
				t.Errorf("built %d times, told of %d, want %d again", built, rebuilt, want)
			}
			for i, b := range all {
				if b.closed == 0 {
					t.Errorf("testbed %d was not closed", i)
				}
			}
			if (err != nil) != (breaks > 3) {
				t.Errorf("error = %v after %d breaks", err, breaks)
			}
			if err != nil && !strings.Contains(err.Error(), "vm2 was killed") {
				t.Errorf("error %q does not say why the testbed broke", err)
			}
		})
	}
}

// By choice a run stops at the first break, with what was measured until then
// and the trial in which it broke, also when that was the last one.
func TestStopOnFault(t *testing.T) {
	for _, last := range []bool{false, true} {
		e, plan, st := setUp(t)
		breaking := plan.Trials[2].ID
		if last {
			breaking = plan.Trials[len(plan.Trials)-1].ID
		}
		b := &bench{}
		b.measure = func(p experiment.PlannedTrial) error {
			if p.ID == breaking {
				b.broken = errors.New("hop fw died")
				return errors.New("connection lost")
			}
			return nil
		}
		err := runner.Run(t.Context(), runner.Options{Experiment: e, Plan: plan, Testbed: b, Keeper: st, StopOnFault: true})
		if !errors.Is(err, runner.ErrFault) || !strings.Contains(err.Error(), "hop fw died") {
			t.Errorf("last %v: error %v", last, err)
		}
		trials, err := st.Trials(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		broke := trials[len(trials)-1]
		if broke.ID != breaking || broke.Gate.Passed || broke.Gate.Checks[0].Reason != "hop fw died" || b.closed != 1 {
			t.Errorf("last %v: %d trials, the last %s with %+v, closed %d times", last, len(trials), broke.ID, broke.Gate, b.closed)
		}
	}
}
