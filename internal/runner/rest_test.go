package runner_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/testutil"
)

// Before every trial but the first a run rests, and stops at once when it is told to. The
// clock is the test's own.
func TestRest(t *testing.T) {
	text := "rest: 5m\n" + twoPaths
	e, err := experiment.Load("rests.yaml", []byte(text))
	testutil.OK(t, err)
	plan := e.Plan(1)
	if least := time.Duration(len(plan.Trials)) * 5 * time.Minute; plan.ExpectedDuration(0) < least {
		t.Errorf("a run with rests is said to take %v, less than %v", plan.ExpectedDuration(0), least)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		keeper := &runner.Memory{}
		bed := &bench{plan: plan}
		begin, told := time.Now(), false
		err := runner.Run(ctx, runner.Options{Planner: runner.Fixed(plan), Testbed: bed, Keeper: keeper, OnEvent: func(e runner.Event) {
			if len(keeper.Kept) == 3 && e.Finished == nil && !told {
				told = true
				time.AfterFunc(time.Minute, cancel) // in the middle of a rest
			}
		}})
		if !errors.Is(err, context.Canceled) || len(keeper.Kept) != 3 {
			t.Errorf("%d trials are kept: %v", len(keeper.Kept), err)
		}
		if took := time.Since(begin); took < 11*time.Minute || took > 12*time.Minute {
			t.Errorf("three trials with two rests of 5 min between them, and a minute of the third, took %v", took)
		}
		for i, trial := range keeper.Kept {
			if apart := trial.Start.Sub(begin); apart < time.Duration(i)*5*time.Minute {
				t.Errorf("trial %d began after %v", i+1, apart)
			}
		}
	})
}

// A long test that fails at once does not make the time that is left negative.
func TestTimeLeftAfterAnEarlyEnd(t *testing.T) {
	plan := twoPathPlan(2)
	plan.Trials[0].Spec.Duration = 100
	bed := &bench{plan: plan, measure: func(p experiment.PlannedTrial) error {
		if p.ID == plan.Trials[0].ID {
			return errors.New("refused")
		}
		return nil
	}}
	var least time.Duration
	testutil.OK(t, runner.Run(t.Context(), runner.Options{Planner: runner.Fixed(plan), Testbed: bed, Keeper: &runner.Memory{}, OnEvent: func(e runner.Event) { least = min(least, e.Left) }}))
	if least < 0 {
		t.Errorf("%v were left", least)
	}
}
