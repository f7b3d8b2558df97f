package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/testutil"
)

// What hopbench test keeps is listed and compared as any run, and not resumed.
func TestKeptTestsAreRuns(t *testing.T) {
	folder := t.TempDir()
	dirs := []string{filepath.Join(folder, "before"), filepath.Join(folder, "after")}
	for i, dir := range dirs {
		test := store.Test{Title: "the path to h", Paths: []result.PathInfo{{Name: "path", Baseline: true}}, Tests: []result.TestInfo{{Name: "tcp", Spec: measurement.Spec{Kind: measurement.TCP}.Defaults()}}}
		st, err := store.Create(dir, store.Head{Name: "test", Blocks: 6, Planned: 6, Test: &test})
		testutil.OK(t, err)
		for block := 1; block <= 6; block++ {
			trial := measurement.Trial{ID: string(rune('0' + block)), Block: block, Path: "path", Test: "tcp", Gate: measurement.Gate{Passed: true}}
			trial.Metrics = measurement.Metrics{"goodput_bits_per_second": float64(i+1)*1e9 + float64(block)}
			testutil.OK(t, st.Put(t.Context(), trial))
		}
		testutil.OK(t, st.Close())
	}
	runs, err := listRuns(t.Context(), folder)
	testutil.OK(t, err)
	if len(runs) != 2 || !runs[0].Complete || runs[0].Trials != 6 {
		t.Errorf("%+v", runs)
	}
	if status, out, problems := command(t, "compare", dirs[0], dirs[1]); status != base.ExitDone || !strings.Contains(out, "path, tcp, goodput") {
		t.Errorf("compare: status %d: %s%s", status, out, problems)
	}
	if status, _, problems := command(t, "run", "--resume", dirs[0]); status != base.ExitUsage || !strings.Contains(problems, "cannot be resumed") {
		t.Errorf("resumed: status %d: %s", status, problems)
	}
	// A folder that is taken is not offered for what cannot be done with it.
	if status, _, problems := command(t, "test", "127.0.0.1:1", "-o", dirs[0]); status != base.ExitFailed || !strings.Contains(problems, "already holds a run; choose another folder") {
		t.Errorf("taken: status %d: %s", status, problems)
	}
	begun := filepath.Join(folder, "a run")
	st, err := store.Create(begun, store.Head{Name: "n", Blocks: 1})
	testutil.OK(t, err)
	testutil.OK(t, st.Close())
	if _, _, problems := command(t, "test", "127.0.0.1:1", "-o", begun); !strings.Contains(problems, "continue it with hopbench run --resume '"+begun+"'") {
		t.Error(problems)
	}
}
