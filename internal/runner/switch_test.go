package runner_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/testbed"
)

// fastPath has three paths on one set of nodes. The gateway, and the link emulator
// behind the circuit that the bypass has too, are processes.
const fastPath = `format: hopbench.experiment/1
name: fast-path
endpoints: [{name: site}, {name: vm}]
source: site
destination: vm
baseline: gateway
blocks: 2
paths:
  - name: gateway
    hops:
      - {type: router, name: edge, delay: 1ms}
      - {type: router, name: gateway, delay: 1ms, rate: 100Mbit}
  - name: fast
    variant_of: gateway
    bypass: [gateway]
    settle: 3ms
  - name: bare
    variant_of: gateway
    bypass: [gateway, edge]
    settle: 5ms
tests:
  - {name: latency, kind: rr, duration: 200ms, max_warmup: 10ms}
  - {name: flows, kind: tcp, flows: 2, duration: 400ms, max_warmup: 200ms}
`

func setUpFastPath(t *testing.T) (*experiment.Experiment, experiment.Plan, *store.Store) {
	t.Helper()
	return prepared(t, store.Head{Experiment: fastPath, File: "fast-path.yaml", Seed: 11})
}

// switched is a bench whose paths are switched in place.
type switched struct {
	bench
	settle  map[string]time.Duration
	inForce string
	asked   []string
	fail    string // a path that cannot be switched to, once
}

// switchedBench is one of fastPath.
func switchedBench(plan experiment.Plan) *switched {
	return &switched{
		bench:   bench{plan: plan, limits: map[string]testbed.Limits{"gateway": {PathBitsPerSecond: 100e6}}},
		settle:  map[string]time.Duration{"gateway": 5 * time.Millisecond, "fast": 3 * time.Millisecond, "bare": 5 * time.Millisecond},
		inForce: "gateway",
	}
}

func (s *switched) Switch(_ context.Context, path string) (testbed.Switched, error) {
	s.asked = append(s.asked, path)
	if path == s.fail {
		s.fail = ""
		return testbed.Switched{}, errors.New("the route is gone")
	}
	was := s.inForce
	s.inForce = path
	if was == path {
		return testbed.Switched{}, nil
	}
	return testbed.Switched{Changed: true, Settle: s.settle[path]}, nil
}

// checkSwitching compares what the trials say of switching with their order.
func checkSwitching(t *testing.T, trials []measurement.Trial) {
	t.Helper()
	settle := map[string]measurement.Seconds{"gateway": 0.005, "fast": 0.003, "bare": 0.005}
	inForce := "gateway"
	for _, trial := range trials {
		f := trial.Fingerprint
		want := measurement.Seconds(0)
		if trial.Path != inForce {
			want = settle[trial.Path]
		}
		if f.Switched != (trial.Path != inForce) || f.Settle != want {
			t.Errorf("trial %s on %s after %s: switched %v, settled %v s", trial.ID, trial.Path, inForce, f.Switched, f.Settle)
		}
		inForce = trial.Path
	}
}

func TestSwitchBetweenTrials(t *testing.T) {
	_, plan, st := setUpFastPath(t)
	bed := switchedBench(plan)
	bed.measure = func(p experiment.PlannedTrial) error {
		if p.Path != bed.inForce {
			t.Errorf("trial %s on %s while %s is in force", p.ID, p.Path, bed.inForce)
		}
		return nil
	}
	trials := finished(t, plan, bed, st)
	if len(bed.asked) != len(plan.Trials) {
		t.Errorf("asked to switch %d times for %d trials", len(bed.asked), len(plan.Trials))
	}
	checkSwitching(t, trials)
	// The bench gives 0.8 Gbit/s: more than the gateway's rate allows, which
	// is no limit where it is passed by.
	for _, trial := range trials {
		impossible := slices.ContainsFunc(trial.Gate.Findings, func(c measurement.Finding) bool { return c.Name == "possible" })
		if want := trial.Test == "flows" && trial.Path == "gateway"; impossible != want {
			t.Errorf("trial %s: %+v", trial.ID, trial.Gate)
		}
	}
}

// A path that cannot be switched to fails its trial with the reason, and the
// next trial tries anew.
func TestSwitchThatFails(t *testing.T) {
	_, plan, st := setUpFastPath(t)
	bed := switchedBench(plan)
	bed.fail = "fast"
	measured := 0
	bed.measure = func(experiment.PlannedTrial) error { measured++; return nil }
	trials := finished(t, plan, bed, st)
	var failed []measurement.Trial
	for _, trial := range trials {
		if len(trial.Gate.Findings) > 0 && trial.Gate.Findings[0].Name == "test" {
			failed = append(failed, trial)
		}
	}
	if len(failed) != 1 || failed[0].Path != "fast" || failed[0].Gate.Passed ||
		failed[0].Gate.Findings[0].Text != "switch the path: the route is gone" {
		t.Errorf("failed: %+v", failed)
	}
	if measured != len(plan.Trials)-1 || len(trials) != len(plan.Trials) {
		t.Errorf("%d measured and %d stored of %d", measured, len(trials), len(plan.Trials))
	}
}

// A run that is stopped while a path settles stops at once and stores nothing.
func TestStopWhileSettling(t *testing.T) {
	_, plan, st := setUpFastPath(t)
	plan.Trials = slices.DeleteFunc(plan.Trials, func(p experiment.PlannedTrial) bool { return p.Path != "fast" })
	ctx, cancel := context.WithCancel(t.Context())
	bed := &stopping{switched: *switchedBench(plan), stop: cancel}
	bed.settle["fast"] = 10 * time.Minute
	err := runner.Run(ctx, runner.Options{Planner: runner.Fixed(plan), Testbed: bed, Keeper: st})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if n, _, err := st.Count(t.Context()); n != 0 || err != nil || bed.closed != 1 {
		t.Errorf("%d trials stored, %v; closed %d times", n, err, bed.closed)
	}
}

// stopping is a switched bench during whose first switch the run is stopped.
type stopping struct {
	switched
	stop context.CancelFunc
}

func (s *stopping) Switch(ctx context.Context, path string) (testbed.Switched, error) {
	s.stop()
	return s.switched.Switch(ctx, path)
}
