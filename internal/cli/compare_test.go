package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/experiments"
	"github.com/hopbench/hopbench/internal/analysis"
	"github.com/hopbench/hopbench/internal/cli/base"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/report/data"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/testutil"
	"github.com/hopbench/hopbench/internal/words"
)

// writeRun writes the result.json of a run of the routing appliance at 1:10,
// in which one flow through one appliance carries so many bits per second.
func writeRun(t *testing.T, rate float64) string {
	t.Helper()
	const goodput = "goodput_bits_per_second"
	tolerance := 0.1
	r := &result.Result{
		Format: result.Format,
		Experiment: result.ExperimentInfo{Name: "routing-appliance", Scale: 10, Baseline: "direct", Published: []result.Figure{
			{ID: "E5.1", Path: "direct", Test: "flows-1", Metric: goodput, Value: 12e9, Kind: result.FigurePlanted},
			{ID: "E5.2", Path: "one-appliance", Test: "flows-1", Metric: goodput, Value: 3.56e9, Tolerance: &tolerance, Kind: result.FigurePredicted},
		}},
		Seed: rand.Uint64(), Testbed: result.Testbed{Kind: "lab", Relative: true},
		Paths: []result.PathInfo{{Name: "direct", Baseline: true}, {Name: "one-appliance"}},
		Tests: []result.TestInfo{{Name: "flows-1", Spec: measurement.Spec{Kind: measurement.TCP, Flows: 1}}},
	}
	for block := 1; block <= 8; block++ {
		for _, path := range r.Paths {
			v := 1.2e9
			if path.Name != "direct" {
				v = rate
			}
			r.Trials = append(r.Trials, measurement.Trial{ID: path.Name + string(rune('0'+block)), Block: block, Path: path.Name, Test: "flows-1",
				Gate: measurement.Gate{Passed: true}, Outcome: measurement.Outcome{Metrics: measurement.Metrics{goodput: v * (1 + 0.001*float64(block))}}})
		}
	}
	a := analysis.Analyse(r.Trials, r.Tests, r.Paths, analysis.DefaultOptions())
	r.Cells, r.Costs = a.Cells, a.Costs
	var b bytes.Buffer
	testutil.OK(t, data.Write(&b, r))
	dir := t.TempDir()
	testutil.OK(t, os.WriteFile(filepath.Join(dir, "result.json"), b.Bytes(), 0o666))
	return dir
}

// command runs a command line and returns its status and what it wrote.
func command(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = Main(args, nil, &out, &errs)
	return status, out.String(), errs.String()
}

func TestCompareStatus(t *testing.T) {
	good, slow := writeRun(t, 0.356e9), writeRun(t, 0.2e9)
	three := func(rate float64) string {
		return strings.Join([]string{writeRun(t, rate), writeRun(t, rate), writeRun(t, rate)}, ",")
	}
	empty, other := t.TempDir(), filepath.Join(t.TempDir(), "other.json")
	testutil.OK(t, os.WriteFile(other, []byte(`{"format": "something/1"}`), 0o666))
	marked, wide := filepath.Join(t.TempDir(), "marked.json"), filepath.Join(t.TempDir(), "wide.json")
	whole, err := os.ReadFile(filepath.Join(good, "result.json"))
	testutil.OK(t, err)
	testutil.OK(t, os.WriteFile(marked, append([]byte("\ufeff"), whole...), 0o666))
	testutil.OK(t, os.WriteFile(wide, []byte("\xff\xfe{\x00}\x00"), 0o666))
	text := filepath.Join(t.TempDir(), "text.json")
	testutil.OK(t, os.WriteFile(text, []byte("no JSON"), 0o666))
	for _, c := range []struct {
		args   []string
		status int
		stdout string
		stderr string
	}{
		{[]string{good}, 0, "inside 10", ""},
		{[]string{filepath.Join(good, "result.json")}, 0, "E5.2", ""},
		{[]string{good, "--fail-on", "published"}, 0, "1 of 1 prediction inside", ""},
		{[]string{slow, "--fail-on", "published"}, 3, "outside 10", "A: E5.2 (predicted), one-appliance, flows-1: goodput is 0.167× the baseline's, published 0.297×"},
		{[]string{good, good, "--fail-on", "cost"}, 0, "no change larger than 0.1 % of the cost on goodput", ""},
		{[]string{good, slow}, 0, "worse", ""},
		{[]string{good, slow, "--fail-on", "cost"}, 3, "worse", "B compared with A: one-appliance: worse than in A on goodput, flows-1: the cost changed by −43"},
		{[]string{slow, good, "--fail-on", "cost"}, 0, "better", ""},
		{[]string{good, good, "--fail-on", "not-shown-equal"}, 0, "no change", ""},
		{[]string{good, slow, "--fail-on", "not-shown-equal"}, 3, "worse", "worse than in A"},
		{append([]string{"--reference", three(0.356e9), "--fail-on", "cost"}, strings.Split(three(0.2e9), ",")...), 3, "over 3 and 3 runs", "D–F compared with A–C"},
		{[]string{"--reference", good, slow}, 2, "", "at least 3 each"},
		{[]string{"--reference", three(0.356e9), good, slow, good}, 2, "", good + " and " + good + " are the same run"},
		{[]string{good, slow, "--published", "E5.2", "--fail-on", "published,cost"}, 3, "Published and measured, B", "B: E5.2"},
		{[]string{good, "--markdown"}, 0, "| row | path |", ""},
		{[]string{good, "--published", "e5.2"}, 0, "E5.2", ""},
		// A row of another study, compared with a path of one's own choice: both
		// runs of E1.11, the receiver's count of E1.1.
		{[]string{good, "--published", "E1.11=direct/flows-1"}, 0, "9.42 Gbit/s", ""},
		{[]string{good, "--published", "E1.1=direct/flows-1"}, 0, "1.97 Gbit/s", ""},
		{[]string{good, "--published", "E4.2=direct/flows-1"}, 0, "autocorrelation is −0.68", ""},

		{nil, 2, "", "needs 1 to 26 runs"},
		{[]string{empty}, 2, "", "no run in this folder"},
		{[]string{filepath.Join(empty, "nothing.json")}, 2, "", "no such file"},
		{[]string{other}, 2, "", `of format "something/1", not hopbench.result/2`},
		{[]string{text}, 2, "", "no result.json"},
		{[]string{marked}, 0, "E5.2", ""},
		{[]string{wide}, 2, "", "it is UTF-16 text, not a result.json; save it with UTF-8 encoding"},
		{[]string{good, "--published", "E1.1"}, 2, "", "E1.1=PATH/TEST"},
		{[]string{good, "--published", "E1.1=direct/flows-9"}, 2, "", "its paths are direct, one-appliance, its tests flows-1"},
		{[]string{good, "--published", "E9.9=direct/flows-1"}, 2, "", `no published row or study "E9.9"`},
		{[]string{good, "--published", "E4.1=direct/flows-1"}, 2, "", "has no figure that test"},
		{[]string{good, "--fail-on", "cost"}, 2, "", "name a second one"},
		{[]string{good, good, "--fail-on", "published"}, 2, "", "needs --published"},
		{[]string{good, "--fail-on", "colour"}, 2, "", "cost, not-shown-equal or published"},
		{[]string{good, "--json", "--markdown"}, 2, "", "exclude each other"},
	} {
		status, stdout, stderr := command(t, append([]string{"compare"}, c.args...)...)
		if status != c.status || !strings.Contains(strings.ReplaceAll(stdout, "\u00a0", " "), c.stdout) || !strings.Contains(stderr, c.stderr) {
			t.Errorf("compare %q: status %d, want %d\n%s\n%s\nwant %q and %q", c.args, status, c.status, stdout, stderr, c.stdout, c.stderr)
		}
		if c.status != 0 && c.status != 3 && stdout != "" {
			t.Errorf("compare %q failed and printed %s", c.args, stdout)
		}
	}
}

// What a later run lacks is not shown to be as good as before: a pipeline must not pass
// because nothing was measured.
func TestNotShownEqualWithoutMeasurement(t *testing.T) {
	good := writeRun(t, 0.356e9)
	for name, c := range map[string]struct {
		change func(*result.Result)
		want   string
	}{
		"all trials of a test excluded": {func(r *result.Result) {
			for i := range r.Trials {
				if r.Trials[i].Test == "flows-1" {
					r.Trials[i].Gate = measurement.Gate{Findings: []measurement.Finding{{Name: "cpu", Code: measurement.FoundBusyCPUs, Fatal: true}}}
				}
			}
		}, "one-appliance, flows-1: not compared, since in one of the runs (A and B) no block has a counted"},
		"no such test": {func(r *result.Result) {
			r.Tests = r.Tests[1:]
			r.Trials = slices.DeleteFunc(r.Trials, func(t measurement.Trial) bool { return t.Test == "flows-1" })
		}, `B has no test "flows-1" of the same kind`},
		"no such path": {func(r *result.Result) {
			r.Paths = slices.DeleteFunc(r.Paths, func(p result.PathInfo) bool { return p.Name == "one-appliance" })
			r.Trials = slices.DeleteFunc(r.Trials, func(t measurement.Trial) bool { return t.Path == "one-appliance" })
		}, `B has no path "one-appliance"`},
	} {
		var before, after result.Result
		for _, r := range []*result.Result{&before, &after} {
			text, err := os.ReadFile(filepath.Join(good, "result.json"))
			testutil.OK(t, err)
			testutil.OK(t, json.Unmarshal(text, r))
			// Something else is left to be compared.
			r.Paths = append(r.Paths, result.PathInfo{Name: "other"})
			r.Tests = append(r.Tests, result.TestInfo{Name: "flows-2", Spec: measurement.Spec{Kind: measurement.TCP, Flows: 2}})
			for _, trial := range slices.Clone(r.Trials) {
				trial.Path, trial.Test = strings.Replace(trial.Path, "one-appliance", "other", 1), "flows-2"
				r.Trials = append(r.Trials, trial)
			}
		}
		c.change(&after)
		var folders []string
		for _, r := range []*result.Result{&before, &after} {
			var b bytes.Buffer
			testutil.OK(t, data.Write(&b, r))
			folders = append(folders, t.TempDir())
			testutil.OK(t, os.WriteFile(filepath.Join(folders[len(folders)-1], "result.json"), b.Bytes(), 0o666))
		}
		status, stdout, stderr := command(t, "compare", folders[0], folders[1], "--fail-on", "not-shown-equal")
		if status != base.ExitFound || !strings.Contains(stderr, c.want) || !strings.Contains(stdout, "other: no change larger than") {
			t.Errorf("%s: status %d\n%s\n%s\nwant %q", name, status, stdout, stderr, c.want)
		}
		if status, _, stderr := command(t, "compare", folders[0], folders[1], "--fail-on", "cost"); status != 0 {
			t.Errorf("%s: no cost is shown, and the status is %d: %s", name, status, stderr)
		}
	}
}

// Nor must it be told that its command line is wrong where a later run measured nothing of all
// that there is.
func TestNotShownEqualOfNothing(t *testing.T) {
	good, none := writeRun(t, 0.356e9), writeRun(t, 0.356e9)
	var r result.Result
	file := filepath.Join(none, "result.json")
	text, err := os.ReadFile(file)
	testutil.OK(t, err)
	testutil.OK(t, json.Unmarshal(text, &r))
	for i := range r.Trials {
		r.Trials[i].Gate = measurement.Gate{Findings: []measurement.Finding{{Name: "cpu", Code: measurement.FoundBusyCPUs, Fatal: true}}}
	}
	var b bytes.Buffer
	testutil.OK(t, data.Write(&b, &r))
	testutil.OK(t, os.WriteFile(file, b.Bytes(), 0o666))
	const why = "one-appliance, flows-1: not compared, since in one of the runs (A and B) no block has a counted"
	for failOn, want := range map[string]int{"not-shown-equal": base.ExitFound, "cost": base.ExitUsage} {
		status, stdout, stderr := command(t, "compare", good, none, "--fail-on", failOn)
		if status != want || !strings.Contains(stderr, why) || strings.Contains(stdout, why) != (want == base.ExitFound) {
			t.Errorf("--fail-on %s: status %d, want %d\n%s\n%s", failOn, status, want, stdout, stderr)
		}
	}
}

func TestCompareJSON(t *testing.T) {
	good, slow := writeRun(t, 0.356e9), writeRun(t, 0.2e9)
	status, stdout, _ := command(t, "compare", good, slow, "--json", "--published", "E5.2")
	var c result.Comparison
	if err := json.Unmarshal([]byte(stdout), &c); err != nil || status != 0 {
		t.Fatalf("status %d: %v", status, err)
	}
	if c.Format != result.ComparisonFormat || len(c.Runs) != 2 || c.Runs[1].Label != "B" || c.Runs[1].Source != slow {
		t.Errorf("runs: %+v", c.Runs)
	}
	if len(c.Changes) != 1 || c.Changes[0].Verdict != result.Costs || math.Abs(c.Changes[0].Ratio-0.2/0.356) > 0.01 {
		t.Errorf("changes: %+v", c.Changes)
	}
	if h := c.Runs[0].Published; len(h) != 1 || h[0].Basis != result.BasisRatio || h[0].Judgement != result.Inside || math.Abs(*h[0].Off) > 0.01 {
		t.Errorf("held: %+v", h)
	}
}

func TestExperimentsPublished(t *testing.T) {
	for _, c := range []struct {
		args   []string
		status int
		want   []string
	}{
		{nil, 0, []string{"firewall: Hub and spoke", "E1.1 ", "E5.3 ", "sender, run 3"}},
		{[]string{"E4.2"}, 0, []string{"30 readings", "−0.50", "936 Mbit/s to 989 Mbit/s"}},
		{[]string{"e5"}, 0, []string{"E5.1", "E5.2", "E5.3"}},
		{[]string{"E1.26"}, 0, []string{"rises strongly"}},
		{[]string{"fastpath"}, 0, []string{"367.00kbit", "sender, run 1"}},
		{[]string{"E1"}, 0, []string{"E1.10", "305.19 MiB/s"}},
		{[]string{"E7.1"}, 2, []string{`there is no published row or study "E7.1"; rows are E1.1, E1.2`}},
	} {
		status, stdout, stderr := command(t, append([]string{"experiments", "published"}, c.args...)...)
		for _, want := range c.want {
			if status != c.status || !strings.Contains(stdout+stderr, want) {
				t.Errorf("%q: status %d, no %q in\n%s%s", c.args, status, want, stdout, stderr)
			}
		}
	}
	status, stdout, _ := command(t, "experiments", "published", "E1.1", "--json")
	var data result.PublishedData
	if err := json.Unmarshal([]byte(stdout), &data); err != nil || status != 0 {
		t.Fatalf("status %d: %v", status, err)
	}
	// E1.1 is a row of its own, not the beginning of E1.10.
	if data.Format != "hopbench.published/1" || len(data.Studies) != 1 || len(data.Studies[0].Settings) != 1 || len(data.Studies[0].Settings[0].Figures) != 3 {
		t.Errorf("%+v", data)
	}
}

func TestRunAllUsage(t *testing.T) {
	folder := t.TempDir()
	bad := filepath.Join(t.TempDir(), "bad")
	testutil.OK(t, os.MkdirAll(bad, 0o777))
	index := func(text string) {
		testutil.OK(t, os.WriteFile(filepath.Join(bad, indexFile), []byte(text), 0o666))
	}
	for _, c := range []struct {
		index  string
		args   []string
		status int
		stderr string
	}{
		{"", []string{"all", "--only", "nope"}, 2, `no experiment "nope"`},
		{"", []string{"aa-null", "--only", "fastpath"}, 2, "--only is for"},
		{"", []string{"--resume", folder, "--quick"}, 2, "are for a new run"},
		{"", []string{"all", "--quick", "--full"}, 2, "exclude each other"},
		{`{"format": "x"}`, []string{"--resume", bad}, 2, `of format "x", not hopbench.index/2`},
		{`{`, []string{"--resume", bad}, 2, "unexpected end"},
		{`{"format": "hopbench.index/2", "experiments": [{"name": "a", "folder": "../a"}]}`, []string{"--resume", bad}, 2, "not below it"},
		{`{"format": "hopbench.index/2"}`, []string{"all", "--out", bad}, 1, "already holds runs"},
	} {
		if c.index != "" {
			index(c.index)
		}
		if status, _, stderr := command(t, append([]string{"run"}, c.args...)...); status != c.status || !strings.Contains(stderr, c.stderr) {
			t.Errorf("run %q: status %d: %s\nwant %d: %s", c.args, status, stderr, c.status, c.stderr)
		}
	}
}

// An experiment that cannot be read or run is listed with its reason, and the
// others go on; what was stopped is told from what failed.
func TestSettle(t *testing.T) {
	a := &several{flags: runFlags{quiet: true}}
	e := result.IndexEntry{}
	a.settle(t.Context(), &e, errors.New("no nftables here"))
	if e.State != result.EntryFailed || e.Reason != "no nftables here" {
		t.Errorf("%+v", e)
	}
	a.settle(t.Context(), &e, nil)
	if e.State != result.EntryDone || e.Reason != "" {
		t.Errorf("%+v", e)
	}
}

func TestRunAllGoesOnAfterAFailure(t *testing.T) {
	dir := t.TempDir()
	var out, errs bytes.Buffer
	a := &several{s: base.Streams{Out: &out, Err: &errs}, dir: dir, index: &result.Index{Format: result.IndexFormat,
		Entries: []result.IndexEntry{{Name: "not-bundled", Folder: "not-bundled", State: result.EntryNotRun}, {Name: "nor-this", Folder: "nor-this", State: result.EntryNotRun}}}}
	err := a.run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "0 of 2 experiments done; continue with: hopbench run --resume") {
		t.Errorf("%v", err)
	}
	back, err := readIndex(dir)
	testutil.OK(t, err)
	for _, e := range back.Entries {
		if e.State != result.EntryFailed || !strings.Contains(e.Reason, "no experiment") {
			t.Errorf("%+v", e)
		}
	}
	for _, name := range []string{"index.html", "index.md"} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !strings.Contains(string(text), "not-bundled") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A quick run has blocks enough to claim something, and its tests the time that
// their file gives them or half a second.
func TestQuick(t *testing.T) {
	for _, name := range experiments.Names() {
		quick, err := prepareRun(base.Streams{}, runFlags{seed: 1, quick: true}, name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		head, x, plan := quick.head, quick.e, quick.plan
		if head.Blocks < 6 || head.Blocks > 12 || x.Blocks != head.Blocks || head.Planned != len(plan.Trials) {
			t.Errorf("%s: %d blocks, %d planned trials of %d", name, head.Blocks, head.Planned, len(plan.Trials))
		}
		usual, err := prepareRun(base.Streams{}, runFlags{seed: 1}, name)
		testutil.OK(t, err)
		for i, test := range x.Tests {
			if was := usual.e.Tests[i].Spec; test.Spec.ExpectedDuration() > was.ExpectedDuration() || test.Spec.Duration > was.Duration {
				t.Errorf("%s: %s takes %v, %v when not quick", name, test.Name, test.Spec.ExpectedDuration(), was.ExpectedDuration())
			}
		}
		if again, err := prepareRun(base.Streams{}, runFlags{seed: 1, quick: true, blocks: 2}, name); err != nil || len(again.plan.Trials) != 2*len(x.Paths)*len(x.Tests) {
			t.Errorf("%s: not twice its trials in 2 blocks, %v", name, err)
		}
	}
}

func TestCompleteRunsAndRows(t *testing.T) {
	rows, _ := completeRows(nil, nil, "")
	if !slices.Contains(rows, "E5.2") || !slices.Contains(rows, "fastpath") {
		t.Errorf("rows: %q", rows)
	}
	_, stdout, _ := command(t, "__complete", "run", "--only", "aa-null,")
	if only := strings.Fields(stdout); !slices.Contains(only, "aa-null,routing-appliance") || slices.Contains(only, "aa-null,aa-null") {
		t.Errorf("experiments: %q", only)
	}
	t.Chdir(t.TempDir())
	for _, dir := range []string{"one", "all/two"} {
		dir = filepath.Join(runsFolder, dir)
		testutil.OK(t, os.MkdirAll(dir, 0o777))
		testutil.OK(t, os.WriteFile(filepath.Join(dir, "run.sqlite"), nil, 0o666))
	}
	runs, _ := completeRuns(nil, nil, "")
	if want := []string{filepath.Join(runsFolder, "one"), filepath.Join(runsFolder, "all", "two")}; !slices.Equal(runs, want) {
		t.Errorf("runs: %q, want %q", runs, want)
	}
}

// The judgements of a stored run are the same in its result.json, in its report
// and in a comparison.
func TestJudgementsAreTheSameEverywhere(t *testing.T) {
	text, err := experiments.Read("routing-appliance")
	testutil.OK(t, err)
	dir := t.TempDir()
	st, err := store.Create(dir, store.Head{Experiment: string(text), File: "routing-appliance.yaml", Name: "routing-appliance", Seed: 1, Blocks: 6,
		Testbed: result.Testbed{Kind: "lab", Relative: true}})
	testutil.OK(t, err)
	for block := 1; block <= 6; block++ {
		for i, path := range []string{"direct", "one-appliance"} {
			trial := measurement.Trial{ID: path + string(rune('0'+block)), Block: block, Order: 2*block + i, Path: path, Test: "flows-1",
				Gate: measurement.Gate{Passed: true}, Outcome: measurement.Outcome{Metrics: measurement.Metrics{
					"goodput_bits_per_second": []float64{1.2e9, 0.356e9}[i] * (1 + 0.001*float64(block))}}}
			testutil.OK(t, st.Put(t.Context(), trial))
		}
	}
	testutil.OK(t, st.Close())
	status, stdout, stderr := command(t, "report", dir, "--json")
	var own result.Result
	if err := json.Unmarshal([]byte(stdout), &own); err != nil || status != 0 {
		t.Fatalf("status %d: %v\n%s", status, err, stderr)
	}
	if len(own.Published) == 0 || len(own.Published) != len(own.Experiment.Published) {
		t.Fatalf("result.json judges %d of %d published figures", len(own.Published), len(own.Experiment.Published))
	}
	_, compared, _ := command(t, "compare", dir, "--json")
	var c result.Comparison
	testutil.OK(t, json.Unmarshal([]byte(compared), &c))
	if !reflect.DeepEqual(c.Runs[0].Published, own.Published) {
		t.Errorf("result.json: %+v\ncompare: %+v", own.Published, c.Runs[0].Published)
	}
	page, err := os.ReadFile(filepath.Join(dir, "report.md"))
	testutil.OK(t, err)
	judged := 0
	for _, h := range own.Published {
		reason := words.JudgementReason(h)
		if reason == "" {
			t.Errorf("%s is %s without a reason", h.ID, h.Judgement)
		}
		if h.N == 0 {
			continue
		}
		judged++
		// Markdown escapes the brackets of the interval.
		if says := strings.ReplaceAll(string(page), "\u00a0", " "); !strings.Contains(strings.ReplaceAll(says, `\`, ""), strings.ReplaceAll(reason, words.NBSP, " ")) {
			t.Errorf("the report does not say %q", reason)
		}
	}
	if judged != 2 {
		t.Errorf("%d figures were measured, want those of two paths", judged)
	}
}
