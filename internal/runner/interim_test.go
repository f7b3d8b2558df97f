package runner_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/testutil"
)

// A run that was stopped says after how many whole blocks; one at its end does not.
func TestInterimCountsWholeBlocks(t *testing.T) {
	head := store.Head{Experiment: twoPaths, File: "two-paths.yaml", Seed: 3, Blocks: 10}
	_, plan, err := runner.Prepare(head)
	testutil.OK(t, err)
	var trials []measurement.Trial
	for _, p := range plan.Trials {
		trials = append(trials, p.Trial())
	}
	for done, want := range map[int]string{0: "[{0 10}]", 3: "[{0 10}]", 4: "[{1 10}]", 19: "[{4 10}]", 39: "[{9 10}]", 40: "[]"} {
		r, err := runner.Result(head, trials[:done])
		testutil.OK(t, err)
		type counts struct{ done, of int }
		got := []counts{}
		for _, n := range slices.DeleteFunc(r.Notes, func(n result.Note) bool { return n.Code != result.NoteInterim }) {
			got = append(got, counts{n.Count, n.Of})
		}
		if fmt.Sprint(got) != want {
			t.Errorf("after %d trials: %v, want %s", done, got, want)
		}
	}
}
