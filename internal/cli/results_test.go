package cli

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/testutil"
)

// makeRun makes a run folder with a head and no trials.
func makeRun(t *testing.T, dir string, head store.Head) {
	t.Helper()
	st, err := store.Create(dir, head)
	testutil.OK(t, err)
	testutil.OK(t, st.Close())
}

// One folder that cannot be read does not hide the others.
func TestResultsNameWhatCannotBeRead(t *testing.T) {
	folder := t.TempDir()
	makeRun(t, filepath.Join(folder, "a-good"), store.Head{Name: testutil.Hostile, Planned: 7, Seed: 42})
	for name, text := range map[string]string{"b-leftover": "", "c-garbage": strings.Repeat("no database ", 500)} {
		dir := filepath.Join(folder, name)
		testutil.OK(t, os.Mkdir(dir, 0o755))
		testutil.OK(t, os.WriteFile(filepath.Join(dir, store.FileName), []byte(text), 0o644))
	}
	testutil.OK(t, os.WriteFile(filepath.Join(folder, "a-file"), nil, 0o644))
	makeRun(t, filepath.Join(folder, "z-good"), store.Head{Name: "last", Planned: 7})

	status, stdout, stderr := command(t, "results", folder)
	if status != 0 {
		t.Errorf("status %d: %s", status, stderr)
	}
	testutil.OnlyPrintable(t, stdout)
	lines := strings.Split(strings.TrimRight(stdout, "\n"), "\n")
	if len(lines) != 5 {
		t.Fatalf("want a head and a line for each of four runs:\n%s", stdout)
	}
	for i, want := range []string{"a-good", "b-leftover: no run in this folder", "c-garbage", "last"} {
		if !strings.Contains(lines[i+1], want) {
			t.Errorf("line %q does not say %q", lines[i+1], want)
		}
	}
	status, stdout, _ = command(t, "results", folder, "--json")
	var runs []runSummary
	if err := json.Unmarshal([]byte(stdout), &runs); err != nil || status != 0 || len(runs) != 4 {
		t.Fatalf("status %d, %v: %s", status, err, stdout)
	}
	for i, wrong := range []bool{false, true, true, false} {
		if (runs[i].Error != "") != wrong || runs[i].Folder == "" {
			t.Errorf("%+v", runs[i])
		}
	}
}

// A folder that is not there has no runs only where none was named.
func TestResultsOfNoFolder(t *testing.T) {
	folder := t.TempDir()
	t.Chdir(folder)
	if status, _, problems := command(t, "results"); status != base.ExitDone || !strings.Contains(problems, "no runs in ") {
		t.Errorf("status %d: %s", status, problems)
	}
	file := filepath.Join(folder, "result.json")
	testutil.OK(t, errors.Join(os.Mkdir(filepath.Join(folder, "my-runs"), 0o755), os.WriteFile(file, nil, 0o600)))
	for _, of := range [][]string{{"results", "--json"}, {"ui"}} {
		if status, _, problems := command(t, append(of, filepath.Join(folder, "my-rusn"))...); status != base.ExitUsage || !strings.Contains(problems, "did you mean "+filepath.Join(folder, "my-runs")) {
			t.Errorf("%s: status %d: %s", of[0], status, problems)
		}
		if status, _, problems := command(t, append(of, file)...); status != base.ExitUsage || !strings.Contains(problems, "is a file; name a folder") {
			t.Errorf("%s of a file: status %d: %s", of[0], status, problems)
		}
	}
}

// A folder that is a run itself is not said to hold none.
func TestResultsOfARun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mine")
	makeRun(t, dir, store.Head{Name: "mine", Planned: 7})
	for _, args := range [][]string{{"results", dir}, {"results", dir, "--json"}} {
		if status, stdout, stderr := command(t, args...); status != 0 || strings.Count(stdout, dir) != 1 || strings.Contains(stderr, "no runs") {
			t.Errorf("%q: status %d: %s%s", args, status, stdout, stderr)
		}
	}
	if all, err := (folders{dir}).Runs(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
}

// A folder holds one run, or those of `run all`: of both, only the latter could be resumed.
func TestRunAndRunAllInOneFolder(t *testing.T) {
	one, several := t.TempDir(), t.TempDir()
	makeRun(t, one, store.Head{Name: "one"})
	testutil.OK(t, os.WriteFile(filepath.Join(several, indexFile), nil, 0o644))
	for _, c := range []struct{ arg, dir, says string }{
		{"all", one, "already holds a run; choose another folder"},
		{"aa-null", several, "already holds the runs of run all; choose another folder"},
	} {
		if status, _, problems := command(t, "run", c.arg, "-o", c.dir); status != base.ExitFailed || !strings.Contains(problems, c.says) {
			t.Errorf("run %s: status %d: %s", c.arg, status, problems)
		}
	}
}

// A folder of several runs is no run, and those in it are named.
func TestARunIsWantedAndNotSeveral(t *testing.T) {
	folder := t.TempDir()
	makeRun(t, filepath.Join(folder, "mine"), store.Head{Name: "mine"})
	want := "name one of the runs in it, such as " + filepath.Join(folder, "mine") + "; hopbench results " + folder + " lists them"
	for _, name := range []string{"report", "compare", "export"} {
		if status, _, problems := command(t, name, folder); status != base.ExitUsage || !strings.Contains(problems, want) {
			t.Errorf("%s: status %d: %s", name, status, problems)
		}
	}
}

// The runs of `run all`, in a folder with an index, are runs like others.
func TestResultsOfRunAll(t *testing.T) {
	folder := t.TempDir()
	several := filepath.Join(folder, "when-all")
	makeRun(t, filepath.Join(folder, "one"), store.Head{Name: "one"})
	makeRun(t, filepath.Join(several, "aa-null"), store.Head{Name: "aa-null"})
	makeRun(t, filepath.Join(folder, "no-index", "below"), store.Head{Name: "below"})
	testutil.OK(t, os.WriteFile(filepath.Join(several, indexFile), nil, 0o644))
	runs, err := listRuns(t.Context(), folder)
	testutil.OK(t, err)
	var names []string
	for _, r := range runs {
		names = append(names, r.Experiment)
	}
	if !slices.Equal(names, []string{"one", "aa-null"}) {
		t.Errorf("%q", names)
	}
}

// A run that never got as far as its first entry is said to be none, with what
// to do, and a new one may begin there.
func TestLeftoverOfARunThatNeverBegan(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	testutil.OK(t, os.Mkdir(dir, 0o755))
	testutil.OK(t, os.WriteFile(filepath.Join(dir, store.FileName), nil, 0o644))
	for _, args := range [][]string{{"run", "--resume", dir}, {"report", dir}, {"compare", dir}} {
		if status, _, stderr := command(t, args...); status != base.ExitUsage || !strings.Contains(stderr, "no run in this folder") || !strings.Contains(stderr, "--out") {
			t.Errorf("%q: status %d: %s", args, status, stderr)
		}
	}
	// Nor is a file one.
	file := filepath.Join(t.TempDir(), "result.json")
	testutil.OK(t, os.WriteFile(file, nil, 0o644))
	for _, args := range [][]string{{"run", "--resume", file}, {"report", file}, {"export", file}} {
		if status, _, stderr := command(t, args...); status != base.ExitUsage || !strings.Contains(stderr, "no run in this folder") {
			t.Errorf("%q: status %d: %s", args, status, stderr)
		}
	}
	makeRun(t, dir, store.Head{Name: "anew"})
	// In a folder of several runs that entry is done anew.
	several := t.TempDir()
	entry := filepath.Join(several, "not-bundled")
	testutil.OK(t, os.Mkdir(entry, 0o755))
	testutil.OK(t, os.WriteFile(filepath.Join(entry, store.FileName), nil, 0o644))
	index, err := json.Marshal(result.Index{Format: result.IndexFormat, Entries: []result.IndexEntry{{Name: "not-bundled", Folder: "not-bundled", State: result.EntryFailed}}})
	testutil.OK(t, err)
	testutil.OK(t, os.WriteFile(filepath.Join(several, indexFile), index, 0o644))
	// There is no such experiment: it got as far as reading it.
	if status, _, stderr := command(t, "run", "--resume", several); status != base.ExitFailed || !strings.Contains(stderr, `there is no experiment "not-bundled"`) {
		t.Errorf("status %d: %s", status, stderr)
	}
}

// What a stranger's result says does not steer the terminal, wherever it is
// printed.
func TestTextsOfAStrangersRun(t *testing.T) {
	edit := func(dir string, change func(*result.Result)) string {
		path := filepath.Join(dir, "result.json")
		text, err := os.ReadFile(path)
		testutil.OK(t, err)
		var r result.Result
		testutil.OK(t, json.Unmarshal(text, &r))
		change(&r)
		text, err = json.Marshal(r)
		testutil.OK(t, err)
		testutil.OK(t, os.WriteFile(path, text, 0o644))
		return dir
	}
	rename := func(r *result.Result) {
		r.Experiment.Name, r.Experiment.Title, r.Paths[1].Title, r.Tests[0].Title = testutil.Hostile, testutil.Hostile, testutil.Hostile, testutil.Hostile
		r.Environment = map[string]string{"hopbench": testutil.Hostile, "kernel": testutil.Hostile}
		for i := range r.Experiment.Published {
			r.Experiment.Published[i].ID, r.Experiment.Published[i].Note = testutil.Hostile, testutil.Hostile
		}
	}
	good, slow := edit(writeRun(t, 0.356e9), rename), edit(writeRun(t, 0.2e9), rename)
	for _, args := range [][]string{
		{good, slow, "--fail-on", "cost"}, {slow, "--fail-on", "published"}, {good, "--markdown"}, {good, "--published", "E1.1=x/y"},
		{edit(writeRun(t, 1e9), func(r *result.Result) { r.Format = testutil.Hostile })},
		{edit(writeRun(t, 1e9), func(r *result.Result) {
			r.Paths, r.Trials, r.Tests = []result.PathInfo{{Name: testutil.Hostile}}, nil, []result.TestInfo{{Name: testutil.Hostile}}
		}), "--published", "E1.1=x/y"},
	} {
		_, stdout, stderr := command(t, append([]string{"compare"}, args...)...)
		if stdout+stderr == "" {
			t.Errorf("%q printed nothing", args)
		}
		testutil.OnlyPrintable(t, stdout)
		testutil.OnlyPrintable(t, stderr)
	}
	// A run whose experiment is not one.
	dir := filepath.Join(t.TempDir(), "run")
	makeRun(t, dir, store.Head{File: testutil.Hostile, Experiment: "format: hopbench.experiment/1\nname: \"" + testutil.Hostile + "\"\n\x1b[31mx: y\n"})
	for _, args := range [][]string{{"report", dir}, {"run", "--resume", dir}, {"compare", dir}} {
		status, stdout, stderr := command(t, args...)
		if status == 0 || stderr == "" {
			t.Errorf("%q: status %d: %s", args, status, stderr)
		}
		testutil.OnlyPrintable(t, stdout+stderr)
	}
}
