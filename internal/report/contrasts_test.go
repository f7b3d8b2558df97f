package report_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/analysis"
	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/report/markdown"
	"github.com/hopbench/hopbench/internal/report/reporttest"
	"github.com/hopbench/hopbench/internal/report/terminal"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testutil"
)

// A path that an experiment compares with two others has two verdicts on each test: a
// comparison and an index say which is which, as a report does.
func TestContrastsAreToldApart(t *testing.T) {
	contrasts := []result.Contrast{{Path: "two-appliances", Baseline: "direct"}, {Path: "two-appliances", Baseline: "one-appliance"}}
	before, after := reporttest.Run(t, 8), reporttest.Run(t, 8)
	for _, r := range []*result.Result{before, after} {
		r.Experiment.Contrasts = contrasts
		r.Costs = analysis.Analyse(r.Trials, r.Tests, r.Paths, analysis.Options{Contrasts: contrasts}).Costs
	}
	c := &result.Comparison{Format: result.ComparisonFormat, Paths: result.PathTitles(before.Paths), Tests: result.TestTitles(before.Tests)}
	c.Changes, _ = analysis.CompareRuns(analysis.Side{Label: "A", Runs: []*result.Result{before}}, []analysis.Side{{Label: "B", Runs: []*result.Result{after}}}, analysis.DefaultOptions())
	x := &result.Index{Entries: []result.IndexEntry{{Name: "x", State: result.EntryDone}}}
	report.Summarise(&x.Entries[0], after)

	var table, text, index bytes.Buffer
	testutil.OK(t, terminal.WriteComparison(&table, c, terminal.Options{Width: 300}))
	testutil.OK(t, markdown.WriteComparison(&text, c))
	testutil.OK(t, markdown.WriteIndex(&index, x))
	for name, c := range map[string]struct {
		text  string
		wants []string
	}{
		"table": {table.String(), []string{"\ntwo-appliances over direct ", "\ntwo-appliances over one-appliance "}},
		"text":  {text.String(), []string{"- two appliances over directly peered: ", "- two appliances over one appliance: "}},
		"index": {index.String(), []string{"- two appliances over directly peered: ", "- two appliances over one appliance: "}},
	} {
		for _, want := range c.wants {
			if !strings.Contains(c.text, want) {
				t.Errorf("the %s lacks %q:\n%s", name, want, c.text)
			}
		}
	}

	// Of one baseline there is nothing to tell apart.
	c.Changes = c.Changes[:1]
	text.Reset()
	testutil.OK(t, markdown.WriteComparison(&text, c))
	if strings.Contains(text.String(), " over ") {
		t.Errorf("a baseline is named where there is only one:\n%s", &text)
	}
}
