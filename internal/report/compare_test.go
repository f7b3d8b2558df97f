package report_test

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/analysis"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/report/data"
	"github.com/hopbench/hopbench/internal/report/html"
	"github.com/hopbench/hopbench/internal/report/markdown"
	"github.com/hopbench/hopbench/internal/report/reporttest"
	"github.com/hopbench/hopbench/internal/report/terminal"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testutil"
	"github.com/hopbench/hopbench/internal/testutil/browsertest"
	"github.com/hopbench/hopbench/internal/words"
)

// toleranced is the fixture with a tolerance for some of its figures.
func toleranced(t testing.TB, blocks int) *result.Result {
	t.Helper()
	r := reporttest.Run(t, blocks)
	tolerance := func(v float64) *float64 { return &v }
	for i := range r.Experiment.Published {
		f := &r.Experiment.Published[i]
		switch {
		case f.ID == "E5.1" && f.Test == "flows-1", f.ID == "E5.2" && f.Test == "flows-1":
			f.Tolerance = tolerance(0.1)
		case f.ID == "E5.3" && f.Test == "flows-1":
			f.Tolerance = tolerance(0.01)
		}
	}
	reporttest.Analyse(r)
	return r
}

// comparedRuns is what a comparison finds between two runs, A and B.
func comparedRuns(a, b *result.Result) ([]result.Effect, []result.Note) {
	return analysis.CompareRuns(analysis.Side{Label: "A", Runs: []*result.Result{a}}, []analysis.Side{{Label: "B", Runs: []*result.Result{b}}}, analysis.DefaultOptions())
}

// comparisonFixture compares the fixture with the published figures, and a run
// in which one path is slower against it.
func comparisonFixture(t testing.TB) *result.Comparison {
	t.Helper()
	a, b := toleranced(t, 10), toleranced(t, 8)
	for i := range b.Trials {
		if trial := &b.Trials[i]; trial.Path == "one-appliance" && trial.Test == "flows-1" {
			trial.Metrics["goodput_bits_per_second"] *= 0.8
		}
	}
	b.Environment["hopbench"] = "v0.2.0"
	runs := []analysis.LabelledRun{{Label: "A", Result: a}, {Label: "B", Result: b}}
	c := &result.Comparison{Format: result.ComparisonFormat, Paths: result.PathTitles(a.Paths), Tests: result.TestTitles(a.Tests)}
	for _, run := range runs {
		r := run.Result
		c.Runs = append(c.Runs, result.ComparedRun{Label: run.Label, Source: "runs/" + run.Label, Experiment: r.Experiment.Name,
			Started: r.Started, Seed: r.Seed, Scale: r.Experiment.Scale, Testbed: r.Testbed, Environment: r.Environment, Trials: len(r.Trials)})
	}
	c.Runs[0].Published = analysis.ComparePublished(a, a.Experiment.Published)
	changes, notes := comparedRuns(a, b)
	c.Changes, c.Notes = changes, append(analysis.Differences(runs[0], runs[1]), notes...)
	return c
}

func comparisonText(t testing.TB, c *result.Comparison, width int) []byte {
	t.Helper()
	var b bytes.Buffer
	testutil.OK(t, terminal.WriteComparison(&b, c, terminal.Options{Width: width}))
	return b.Bytes()
}

func TestComparisonGolden(t *testing.T) {
	c := comparisonFixture(t)
	reporttest.Golden(t, "compare-120.txt", comparisonText(t, c, 120))
	reporttest.Golden(t, "compare-60.txt", comparisonText(t, c, 60))
	reporttest.Golden(t, "compare.md", written(t, markdown.WriteComparison, c))
}

func TestComparisonJSON(t *testing.T) {
	c := comparisonFixture(t)
	var back result.Comparison
	testutil.OK(t, json.Unmarshal(written(t, data.WriteComparison, c), &back))
	if back.Format != "hopbench.comparison/2" || len(back.Runs) != 2 || len(back.Changes) != len(c.Changes) || len(back.Runs[0].Published) != 11 {
		t.Errorf("read back: %d runs, %d changes", len(back.Runs), len(back.Changes))
	}
}

// The published table shows what is compared with what, whether it is within the
// tolerance, and why; every way to show it has the same columns.
func TestPublishedTableShowsJudgements(t *testing.T) {
	page := string(htmlText(t, toleranced(t, 10)))
	for _, want := range []string{
		`<td role="cell" class="v-fine">inside` + words.NBSP + `10` + words.NBSP + `%</td><td role="cell">planted</td><td role="cell" class="reason">−0.83` + words.NBSP + `% off <span class="note">2694 retransmits</span></td>`, // the baseline, by value
		`<td role="cell" class="v-fine">inside` + words.NBSP + `10` + words.NBSP + `%</td><td role="cell">planted</td><td role="cell" class="reason">0.298× the baseline [0.297,` + words.NBSP + `0.300], published 0.297×`,
		`<td role="cell" class="v-open">outside` + words.NBSP + `1` + words.NBSP + `%</td><td role="cell">predicted</td><td role="cell" class="reason">0.293× the baseline [0.291,` + words.NBSP + `0.294], published 0.302×`,
		`<td role="cell" class="v-open">not judged</td>`, "no tolerance is stated",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	index := string(indexPageText(t, indexFixture(t)))
	head := regexp.MustCompile(`(?s)<table class="plain published cards".*?</thead>`)
	if a, b := head.FindString(page), head.FindString(index); a == "" || a != b {
		t.Errorf("the tables have other columns:\n%s\n%s", a, b)
	}
}

// A run that brought nothing back says why, figure by figure.
func TestPublishedTableSaysWhyNothingWasMeasured(t *testing.T) {
	r := toleranced(t, 1)
	r.Cells, r.Costs = nil, nil
	for i := range r.Trials {
		r.Trials[i].Gate.Passed = r.Trials[i].Path != "direct"
	}
	r.Trials = slices.DeleteFunc(r.Trials, func(trial measurement.Trial) bool { return trial.Path == "two-appliances" })
	r.Published = analysis.ComparePublished(r, r.Experiment.Published)
	page := string(htmlText(t, r))
	for _, want := range []string{"None of its trials counts: gates excluded, or the path broke, all 1", "None of its counted trials has this metric", "It has no trial", `<td role="cell" class="v-open">not measured</td>`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

// indexFixture is an index with an experiment in each state.
func indexFixture(t testing.TB) *result.Index {
	t.Helper()
	start := time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)
	x := &result.Index{Format: result.IndexFormat, Started: start, Ended: start.Add(195 * time.Second), Seed: 7, Quick: true,
		Entries: []result.IndexEntry{
			{Name: "routing-appliance", Folder: "routing-appliance", State: result.EntryDone, Elapsed: 121},
			{Name: "firewall-fleet", Title: "A fleet", Folder: "firewall-fleet", State: result.EntryFailed, Elapsed: 0.2,
				Reason: "build the lab: hop \"firewall\" of path \"fleet\" needs nf_tables, which this kernel lacks"},
			{Name: "half", Folder: "half", State: result.EntryStopped, Elapsed: 70, Reason: "stopped after 36 of 120 trials"},
			{Name: "later", Folder: "later", State: result.EntryNotRun},
		}}
	report.Summarise(&x.Entries[0], toleranced(t, 10))
	report.Summarise(&x.Entries[2], reporttest.Run(t, 3))
	x.Entries[2].Planned = 120
	return x
}

func indexPageText(t testing.TB, x *result.Index) []byte {
	t.Helper()
	return written(t, html.WriteIndex, x)
}

func TestIndexGolden(t *testing.T) {
	x := indexFixture(t)
	reporttest.Golden(t, "index.md", written(t, markdown.WriteIndex, x))
	var text bytes.Buffer
	testutil.OK(t, terminal.WriteIndex(&text, x, terminal.Options{Width: 90}))
	reporttest.Golden(t, "index-90.txt", text.Bytes())
}

func TestIndexPage(t *testing.T) {
	page := indexPageText(t, indexFixture(t))
	// It links to what lies next to it or below it, and is otherwise as alone as a
	// report.
	links := regexp.MustCompile(`<a href="(#[a-z-]+|[a-z-]+/report\.html)">([^<]*)</a>`)
	if err := checkPage(links.ReplaceAll(page, []byte("$2"))); err != nil {
		t.Error(err)
	}
	for _, want := range []string{
		`href="routing-appliance/report.html"`, `href="half/report.html"`, "1 of 4 experiments done", "1 failed", "stopped early",
		"which this kernel lacks", "2 of 2 predictions inside; 1 prediction not counted; 5 figures are planted", "36 of 120 trials", "default-src &#39;none&#39;",
	} {
		if !strings.Contains(string(page), want) && !strings.Contains(string(page), strings.ReplaceAll(want, "&#39;", "'")) {
			t.Errorf("the page does not say %q", want)
		}
	}
	for _, never := range []string{`href="later/`, `href="firewall-fleet/`} {
		if strings.Contains(string(page), never) {
			t.Errorf("the page links to %s, which is not there", never)
		}
	}
	if out := os.Getenv("HOPBENCH_INDEX_OUT"); out != "" {
		testutil.OK(t, os.WriteFile(out, page, 0o666))
	}
}

func TestReadingsAreSaidWhereTheyDepend(t *testing.T) {
	r := reporttest.Run(t, 6)
	m := report.New(r)
	if text := strings.Join(m.Seen, " "); strings.Contains(text, "autocorrelation") {
		t.Errorf("independent readings: %s", text)
	}
	for i := range r.Trials {
		if b := r.Trials[i].Throughput; b != nil {
			for j := range b.Bytes {
				b.Bytes[j] = 1e6 + 1e5*float64(j%2)
			}
		}
	}
	if text := strings.Join(report.New(r).Seen, " "); !strings.Contains(text, "not counted as repetitions") || !strings.Contains(text, "autocorrelation (median −0.") {
		t.Errorf("readings that swing against each other: %s", text)
	}
}

func TestBrowserIndex(t *testing.T) {
	browsertest.Program(t)
	x := indexFixture(t)
	folder := os.Getenv(screenshotsEnv)
	if folder == "" {
		folder = t.TempDir()
	}
	page := write(t, "index.html", indexPageText(t, x))
	phone := write(t, "phone.html", []byte(`<!doctype html><body style="margin:0"><iframe src="file://`+page+`" style="border:0;width:390px;height:2600px"></iframe>`))
	for name, args := range map[string][]string{
		"index-light": {page, "--blink-settings=preferredColorScheme=1", "--window-size=1100,1500"},
		"index-dark":  {page, "--blink-settings=preferredColorScheme=0", "--window-size=1100,1500"},
		"index-phone": {phone, "--window-size=500,2600"},
	} {
		file := folder + "/" + name + ".png"
		_, log := browse(t, args[0], append(args[1:], "--screenshot="+file)...)
		if strings.Contains(log, "CONSOLE") {
			t.Errorf("the browser logged %s", log)
		}
		if n := coloursIn(t, file); n < 20 {
			t.Errorf("%s has %d colours: nothing was drawn", name, n)
		}
	}
}

// A p has its name once, in a row of a table and where there is no room for one.
func TestSmallPOfAComparison(t *testing.T) {
	c := comparisonFixture(t)
	small, likely := 1e-6, 0.25
	for i := range c.Changes {
		c.Changes[i].PAdjusted = &small
		if i%2 == 1 {
			c.Changes[i].PAdjusted = &likely
		}
	}
	for _, s := range report.ComparisonSheets(c) {
		for _, row := range s.Changes[min(1, len(s.Changes)):] {
			if p := row[7]; p != "< 0.0001" && p != "0.25" {
				t.Errorf("a cell of p is %q", p)
			}
		}
	}
	text := strings.Join(strings.Fields(string(comparisonText(t, c, 60))), " ")
	if strings.Contains(text, "p p") || !strings.Contains(text, ", p < 0.0001: ") {
		t.Error(text)
	}
}
