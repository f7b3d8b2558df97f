package cli

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/cli/live"
	"github.com/hopbench/hopbench/internal/cli/runs"
	"github.com/hopbench/hopbench/internal/event"
	"github.com/hopbench/hopbench/internal/hostinfo"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/testbed"
	"github.com/hopbench/hopbench/internal/testutil"
	"github.com/hopbench/hopbench/internal/words"
)

const inspected = `format: hopbench.experiment/1
name: inspected
endpoints:
  - {name: a}
  - {name: b}
source: a
destination: b
baseline: direct
blocks: 2
paths:
  - name: direct
    hops:
      - {type: link, name: wire, delay: 1ms}
  - name: inspected
    hops:
      - {type: idps, name: inspector, rule_file: rules/my.rules}
tests:
  - {name: latency, kind: rr, protocol: tcp, duration: 100ms}
`

const rule = `alert tcp any any -> any any (msg:"one"; content:"x"; sid:1;)` + "\n"

// begun is the folder of a run that was begun in the current folder, which has
// its experiment, and has a trial of it; change may change its head.
func begun(t *testing.T, change func(*store.Head, *measurement.Trial)) string {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"mine/inspected.yaml": inspected, "mine/rules/my.rules": rule} {
		testutil.OK(t, os.MkdirAll(filepath.Dir(name), 0o755))
		testutil.OK(t, os.WriteFile(name, []byte(text), 0o644))
	}
	r, err := prepareRun(base.Streams{}, runFlags{seed: 7}, "mine/inspected.yaml")
	testutil.OK(t, err)
	head := r.head
	head.Environment = map[string]string{"kernel": "2.6.32", "hopbench": "v0.0.1", "host_load_average": "9"}
	p := r.plan.Trials[0]
	trial := measurement.Trial{ID: p.ID, Block: p.Block, Order: p.Order, Path: p.Path, Test: p.Test}
	if change != nil {
		change(&head, &trial)
	}
	st, err := store.Create("run", head)
	testutil.OK(t, err)
	testutil.OK(t, st.Put(t.Context(), trial))
	testutil.OK(t, st.Close())
	dir, err := filepath.Abs("run")
	testutil.OK(t, err)
	return dir
}

// A run is gone on with from any folder, by the rules that it began with only.
func TestResumeByTheSameRules(t *testing.T) {
	dir := begun(t, nil)
	rules := filepath.Join(filepath.Dir(dir), "mine", "rules", "my.rules")
	t.Chdir(t.TempDir())
	r, err := reopen(t.Context(), base.Streams{}, runFlags{}, dir)
	if err != nil {
		t.Fatalf("nothing has changed: %v", err)
	}
	testutil.OK(t, r.store.Close())
	refused := func(want ...string) {
		t.Helper()
		r, err := reopen(t.Context(), base.Streams{}, runFlags{}, dir)
		if err == nil {
			r.store.Close()
			t.Fatal("other rules are gone on with")
		}
		for _, words := range append(want, "rule", dir) {
			if !strings.Contains(err.Error(), words) {
				t.Errorf("it is not said that %q: %v", words, err)
			}
		}
	}
	testutil.OK(t, os.WriteFile(rules, []byte("# another\n"+rule), 0o644))
	refused("the rule file rules/my.rules has changed", "put it back", "or start a new run")
	testutil.OK(t, os.Remove(rules))
	refused(rules, "no such file", "must be the same as when it began")
	testutil.OK(t, os.WriteFile(rules, []byte(rule), 0o644))
	if r, err = reopen(t.Context(), base.Streams{}, runFlags{}, dir); err != nil {
		t.Errorf("the rules are back: %v", err)
	} else if err := r.store.Close(); err != nil {
		t.Fatal(err)
	}
}

// What a run folder does not keep is to be given again.
func TestResumeCommand(t *testing.T) {
	for want, f := range map[string]runFlags{
		"hopbench run --resume 'my run'": {blocks: 3},
		"hopbench run --resume 'my run' --nats tls://n:4222 --to postgres --connection-file 'my file'": {
			nats: "tls://n:4222", sink: sinkFlags{"postgres", "my file"},
		},
	} {
		if got := resumeCommand("my run", f); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// A run of `run all` that is done is gone on with once, to be explained.
func TestExplainWhatIsDone(t *testing.T) {
	for name, c := range map[string]struct{ asked, explained, want bool }{
		"not asked for": {false, false, false},
		"asked for":     {true, false, true},
		"explained":     {true, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := begun(t, func(head *store.Head, _ *measurement.Trial) { head.Explain = c.explained })
			a := several{flags: runFlags{explain: c.asked}, dir: filepath.Dir(dir)}
			if got := a.unexplained(&result.IndexEntry{Folder: filepath.Base(dir)}); got != c.want {
				t.Errorf("to be explained: %v", got)
			}
			if a.unexplained(&result.IndexEntry{Folder: "removed"}) {
				t.Error("a run that was removed is to be explained")
			}
		})
	}
}

func TestResumeWhatIsPlannedOtherwise(t *testing.T) {
	for name, change := range map[string]func(*store.Head, *measurement.Trial){
		"another order": func(_ *store.Head, trial *measurement.Trial) { trial.Order++ },
		"another trial": func(_ *store.Head, trial *measurement.Trial) { trial.ID = "b07-x" },
		"another path":  func(_ *store.Head, trial *measurement.Trial) { trial.Path = "x" },
	} {
		t.Run(name, func(t *testing.T) {
			r, err := reopen(t.Context(), base.Streams{}, runFlags{}, begun(t, change))
			if err == nil {
				r.store.Close()
				t.Fatal("trials of another plan are gone on with")
			}
			if !strings.Contains(err.Error(), "plans otherwise") {
				t.Error(err)
			}
		})
	}
}

// stand is a testbed as far as a session knows it before the first trial.
type stand struct {
	testbed.Testbed
	setting string
}

func (stand) Info() result.Testbed { return result.Testbed{Kind: "lab", Relative: true} }
func (s stand) Environment() map[string]string {
	return map[string]string{"setting": cmp.Or(s.setting, "new")}
}
func (stand) Facts() []string { return nil }

// What is different when a run goes on is told, kept and reported.
func TestResumeNamesWhatIsDifferent(t *testing.T) {
	dir := begun(t, func(head *store.Head, _ *measurement.Trial) {
		head.RuleFiles = nil
		head.Environment["host"] = testutil.Hostile // it may be a stranger's run
	})
	r, err := reopen(t.Context(), base.Streams{}, runFlags{}, dir)
	testutil.OK(t, err)
	defer r.store.Close()
	var told strings.Builder
	show := live.NewProgress(&told, false, event.NewStream())
	testutil.OK(t, r.enter(t.Context(), stand{}, show))
	show.End()
	testutil.OnlyPrintable(t, told.String())
	// So it is when the testbed broke, and came back another.
	var again strings.Builder
	show = live.NewProgress(&again, false, event.NewStream())
	testutil.OK(t, r.compareWithLast(t.Context(), stand{}, show))
	if len(r.head.Resumed) != 1 {
		t.Errorf("%+v of the testbed as it was", r.head.Resumed)
	}
	testutil.OK(t, r.compareWithLast(t.Context(), stand{setting: "newer"}, show))
	show.End()
	if !strings.Contains(again.String(), "a different setting: newer, previously unknown.") {
		t.Errorf("%q of another testbed", again.String())
	}
	testutil.OK(t, r.store.Close())
	result, err := runs.Load(t.Context(), r.store.Dir())
	testutil.OK(t, err)
	if result.Environment["kernel"] != "2.6.32" || len(result.Resumed) != 2 || result.Resumed[0].Trials != 1 || result.Resumed[0].Environment["setting"] != "new" {
		t.Errorf("environment %v, resumed %+v", result.Environment, result.Resumed)
	}
	notes := strings.Join(words.Names{}.Notes(result.Notes), "\n")
	for _, text := range []string{notes, told.String()} {
		for _, want := range []string{"After 1 trial the run continued (", "with a different hopbench: " + hostinfo.Version() + ", previously v0.0.1.", "a different setting: new, previously unknown."} {
			if !strings.Contains(text, want) {
				t.Errorf("it is not said that %q:\n%s", want, text)
			}
		}
		if strings.Contains(text, "load_average") {
			t.Errorf("the load, which always differs, is named:\n%s", text)
		}
	}
	if !strings.Contains(notes, "did not record the texts of its rule files") {
		t.Errorf("the notes do not say that the rules are not known:\n%s", notes)
	}
	// The rules are from here on those of the run.
	testutil.OK(t, os.WriteFile("mine/rules/my.rules", []byte("# another\n"+rule), 0o644))
	testutil.OK(t, r.store.Close())
	if _, err := reopen(t.Context(), base.Streams{}, runFlags{}, dir); err == nil || !strings.Contains(err.Error(), "has changed") {
		t.Errorf("%v", err)
	}
}

// A run that is stopped while its lab is built says that, and leaves no folder.
func TestStoppedBeforeItsFirstTrial(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := newRun(ctx, base.Streams{Err: io.Discard, Out: io.Discard}, runFlags{out: dir, quiet: true, views: &live.Views{Stream: event.NewStream()}}, "aa-null")
	if _, there := os.Stat(dir); err == nil || err.Error() != "stopped while the paths were built" || there == nil {
		t.Errorf("%v, %v", err, there)
	}
}

// A run of which no trial is kept yet stays where it is when it cannot be gone on with.
func TestResumedInVain(t *testing.T) {
	begunStore, err := store.Resume(begun(t, nil))
	testutil.OK(t, err)
	head, err := begunStore.Head()
	testutil.OK(t, errors.Join(err, begunStore.Close()))
	empty, err := store.Create("empty", head)
	testutil.OK(t, err)
	testutil.OK(t, empty.Close())
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // no lab is built
	if err := resumeRun(ctx, base.Streams{Err: io.Discard, Out: io.Discard}, runFlags{resume: "empty", quiet: true, views: &live.Views{}}); err == nil {
		t.Error("a lab was built")
	}
	again, err := store.Resume("empty")
	testutil.OK(t, err)
	testutil.OK(t, again.Close())
}

// A run of whose file a disk has lost a part is reported, listed and compared, and not gone on with.
func TestDamagedRun(t *testing.T) {
	dir := begun(t, nil)
	r, err := reopen(t.Context(), base.Streams{}, runFlags{}, dir)
	testutil.OK(t, err)
	for _, p := range r.plan.Trials[1:] {
		testutil.OK(t, r.store.Put(t.Context(), p.Trial()))
	}
	testutil.OK(t, r.store.Close())
	db, err := sql.Open("sqlite", filepath.Join(dir, store.FileName))
	testutil.OK(t, err)
	_, err = db.Exec("UPDATE trial SET json = replace(json, '{', '[') WHERE order_index = 2")
	testutil.OK(t, errors.Join(err, db.Close()))

	status, out, problems := command(t, "report", dir, "-v")
	if status != base.ExitDone || !strings.Contains(out, "3 of 4 trials") || !strings.Contains(strings.Join(strings.Fields(out), " "), "run.sqlite is damaged: 1 trial is missing here") || strings.Contains(out, "Interim") {
		t.Errorf("report: status %d: %s%s", status, out, problems)
	}
	// No trial of it counts, so that there is nothing to compare.
	if _, _, problems := command(t, "compare", dir, dir); !strings.Contains(problems, "B: run.sqlite is damaged: 1 trial is missing") {
		t.Errorf("compare: %s", problems)
	}
	if status, _, problems := command(t, "run", "--resume", dir); status != base.ExitUsage || !strings.Contains(problems, "hopbench report "+dir) {
		t.Errorf("resume: status %d: %s", status, problems)
	}
}

// A report that cannot be written, as on a full disk, does not hide the result.
func TestResultOfAnUnwrittenReport(t *testing.T) {
	dir := begun(t, nil)
	testutil.OK(t, os.Mkdir(filepath.Join(dir, "report.html"), 0o755))
	for what, flags := range map[string][]string{"1 of 4 trials": nil, `"planned_trials": 4`: {"--json"}} {
		status, out, problems := command(t, append([]string{"report", dir}, flags...)...)
		if status != base.ExitFailed || !strings.Contains(out, what) {
			t.Errorf("%q: status %d: %s", flags, status, out)
		}
		if !strings.Contains(problems, "hopbench report "+dir+" writes it later") || strings.Contains(problems, "\nreport: ") {
			t.Errorf("%q: %s", flags, problems)
		}
	}
}

// A picture is SVG, whatever else a name promises.
func TestNameOfAPicture(t *testing.T) {
	dir, folder := begun(t, nil), t.TempDir()
	for name, want := range map[string]int{"p.svg": base.ExitDone, "P.SVG": base.ExitDone, "p.png": base.ExitUsage, "p": base.ExitUsage} {
		file := filepath.Join(folder, name)
		status, _, problems := command(t, "report", dir, "--picture", file)
		_, err := os.Stat(file)
		if status != want || (err == nil) != (want == base.ExitDone) || (want == base.ExitUsage) != strings.Contains(problems, "ends in .svg") {
			t.Errorf("%s: status %d, %v: %s", name, status, err, problems)
		}
	}
}

// Why a run ended early, and how it goes on, hides nothing that went wrong then.
func TestInterrupted(t *testing.T) {
	dir := begun(t, nil)
	st, err := store.Open(dir)
	testutil.OK(t, err)
	defer st.Close()
	unrestored := errors.New("cannot put back the route")
	goOn := "continue with: hopbench run --resume " + dir
	for _, c := range []struct {
		planned, left int
		why           error
		want          string
		unkept        bool
	}{
		{4, 3, context.Canceled, "stopped after 1 of 4 trials; " + goOn, false},
		{4, 3, errors.Join(errors.Join(context.Canceled, unrestored), nil), "stopped after 1 of 4 trials; " + goOn + "\ncannot put back the route", false},
		{4, 3, unrestored, "cannot put back the route; 1 of 4 trials are stored, " + goOn, false},
		{1, 2, context.Canceled, "stopped before the run was explained; all 1 trials are kept, " + goOn, false},
		{1, 2, unrestored, "cannot put back the route; 1 of 1 trials are stored, " + goOn, false},
		{1, 0, unrestored, "cannot put back the route; all 1 trials are kept", false},
		{4, 3, unrestored, "cannot put back the route", true},
	} {
		if got := interrupted(t.Context(), st, c.planned, c.left, runFlags{unkept: c.unkept}, c.why).Error(); got != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
}

// onWrite is a writer that something happens to.
type onWrite func()

func (f onWrite) Write(text []byte) (int, error) { f(); return len(text), nil }

// Of a folder that was removed nothing is said that is not there.
func TestResultOfARemovedIndex(t *testing.T) {
	var told strings.Builder
	a := several{s: base.Streams{Out: io.Discard, Err: &told}, dir: filepath.Join(t.TempDir(), "removed"), index: &result.Index{Entries: []result.IndexEntry{{Name: "nowhere", State: result.EntryStopped}}}}
	if err := a.finish(t.Context()); err == nil || err.Error() != "0 of 1 experiments done" || told.String() != "" {
		t.Errorf("%v; %s", err, told.String())
	}
}

// An index that cannot be written, as on a full disk, does not hide how far its runs are.
func TestResultOfAnUnwrittenIndex(t *testing.T) {
	dir := t.TempDir()
	var out strings.Builder
	inTheWay := onWrite(func() {
		_ = os.Remove(filepath.Join(dir, "index.md"))
		_ = os.Mkdir(filepath.Join(dir, "index.md"), 0o755)
	})
	a := several{s: base.Streams{Out: &out, Err: inTheWay}, dir: dir, index: &result.Index{Entries: []result.IndexEntry{{Name: "nowhere", Folder: "nowhere", State: result.EntryNotRun}}}}
	err := a.run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "0 of 1 experiments done; continue with: hopbench run --resume "+dir) || !strings.Contains(err.Error(), "index.md") {
		t.Error(err)
	}
	if !strings.Contains(out.String(), "nowhere") {
		t.Error(out.String())
	}
}
