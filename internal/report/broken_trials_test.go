package report_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/report/figure"
	"github.com/hopbench/hopbench/internal/report/reporttest"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testutil"
	"github.com/hopbench/hopbench/internal/words"
)

// What broken trials do to a comparison stands in every rendering: that the path
// breaks, and that its interval has no end.
func TestBrokenTrialsAreShown(t *testing.T) {
	r := reporttest.Run(t, 16)
	for i := range r.Trials {
		trial := &r.Trials[i]
		if trial.Path == "one-appliance" && trial.Test == "flows-1" && trial.Block <= 12 {
			trial.Outcome = measurement.Outcome{}
			trial.Gate = measurement.Gate{Broken: true, Findings: []measurement.Finding{{Name: "test", Code: measurement.FoundText, Text: "connection reset", Fatal: true, PathFailure: true}}}
		}
	}
	r.Cells, r.Costs, r.Attributions, r.Notes, r.Published = nil, nil, nil, nil, nil
	reporttest.Analyse(r)
	texts := renderAll(t, r)
	for name, wants := range map[string][]string{
		"terminal": {"one appliance: breaks 12 of 16 trials of 1 flow, directly peered none", "beyond any bound", "unbounded", "4 of 16 blocks"},
		"markdown": {"one appliance: breaks 12 of 16 trials of 1 flow, directly peered none", "beyond any bound", "unbounded"},
		"html":     {"one appliance: breaks 12 of 16 trials of 1 flow, directly peered none", "beyond any bound", "unbounded", ">breaks<"},
		"json":     {`"verdict": "breaks"`, `"estimate_unbounded": true`, `"low_unbounded": true`, `"broken": 12`},
	} {
		text := strings.Join(strings.Fields(strings.ReplaceAll(texts[name], words.NBSP, " ")), " ")
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %q", name, want)
			}
		}
	}
	var back result.Result
	testutil.OK(t, json.Unmarshal([]byte(texts["json"]), &back))
}

// breakTrials has a path break those trials of a run that are picked.
func breakTrials(r *result.Result, picked func(*measurement.Trial) bool) {
	for i := range r.Trials {
		if trial := &r.Trials[i]; picked(trial) {
			trial.Metrics = nil
			trial.Gate = measurement.Gate{Broken: true, Findings: []measurement.Finding{{Name: "completed", Code: measurement.FoundNoAnswers, Fatal: true, PathFailure: true}}}
		}
	}
}

// A run that broke all trials of a test on a path has no level: it is not zero.
func TestLevelOfBrokenTrialsInAComparison(t *testing.T) {
	before, after := reporttest.Run(t, 8), reporttest.Run(t, 8)
	breakTrials(after, func(trial *measurement.Trial) bool {
		return trial.Path == "one-appliance" && trial.Test == "latency"
	})
	c := &result.Comparison{Format: result.ComparisonFormat}
	c.Changes, _ = comparedRuns(before, after)
	for width, want := range map[int]string{300: "RTT p50 3.05 ms — unbounded", 60: "RTT p50: 3.05 ms → —, unbounded, p"} {
		if text := strings.Join(strings.Fields(string(comparisonText(t, c, width))), " "); !strings.Contains(text, want) || strings.Contains(text, "0.00 ms") {
			t.Errorf("%q is not said:\n%s", want, text)
		}
	}
}

// Nor has one that lost in each trial the requests that a percentile falls on.
func TestLevelOfLostPercentilesInAComparison(t *testing.T) {
	before, after := reporttest.Run(t, 8), reporttest.Run(t, 8)
	for i := range before.Trials {
		for _, trial := range []*measurement.Trial{&before.Trials[i], &after.Trials[i]} {
			if trial.Test == "latency" {
				trial.Metrics["rtt_p99_seconds"] = 2 * trial.Metrics["rtt_p50_seconds"]
			}
		}
		if trial := &after.Trials[i]; trial.Path == "one-appliance" && trial.Test == "latency" {
			delete(trial.Metrics, "rtt_p99_seconds")
			trial.Metrics["loss_fraction"] = 0.02
		}
	}
	c := &result.Comparison{Format: result.ComparisonFormat}
	c.Changes, _ = comparedRuns(before, after)
	if text := strings.Join(strings.Fields(string(comparisonText(t, c, 300))), " "); !strings.Contains(text, "RTT p99 6.11 ms — unbounded") {
		t.Errorf("a run without a p99 has one:\n%s", text)
	}
}

// The table says that trials broke also where all did.
func TestCellOfBrokenTrials(t *testing.T) {
	for broken, want := range map[int]string{2: "6 of 8 blocks, 2 broken", 8: "0 of 8 blocks, 8 broken"} {
		r := reporttest.Run(t, 8)
		breakTrials(r, func(trial *measurement.Trial) bool {
			return trial.Path == "one-appliance" && trial.Test == "flows-1" && trial.Block <= broken
		})
		reporttest.Analyse(r)
		if got := report.New(r).Table.Rows[1].Cells[2].Blocks; got != want {
			t.Errorf("%d broken: %q, want %q", broken, got, want)
		}
	}
}

// No figure calls a trial excluded that its path broke: it counts as the worst.
func TestFiguresTellBrokenTrialsApart(t *testing.T) {
	for _, broken := range []bool{true, false} {
		r := reporttest.Pairs(t, 6, 2)
		for i := range r.Trials {
			trial := &r.Trials[i]
			trial.Gate = measurement.Gate{Passed: true}
			if trial.Path == "one-appliance" && trial.Test == "flows-10" {
				trial.Gate = measurement.Gate{Broken: broken, Findings: []measurement.Finding{{Name: "test", Code: measurement.FoundText, Text: "connection reset", Fatal: true, PathFailure: broken}}}
			}
		}
		reporttest.Analyse(r)
		m := report.New(r)
		var text strings.Builder
		for _, f := range slices.Concat(figure.ThroughputFigures(m), figure.RttFigures(m), figure.PairFigures(m), figure.OrderFigures(m)) {
			text.WriteString(string(f.SVG) + f.Caption)
		}
		for _, c := range figure.ClientFigures(m) {
			text.WriteString(c.Caption)
		}
		is, never := "excluded", "broken"
		if broken {
			is, never = never, is
		}
		if got := text.String(); strings.Count(got, "("+is+")") < 2+6*2 || !strings.Contains(got, "; 6 "+is+".") || strings.Contains(got, "("+never+")") || strings.Contains(got, ", "+never) {
			t.Errorf("figures of 6 trials that are %s: %d times, and %q is said %d times", is, strings.Count(got, "("+is+")"), never, strings.Count(got, never))
		}
	}
}
