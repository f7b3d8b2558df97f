package runner_test

import (
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/testutil"
	"github.com/hopbench/hopbench/internal/words"
)

// A run knows that its plan has two stages: it is planned alike when it is resumed, its
// result says so, and its trials are none of another plan.
func TestTwoStagesAreKept(t *testing.T) {
	head := store.Head{Experiment: twoPaths, File: "two-paths.yaml", Seed: 5, TwoStage: true}
	st, err := store.Create(t.TempDir(), head)
	testutil.OK(t, err)
	defer st.Close()
	kept, err := st.Head()
	testutil.OK(t, err)
	e, plan, err := runner.Prepare(kept)
	testutil.OK(t, err)
	for i := 0; i < len(plan.Trials); i += len(e.Tests) {
		for _, trial := range plan.Trials[i : i+len(e.Tests)] {
			if trial.Path != plan.Trials[i].Path {
				t.Fatalf("not all tests of a visit are next to each other: %v", planned(plan))
			}
		}
	}
	bed := &bench{plan: plan}
	trials := finished(t, plan, bed, st)
	testutil.OK(t, runner.Fits(plan, trials))
	r, err := runner.Result(kept, trials)
	testutil.OK(t, err)
	if !r.Complete || !r.Experiment.TwoStage || !strings.Contains(words.Status(r), "2 blocks in two stages") {
		t.Errorf("complete %v, two stages %v: %s", r.Complete, r.Experiment.TwoStage, words.Status(r))
	}
	kept.TwoStage = false
	_, other, err := runner.Prepare(kept)
	testutil.OK(t, err)
	if err := runner.Fits(other, trials); err == nil {
		t.Error("its trials fit a plan of one stage")
	}
}
