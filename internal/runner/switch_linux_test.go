package runner_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/testbed"
	testbedlab "github.com/hopbench/hopbench/internal/testbed/lab"
	"github.com/hopbench/hopbench/internal/testbed/labtest"
	"github.com/hopbench/hopbench/internal/testutil"
	"github.com/hopbench/hopbench/internal/trial"
	"github.com/hopbench/hopbench/internal/words"
)

func newLab(t *testing.T, e *experiment.Experiment) *testbedlab.Lab {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	probe, err := lab.Start(ctx, lab.Topology{Nodes: []lab.Node{{Name: "a"}}}, lab.Options{})
	testutil.Need(t, err == nil, fmt.Sprintf("a machine on which labs can be made: %v", err))
	testutil.OK(t, probe.Close())
	bed, err := testbedlab.New(ctx, e)
	testutil.OK(t, err)
	t.Cleanup(func() {
		if err := bed.Close(); err != nil {
			t.Error(err)
		}
	})
	return bed
}

// The trials of three paths on the same nodes each take their own path, in
// random order, and the hops that they cross have counted them.
func TestRunSwitchesTheLab(t *testing.T) {
	t.Parallel() // it waits for most of its time
	e, plan, st := setUpFastPath(t)
	bed := newLab(t, e)
	trials := finished(t, plan, bed, st)
	checkSwitching(t, trials)
	hops := map[string][]string{"gateway": {"edge", "gateway"}, "fast": {"edge"}, "bare": nil}
	checked := map[string]int{}
	for _, trial := range trials {
		if !trial.Fingerprint.Matches {
			t.Errorf("trial %s: %+v", trial.ID, trial.Fingerprint.Why)
		}
		if trial.Started.IsZero() {
			t.Logf("trial %s has no figures on a machine this busy: %+v", trial.ID, trial.Gate)
			continue
		}
		checked[trial.Path]++
		var counted []string
		for _, s := range trial.HopSeries {
			counted = append(counted, s.Name)
			checkSeries(t, &trial, s)
		}
		if fmt.Sprint(counted) != fmt.Sprint(hops[trial.Path]) {
			t.Errorf("trial %s: the hops %v counted, want %v", trial.ID, counted, hops[trial.Path])
		}
	}
	if len(checked) != len(hops) {
		t.Errorf("only these paths have figures: %v", checked)
	}
}

// checkSeries compares a hop's counters with what must be so at any speed.
func checkSeries(t *testing.T, trial *measurement.Trial, s measurement.HopSeries) {
	t.Helper()
	last := s.Samples[len(s.Samples)-1]
	if first := s.Samples[0]; first.At > 0 || first.ForwardBytes != 0 || first.ForwardPackets != 0 || last.At <= 0 {
		t.Errorf("trial %s, hop %s: the first sample is %+v, the last at %v", trial.ID, s.Name, first, last.At)
	}
	for i, sample := range s.Samples[1:] {
		if before := s.Samples[i]; sample.At <= before.At || sample.ForwardBytes < before.ForwardBytes || sample.BackwardPackets < before.BackwardPackets { // CPU is partly an estimate
			t.Errorf("trial %s, hop %s: %+v comes after %+v", trial.ID, s.Name, sample, before)
		}
	}
	if last.BackwardPackets == 0 || last.CPU <= 0 {
		t.Errorf("trial %s, hop %s: %+v", trial.ID, s.Name, last)
	}
	if trial.Throughput != nil {
		var received float64
		for _, n := range trial.Throughput.Bytes {
			received += n
		}
		if payload := last.ForwardBytes - 66*last.ForwardPackets; payload < received {
			t.Errorf("trial %s, hop %s: %.0f bytes of payload passed, but %.0f were received", trial.ID, s.Name, payload, received)
		}
	}
}

// Connections go on when their path is switched under them: the gateway sees
// the first part of them only.
func TestSwitchUnderConnections(t *testing.T) {
	t.Parallel() // it waits for most of its time
	e, _, _ := setUpFastPath(t)
	bed, wanted := newLab(t, e), plannedTrial(t, e, "gateway", "flows")
	var once sync.Once
	var switched testbed.Switched
	var switchErr error
	wanted.Spec.Duration = 2
	outcome, _, err := trial.Measure(t.Context(), bed, wanted, func(measurement.Progress) {
		once.Do(func() { switched, switchErr = bed.Switch(t.Context(), "fast") })
	})
	if err != nil || switchErr != nil || !switched.Changed {
		t.Fatalf("%v; switched %+v, %v", err, switched, switchErr)
	}
	if len(outcome.HopSeries) != 2 {
		t.Fatalf("series %+v", outcome.HopSeries)
	}
	total := func(i int) float64 {
		samples := outcome.HopSeries[i].Samples
		return samples[len(samples)-1].ForwardBytes
	}
	if edge, gateway := total(0), total(1); gateway == 0 || gateway >= edge {
		t.Errorf("the edge forwarded %.0f bytes, the gateway %.0f of them", edge, gateway)
	}
	for i, f := range outcome.Flows {
		if f.ReceivedBytes == 0 {
			t.Errorf("flow %d stood still", i+1)
		}
	}
}

// A trial on a path that is not in force is failed by its fingerprint.
func TestSwitchThatDidNotTake(t *testing.T) {
	t.Parallel() // it waits for most of its time
	e, plan, _ := setUpFastPath(t)
	bed := newLab(t, e)
	for _, p := range plan.Trials {
		if p.Path == "gateway" {
			continue
		}
		// It is valid even when the test failed, on a machine this busy.
		_, fingerprint, err := trial.Measure(t.Context(), bed, trial.Wanted{ID: p.ID, Path: p.Path, Spec: p.Spec}, nil)
		if len(fingerprint.Hops) == 0 {
			t.Fatal(err)
		}
		if fingerprint.Matches || !strings.Contains(words.Fingerprint(&fingerprint), "10.0.1.2") {
			t.Errorf("trial %s: %+v", p.ID, fingerprint)
		}
	}
}

// A link emulator that dies in the middle of a trial on a switched path ends the trial
// with that reason; the run goes on with a new lab, which is switched again.
func TestLinkOfSwitchedPathDies(t *testing.T) {
	e, plan, st := setUpFastPath(t)
	var victim string
	for i, p := range plan.Trials {
		if p.Path == "fast" && p.Test == "flows" {
			victim = p.ID
			plan.Trials[i].Spec.Duration = 60 // it will not take so long
			break
		}
	}
	var once sync.Once
	rebuilt := 0
	err := runner.Run(t.Context(), runner.Options{
		Planner: runner.Fixed(plan), Testbed: newLab(t, e), Keeper: st,
		Build: func(ctx context.Context) (testbed.Testbed, error) { return testbedlab.New(ctx, e) },
		OnEvent: func(event runner.Event) {
			if event.Live != nil && event.Trial.ID == victim {
				once.Do(func() {
					if err := labtest.Kill("^hopbench-lab-link .*gateway/edge:bypass-0-1"); err != nil {
						t.Error(err)
					}
				})
			}
			if event.Rebuilt != nil {
				rebuilt++
			}
		},
	})
	testutil.OK(t, err)
	trials, err := st.Trials(t.Context())
	testutil.OK(t, err)
	if rebuilt != 1 || len(trials) != len(plan.Trials) {
		t.Errorf("rebuilt %d times, %d of %d trials", rebuilt, len(trials), len(plan.Trials))
	}
	for _, trial := range trials {
		if trial.ID != victim {
			if !trial.Fingerprint.Matches {
				t.Errorf("trial %s: %+v", trial.ID, trial.Fingerprint.Why)
			}
			continue
		}
		if trial.Gate.Passed || !strings.Contains(trial.Gate.Findings[0].Text, "link emulator gateway/edge:bypass-0-1") || !strings.Contains(trial.Gate.Findings[0].Text, "killed") {
			t.Errorf("the trial whose link emulator died: %+v", trial.Gate)
		}
		if trial.Elapsed >= 60 {
			t.Errorf("the trial took its whole time, %v s, although its path was gone", trial.Elapsed)
		}
	}
}
