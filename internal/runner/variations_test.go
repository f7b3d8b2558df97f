package runner_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/testbed"
	"github.com/hopbench/hopbench/internal/testutil"
)

// lossy is a trial whose losses do not explain its rate, unless it is paced.
func lossy(p experiment.PlannedTrial) measurement.Trial {
	rate := 80e6
	end := measurement.TCPInfo{At: 1, Busy: 1, MSS: 1448, Retransmits: 100, RTT: 0.01, MinRTT: 0.009, InFlight: 100e3, CongestionWindow: 105e3}
	if p.Spec.PacingBitsPerSecond > 0 {
		rate, end.Retransmits = p.Spec.PacingBitsPerSecond*float64(p.Spec.Flows), 0
	}
	t := passed(p)
	t.Metrics = measurement.Metrics{"goodput_bits_per_second": rate}
	if p.Spec.Kind == measurement.TCP {
		for range p.Spec.Flows {
			t.Flows = append(t.Flows, measurement.Flow{Info: []measurement.TCPInfo{{At: 0.05, MSS: 1448}, end}, Final: &end})
		}
	}
	return t
}

// After the plan, tests of which it is not known what limited them are done again, each
// on its own path, until that is told; they count for nothing else, and a run that was
// stopped among them goes on where it was.
func TestExplaining(t *testing.T) {
	head := store.Head{Experiment: twoPaths, File: "two-paths.yaml", Seed: 3, Explain: true}
	_, plan, err := runner.Prepare(head)
	testutil.OK(t, err)
	var all, varied []measurement.Trial
	var planner runner.Planner
	begin := func() {
		planner, err = runner.Explaining(head, plan, varied, func(v []result.Variation) { head.Variations = v })
		testutil.OK(t, err)
		for _, trial := range all {
			planner.Done(trial, nil)
		}
	}
	begin()
	for range 100 {
		p, ok := planner.Next()
		if !ok {
			break
		}
		trial := lossy(p)
		if planner.Done(trial, nil); trial.Order > 0 {
			all = append(all, trial)
			continue
		}
		varied = append(varied, trial)
		if len(varied) == 4 { // stopped, and resumed
			begin()
		}
	}
	if len(all) != len(plan.Trials) || !slices.EqualFunc(all, plan.Trials, func(a measurement.Trial, b experiment.PlannedTrial) bool { return a.ID == b.ID }) {
		t.Errorf("%d trials of %d", len(all), len(plan.Trials))
	}
	ids := map[string]bool{}
	for _, v := range varied {
		if v.Block != 0 || v.Order >= 0 || ids[v.ID] {
			t.Errorf("%s is of block %d, order %d", v.ID, v.Block, v.Order)
		}
		ids[v.ID] = true
	}
	r, err := runner.Result(head, append(slices.Clone(all), varied...))
	testutil.OK(t, err)
	plain, err := runner.Result(head, all)
	testutil.OK(t, err)
	if len(varied) != len(r.Variations)*runner.VariationTrials || !r.Complete || len(r.Trials) != len(plan.Trials) || len(r.Cells) != len(plain.Cells) || len(r.Costs) != len(plain.Costs) {
		t.Errorf("%d trials of %d variations, complete %v, %d cells, %d costs", len(varied), len(r.Variations), r.Complete, len(r.Cells), len(r.Costs))
	}
	for _, a := range r.Attributions {
		if a.Shares[result.CauseHopRate] < 0.99 {
			t.Errorf("%+v", a)
		}
	}
	if len(r.Attributions) != 2 || len(plain.Attributions[0].Answers) > 0 || plain.Attributions[0].Shares[result.CauseUnknown] < 0.99 {
		t.Errorf("without variations: %+v", plain.Attributions)
	}
}

// further is a planner that finds more to do once its plan is done.
type further struct {
	runner.Planner
	more runner.Planner // nil once it is found
}

func (f *further) Next() (experiment.PlannedTrial, bool) {
	if p, ok := f.Planner.Next(); ok || f.more == nil {
		return p, ok
	}
	f.Planner, f.more = f.more, nil
	return f.Planner.Next()
}

// A hop that dies in the last trial of the plan is built again before what is found to be
// done after it: the death is that of one trial.
func TestFurtherTrialsAfterADeath(t *testing.T) {
	plan := twoPathPlan(2)
	killed := plan.Trials[1]
	built := 0
	build := func(context.Context) (testbed.Testbed, error) {
		built++
		b := &bench{plan: plan}
		b.measure = func(p experiment.PlannedTrial) error {
			if p.ID == killed.ID {
				b.broken = &testbed.Fault{Paths: []string{killed.Path}, Err: errors.New("hop fw died")}
			}
			return nil
		}
		return b, nil
	}
	first, _ := build(t.Context())
	keeper := &runner.Memory{}
	before, after := plan, plan
	before.Trials, after.Trials = plan.Trials[:2], []experiment.PlannedTrial{plan.Trials[3], plan.Trials[2]}
	planner := &further{runner.Fixed(before), runner.Fixed(after)}
	testutil.OK(t, runner.Run(t.Context(), runner.Options{Planner: planner, Testbed: first, Build: build, Keeper: keeper}))
	for _, trial := range keeper.Kept {
		if trial.Gate.Broken != (trial.ID == killed.ID) {
			t.Errorf("trial %s: %+v", trial.ID, trial.Gate)
		}
	}
	if len(keeper.Kept) != 4 || built != 2 {
		t.Errorf("%d trials, on %d testbeds", len(keeper.Kept), built)
	}
}
