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
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/testbed"
	"github.com/hopbench/hopbench/internal/testutil"
	"github.com/hopbench/hopbench/internal/words"
)

// bench is a testbed whose trials do as the test says; it measures nothing.
type bench struct {
	plan    experiment.Plan
	limits  map[string]testbed.Limits           // by path
	measure func(experiment.PlannedTrial) error // nil for what does not fail
	change  func(*measurement.Outcome)          // nil for none
	send    func(probe.Request) string          // the trial's send_method, nil for none
	broken  error
	closed  int
}

func (b *bench) Info() result.Testbed                { return result.Testbed{Kind: "lab", Relative: true} }
func (b *bench) Environment() map[string]string      { return nil }
func (b *bench) Facts() []string                     { return nil }
func (b *bench) Done() <-chan struct{}               { return nil }
func (b *bench) Err() error                          { return b.broken }
func (b *bench) Close() error                        { b.closed++; return nil }
func (b *bench) Agent(string) (testbed.Agent, error) { return b.agent(), nil }
func (b *bench) agent() testbed.Agent                { return benchAgent{b} }

func (b *bench) Paths() (paths []testbed.Path) {
	for _, name := range pathNames(b.plan) {
		paths = append(paths, testbed.Path{Name: name, Pairs: []testbed.Pair{{Source: "a", Destination: "b"}}, Limits: b.limits[name]})
	}
	return paths
}

func pathNames(p experiment.Plan) (names []string) {
	for _, t := range p.Trials {
		if !slices.Contains(names, t.Path) {
			names = append(names, t.Path)
		}
	}
	return names
}

// benchAgent is the source of a bench's trials.
type benchAgent struct{ *bench }

func (a benchAgent) Run(_ context.Context, r probe.Request, _ func(measurement.Progress)) (measurement.Outcome, error) {
	i := slices.IndexFunc(a.plan.Trials, func(p experiment.PlannedTrial) bool { return p.ID == r.ID })
	if a.measure != nil {
		if err := a.measure(a.plan.Trials[i]); err != nil {
			return measurement.Outcome{}, err
		}
	}
	o := goodTCP()
	o.Flows = make([]measurement.Flow, r.Spec.Flows)
	for i := range o.Flows {
		o.Flows[i].ReceivedBytes = 1e6
	}
	o.Latency = &measurement.Distribution{Samples: 100, Min: 1e-3, Max: 2e-3}
	if a.change != nil {
		a.change(&o)
	}
	if a.send != nil {
		if method := a.send(r); method != "" {
			o.Effective = map[string]string{"send_method": method}
		}
	}
	return o, nil
}

// finished carries out a plan on a testbed, and returns what is stored of it.
func finished(t *testing.T, plan experiment.Plan, bed testbed.Testbed, st *store.Store) []measurement.Trial {
	t.Helper()
	testutil.OK(t, runner.Run(t.Context(), runner.Options{Planner: runner.Fixed(plan), Testbed: bed, Keeper: st}))
	trials, err := st.Trials(t.Context())
	testutil.OK(t, err)
	return trials
}

// goodTCP is an outcome that passes every gate for a 1-second test.
func goodTCP() measurement.Outcome {
	bins := make([]float64, 130)
	for i := range bins {
		bins[i] = 1e6
	}
	return measurement.Outcome{
		Metrics:    measurement.Metrics{"goodput_bits_per_second": 0.8e9},
		Throughput: &measurement.Bins{Width: 0.01, Bytes: bins}, Warmup: 0.3,
		Source: measurement.End{Environment: map[string]string{"kernel": "6"}},
	}
}

func setUp(t *testing.T) (experiment.Plan, *store.Store) {
	t.Helper()
	text, err := experiments.Read("routing-appliance")
	testutil.OK(t, err)
	_, plan, st := prepared(t, store.Head{Experiment: string(text), File: "routing-appliance.yaml", Seed: 7, Blocks: 2})
	return plan, st
}

// prepared plans a run and makes its store.
func prepared(t *testing.T, head store.Head) (*experiment.Experiment, experiment.Plan, *store.Store) {
	t.Helper()
	e, plan, err := runner.Prepare(head)
	testutil.OK(t, err)
	st, err := store.Create(t.TempDir(), head)
	testutil.OK(t, err)
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
	plan, st := setUp(t)
	ctx, cancel := context.WithCancel(t.Context())
	var done []string
	first := &bench{plan: plan}
	first.measure = func(p experiment.PlannedTrial) error {
		if len(done) == 5 {
			cancel()
			return ctx.Err()
		}
		done = append(done, p.ID)
		return nil
	}
	options := runner.Options{Planner: runner.Fixed(plan), Testbed: first, Keeper: st}
	if err := runner.Run(ctx, options); !errors.Is(err, context.Canceled) {
		t.Fatalf("stopped run: %v, want context.Canceled", err)
	}
	if first.closed != 1 {
		t.Errorf("the testbed was closed %d times, want once", first.closed)
	}
	options.Planner = runner.Fixed(plan)
	options.Testbed = &bench{plan: plan, measure: func(p experiment.PlannedTrial) error {
		done = append(done, p.ID)
		return nil
	}}
	testutil.OK(t, runner.Run(t.Context(), options))
	if !slices.Equal(done, planned(plan)) {
		t.Errorf("measured %v\nplanned  %v", done, planned(plan))
	}
	trials, err := st.Trials(t.Context())
	testutil.OK(t, err)
	if !slices.Equal(ids(trials), planned(plan)) {
		t.Errorf("stored  %v\nplanned %v", ids(trials), planned(plan))
	}
	// Each run says of each path what its ends are, once.
	said := 0
	for i, trial := range trials {
		if trial.Source.Environment != nil {
			said++
		} else if i == 0 || i == 5 {
			t.Errorf("trial %d does not say what its source is", i)
		}
	}
	if most := 2 * len(pathNames(plan)); said > most {
		t.Errorf("%d trials say what their source is, at most %d may", said, most)
	}
}

// A number that is none is left out of its trial, which says so; the run goes on.
func TestNumbersThatAreNone(t *testing.T) {
	plan, st := setUp(t)
	testbed := &bench{plan: plan, change: func(o *measurement.Outcome) {
		o.Metrics["rtt_p50_seconds"] = math.NaN()
		o.Source.CPUBusy = math.Inf(1)
	}}
	trials := finished(t, plan, testbed, st)
	if len(trials) != len(plan.Trials) {
		t.Fatalf("%d trials", len(trials))
	}
	for _, trial := range trials {
		if _, there := trial.Metrics["rtt_p50_seconds"]; there || trial.Source.CPUBusy != 0 || !slices.Contains(trial.Facts, "2 values of this trial were not finite numbers and are left out.") {
			t.Errorf("trial %s: %v, busy %v, facts %q", trial.ID, trial.Metrics, trial.Source.CPUBusy, trial.Facts)
		}
	}
}

// A failing trial is a hole with its reason; the run goes on.
func TestFailedTrialIsKeptWithItsReason(t *testing.T) {
	plan, st := setUp(t)
	bad := plan.Trials[3].ID
	testbed := &bench{plan: plan, measure: func(p experiment.PlannedTrial) error {
		if p.ID == bad {
			return errors.New("the peer vanished")
		}
		return nil
	}}
	var events int
	if err := runner.Run(t.Context(), runner.Options{
		Planner: runner.Fixed(plan), Testbed: testbed, Keeper: st,
		OnEvent: func(runner.Event) { events++ },
	}); err != nil {
		t.Fatal(err)
	}
	trials, err := st.Trials(t.Context())
	testutil.OK(t, err)
	for _, trial := range trials {
		if failed := trial.ID == bad; failed == trial.Gate.Passed {
			t.Errorf("trial %s: gate %+v", trial.ID, trial.Gate)
		}
		if trial.ID == bad && !strings.Contains(trial.Gate.Findings[0].Text, "vanished") {
			t.Errorf("reason %q does not say why", trial.Gate.Findings[0].Text)
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
			plan, st := setUp(t)
			built, left := 0, breaks
			var all []*bench
			build := func(context.Context) (testbed.Testbed, error) {
				b := &bench{plan: plan}
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
			testutil.OK(t, err)
			var rebuilt int
			err = runner.Run(t.Context(), runner.Options{
				Planner: runner.Fixed(plan), Testbed: first, Build: build, Keeper: st,
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

// The death of a hop is a failure of its path, whoever had his turn: the trial that it
// interrupts is done again, and no other path pays for it.
func TestTheDeathOfAHopIsItsPaths(t *testing.T) {
	for name, killed := range map[string]struct {
		during  string // path whose trial is under way, the second of it
		between bool   // at its end
	}{
		"during its own trial":     {during: "hopped"},
		"during another path's":    {during: "direct"},
		"after another path's":     {during: "direct", between: true},
		"after a trial of its own": {during: "hopped", between: true},
	} {
		t.Run(name, func(t *testing.T) {
			plan := twoPathPlan(4)
			died := &testbed.Fault{Paths: []string{"hopped"}, Err: errors.New("hop fw of path hopped died")}
			var struck string
			var did []string
			seen, begun := 0, false
			build := func(context.Context) (testbed.Testbed, error) {
				b := &bench{plan: plan}
				b.measure = func(p experiment.PlannedTrial) error {
					did = append(did, p.ID)
					if p.Path == killed.during {
						seen++
					}
					if seen == 2 && !begun {
						begun, struck = true, p.ID
						if b.broken = died; !killed.between {
							return errors.New("connection lost")
						}
					}
					return nil
				}
				return b, nil
			}
			first, _ := build(t.Context())
			keeper := &runner.Memory{}
			testutil.OK(t, runner.Run(t.Context(), runner.Options{Planner: runner.Fixed(plan), Testbed: first, Build: build, Keeper: keeper}))
			broken := 0
			for _, trial := range keeper.Kept {
				switch {
				case trial.Gate.Broken:
					broken++
					if trial.Path != "hopped" || !strings.Contains(words.Findings(trial.Gate, true), "hop fw of path hopped died") {
						t.Errorf("trial %s: %+v", trial.ID, trial.Gate)
					}
				case !trial.Gate.Passed:
					t.Errorf("trial %s is missing: %+v", trial.ID, trial.Gate)
				}
			}
			if broken != 1 || len(keeper.Kept) != len(plan.Trials) {
				t.Errorf("%d of %d trials are broken, planned were %d", broken, len(keeper.Kept), len(plan.Trials))
			}
			again := slices.Index(did, struck) != len(did)-1 && slices.Contains(did[slices.Index(did, struck)+1:], struck)
			if want := killed.during == "direct" && !killed.between; again != want {
				t.Errorf("trial %s was done again: %v, want %v", struck, again, want)
			}
		})
	}
}

// twoPathPlan has a trial on each of two paths in every block.
func twoPathPlan(blocks int) (plan experiment.Plan) {
	spec := measurement.Spec{Kind: measurement.TCP, Flows: 2, Duration: 1, MaxWarmup: 0.3}.Defaults()
	for block := range blocks {
		for _, path := range []string{"direct", "hopped"} {
			plan.Trials = append(plan.Trials, experiment.PlannedTrial{
				ID: fmt.Sprintf("b%02d-%s-flows", block+1, path), Block: block + 1, Order: len(plan.Trials) + 1, Path: path, Test: "flows", Spec: spec,
			})
		}
	}
	return plan
}

// By choice a run stops at the first break, with what was measured until then
// and the trial in which it broke, also when that was the last one.
func TestStopOnFault(t *testing.T) {
	for _, last := range []bool{false, true} {
		plan, st := setUp(t)
		breaking := plan.Trials[2].ID
		if last {
			breaking = plan.Trials[len(plan.Trials)-1].ID
		}
		b := &bench{plan: plan}
		b.measure = func(p experiment.PlannedTrial) error {
			if p.ID == breaking {
				b.broken = errors.New("hop fw died")
				return errors.New("connection lost")
			}
			return nil
		}
		err := runner.Run(t.Context(), runner.Options{Planner: runner.Fixed(plan), Testbed: b, Keeper: st, StopOnFault: true})
		if !errors.Is(err, runner.ErrFault) || !strings.Contains(err.Error(), "hop fw died") {
			t.Errorf("last %v: error %v", last, err)
		}
		trials, err := st.Trials(t.Context())
		testutil.OK(t, err)
		broke := trials[len(trials)-1]
		if broke.ID != breaking || broke.Gate.Passed || broke.Gate.Findings[0].Text != "hop fw died" || b.closed != 1 {
			t.Errorf("last %v: %d trials, the last %s with %+v, closed %d times", last, len(trials), broke.ID, broke.Gate, b.closed)
		}
	}
}

// Whoever resumes a run is held to how its first trials were measured.
func TestResumedTrialsAreMeasuredAlike(t *testing.T) {
	plan, st := setUp(t)
	measured := 0
	half := func(method string, trials int) *bench {
		return &bench{
			plan: plan,
			measure: func(experiment.PlannedTrial) error {
				if measured++; measured > trials {
					return context.Canceled
				}
				return nil
			},
			change: func(o *measurement.Outcome) {
				o.Effective = map[string]string{"send_method": method}
			},
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	first := half("splice", len(plan.Trials)/2)
	inner := first.measure
	first.measure = func(p experiment.PlannedTrial) error {
		err := inner(p)
		if err != nil {
			cancel()
		}
		return err
	}
	options := runner.Options{Planner: runner.Fixed(plan), Testbed: first, Keeper: st}
	if err := runner.Run(ctx, options); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	options.Planner, options.Testbed = runner.Fixed(plan), half("copy", len(plan.Trials)*2)
	testutil.OK(t, runner.Run(t.Context(), options))
	trials, err := st.Trials(t.Context())
	testutil.OK(t, err)
	known, refused := map[string]bool{}, 0
	for i, trial := range trials {
		var names []string
		for _, c := range trial.Gate.Findings {
			names = append(names, c.Name)
		}
		resumed := i >= len(plan.Trials)/2
		if !resumed {
			known[trial.Test] = true
		}
		if want := resumed && known[trial.Test]; slices.Contains(names, "instrument") != want {
			t.Errorf("trial %s, resumed: %v, has the checks %q", trial.ID, resumed, names)
		} else if want {
			refused++
		}
	}
	if refused == 0 {
		t.Error("no trial was refused")
	}
}

// A run that is stopped while all trials of a test are done again keeps those of the other
// tests, but in the blocks in which it was when it stopped.
func TestTornBlocksOfATestThatIsDoneAgain(t *testing.T) {
	var plan experiment.Plan
	var stored []measurement.Trial
	for block := range 4 {
		for _, test := range []string{"flows", "latency"} {
			for _, path := range []string{"direct", "hopped"} {
				p := experiment.PlannedTrial{ID: fmt.Sprintf("b%02d-%s-%s", block+1, path, test), Block: block + 1, Order: len(plan.Trials) + 1, Path: path, Test: test}
				plan.Trials = append(plan.Trials, p)
				again := test == "latency" || block == 0 || block == 1 && path == "direct" // "flows" has come so far again
				if again && (block < 3 || path == "direct") {
					stored = append(stored, passed(p))
				}
			}
		}
	}
	ids, repeated := runner.Torn(plan, stored)
	if got, want := strings.Join(ids, " "), "b02-direct-flows b02-direct-latency b02-hopped-latency b04-direct-latency"; got != want || len(repeated) != 2 {
		t.Errorf("%s, blocks %+v, want %s", got, repeated, want)
	}
}

// passed is a trial that counts.
func passed(p experiment.PlannedTrial) measurement.Trial {
	t := p.Trial()
	t.Gate = measurement.Gate{Passed: true}
	return t
}

// A block that is neither whole nor missing is torn; a failure of the path in it stays.
func TestTornBlocks(t *testing.T) {
	plan := twoPathPlan(3)
	trial := func(i int, g measurement.Gate) measurement.Trial {
		stored := plan.Trials[i].Trial()
		stored.Gate = g
		return stored
	}
	good, missing, broken := measurement.Gate{Passed: true}, measurement.Gate{}, measurement.Gate{Broken: true}
	for name, c := range map[string]struct {
		stored []measurement.Trial
		again  string // IDs
	}{
		"nothing":               {},
		"whole blocks":          {stored: []measurement.Trial{trial(0, good), trial(1, good), trial(2, good), trial(3, missing)}},
		"all":                   {stored: []measurement.Trial{trial(0, good), trial(1, good), trial(2, good), trial(3, good), trial(4, good), trial(5, good)}},
		"half a block":          {stored: []measurement.Trial{trial(0, good), trial(1, good), trial(2, good)}, again: "b02-direct-flows"},
		"half a block, missing": {stored: []measurement.Trial{trial(0, missing)}, again: "b01-direct-flows"},
		"half a block, broken":  {stored: []measurement.Trial{trial(0, good), trial(1, good), trial(2, broken)}},
	} {
		ids, repeated := runner.Torn(plan, c.stored)
		if got := strings.Join(ids, " "); got != c.again || len(repeated) != len(ids) {
			t.Errorf("%s: %s, blocks %+v", name, got, repeated)
		}
	}
}
