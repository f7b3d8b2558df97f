package report_test

import (
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/analysis"
	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/report/markdown"
	"github.com/hopbench/hopbench/internal/report/reporttest"
	"github.com/hopbench/hopbench/internal/result"
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
	c.Changes, _ = comparedRuns(before, after)
	x := &result.Index{Entries: []result.IndexEntry{{Name: "x", State: result.EntryDone}}}
	report.Summarise(&x.Entries[0], after)

	for name, c := range map[string]struct {
		text  string
		wants []string
	}{
		"table": {string(comparisonText(t, c, 300)), []string{"\ntwo-appliances over direct ", "\ntwo-appliances over one-appliance "}},
		"text":  {string(written(t, markdown.WriteComparison, c)), []string{"- two appliances over directly peered: ", "- two appliances over one appliance: "}},
		"index": {string(written(t, markdown.WriteIndex, x)), []string{"- two appliances over directly peered: ", "- two appliances over one appliance: "}},
	} {
		for _, want := range c.wants {
			if !strings.Contains(c.text, want) {
				t.Errorf("the %s lacks %q:\n%s", name, want, c.text)
			}
		}
	}

	// Of one baseline there is nothing to tell apart.
	c.Changes = c.Changes[:1]
	if text := string(written(t, markdown.WriteComparison, c)); strings.Contains(text, " over ") {
		t.Errorf("a baseline is named where there is only one:\n%s", text)
	}
}
