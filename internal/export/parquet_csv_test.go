package export

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/xuri/excelize/v2"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testutil"
)

// compared has a result of two paths and a ping, which counts nothing over time.
func compared() Run {
	r := run()
	r.Result.Trials = r.Result.Trials[3:]
	r.Result.Tests = []result.TestInfo{{Name: "rr", Spec: measurement.Spec{Kind: measurement.RR}}, {Name: "bulk", Spec: measurement.Spec{Kind: measurement.TCP}}}
	r.Result.Paths = []result.PathInfo{{Name: "direct", Baseline: true}, {Name: "=fw", Hops: []result.HopInfo{{Type: "firewall", Name: "fw", Parameters: map[string]string{"rate": "1G", "delay": "1ms"}}}}}
	low := 0.001
	r.Result.Cells = []result.Cell{
		{Path: "direct", Test: "rr", Metric: "rtt_p50_seconds", N: 6, Median: 0.002, Low: &low},
		{Path: "=fw", Test: "rr", Metric: "rtt_p50_seconds", N: 6, Median: 0.003},
		{Path: "=fw", Test: "bulk", Metric: "goodput_bits_per_second", N: 0, Broken: 2},
	}
	r.Result.Costs = []result.Effect{{Path: "=fw", Baseline: "direct", Test: "rr", Metric: "rtt_p50_seconds", N: 6, Ratio: 1.5, Difference: 0.001, Verdict: result.Costs, Primary: true}}
	r.Result.Published = []result.PublishedComparison{{Figure: result.Figure{Path: "=fw", Test: "rr", Metric: "rtt_p50_seconds", Value: 0.004}, Judgement: result.NotMeasured}}
	return r
}

func TestTablesOfTheResult(t *testing.T) {
	f := spreadsheet(t, compared())
	if got, want := f.GetSheetList(), []string{"trials", "medians", "paths", "hops", "levels", "effects", "published"}; !slices.Equal(got, want) {
		t.Fatalf("sheets %q, want %q", got, want)
	}
	for _, c := range []struct{ sheet, cell, want string }{
		{"medians", "A1", "rtt_p50_seconds"}, {"medians", "B1", "rr"}, {"medians", "C1", ""}, {"medians", "A3", "=fw"}, {"medians", "B3", "0.003"},
		{"paths", "A3", "=fw"}, {"hops", "F2", "delay=1ms rate=1G"},
		{"levels", "F2", "0.002"}, {"levels", "G2", "0.001"}, {"levels", "H2", ""}, {"levels", "E4", "2"}, {"levels", "F4", ""},
		{"effects", "K2", "1.5"}, {"effects", "L2", ""}, {"effects", "S2", "costs"},
		{"published", "D2", "0.004"}, {"published", "E2", ""},
	} {
		got, err := f.GetCellValue(c.sheet, c.cell)
		testutil.OK(t, err)
		if got != c.want {
			t.Errorf("%s!%s is %q, want %q", c.sheet, c.cell, got, c.want)
		}
	}
}

// The chart of medians has a bar for each path.
func TestChartOfMedians(t *testing.T) {
	text := parts(t, xlsx(t, compared()))["xl/charts/chart1.xml"]
	for _, want := range []string{"<f>medians!$B$1</f>", "<f>medians!$A$2:$A$3</f>", "<f>medians!$B$2:$B$3</f>"} {
		if !strings.Contains(text, want) {
			t.Errorf("the chart has no %s", want)
		}
	}
}

func TestNoTrials(t *testing.T) {
	r := compared()
	r.Result.Trials = nil
	if err := XLSX(io.Discard, r); !errors.Is(err, errNoTrials) {
		t.Error(err)
	}
}

// FuzzNames: whatever paths and clients are called, sheets have names that a spreadsheet
// takes, and no cell is a formula.
func FuzzNames(f *testing.F) {
	for _, name := range []string{"=1+1", "+1", "-1", "@SUM(A1)", "[a]:*?/\\", "'", "\x00\x1b[31m", "\u202eabc", strings.Repeat("𝒳", 40), "medians", "\ufffe", "\t=1"} {
		f.Add(name, name+"x")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if len(a) > 100 || len(b) > 100 {
			return // longer names are cut as these are
		}
		r := compared()
		r.Result.Paths[1].Name, r.Result.Paths[1].Title = a, b
		r.Result.Trials = append(r.Result.Trials, measurement.Trial{ID: a, Path: b, Test: a, Outcome: measurement.Outcome{Pairs: []measurement.Pair{
			{Source: a, Destination: b, Throughput: &measurement.Bins{Width: 1, Bytes: []float64{1}}},
			{Source: b, Destination: a, Throughput: &measurement.Bins{Width: 1, Bytes: []float64{1}}},
		}}})
		file := xlsx(t, r)
		book, err := excelize.OpenReader(file)
		testutil.OK(t, err)
		defer book.Close()
		seen := map[string]bool{}
		for _, name := range book.GetSheetList() {
			lower := strings.ToLower(name)
			if seen[lower] || name == "" || len(utf16.Encode([]rune(name))) > excelize.MaxSheetNameLength || strings.ContainsAny(name, `[]:*?/\`) {
				t.Errorf("the sheet name %q", name)
			}
			seen[lower] = true
		}
		for name, text := range parts(t, file) {
			if strings.HasPrefix(name, "xl/worksheets/sheet") && (strings.Contains(text, "<f>") || strings.Contains(text, "<f ")) {
				t.Errorf("%s has a formula", name)
			}
		}
	})
}

// What has no value, or none that is bounded, because trials broke or lost what a percentile is
// of is empty: a zero would be a latency of nothing, and no difference.
func TestEffectsOfBrokenTrials(t *testing.T) {
	high := 0.002
	r := &result.Result{Costs: []result.Effect{
		{Path: "hop", Baseline: "direct", Test: "rr", Metric: "rtt_p50_seconds", N: 8, Broken: 8, ReferenceMedian: 0.001, EstimateUnbounded: true, HighUnbounded: true},
		{Path: "hop", Baseline: "direct", Test: "rr", Metric: "rtt_p50_seconds", N: 8, ReferenceBroken: 8, Median: 0.001, EstimateUnbounded: true, LowUnbounded: true},
		{Path: "hop", Baseline: "direct", Test: "rr", Metric: "rtt_p50_seconds", N: 8, Broken: 2, Median: 0.003, ReferenceMedian: 0.001, Difference: 0.002, DifferenceLow: &high, HighUnbounded: true},
		{Path: "hop", Baseline: "direct", Test: "rr", Metric: measurement.BrokenTrials, N: 8, Broken: 8, Median: 1, Difference: 1},
		{Path: "hop", Baseline: "direct", Test: "rr", Metric: "loss_fraction", N: 8},
		{Path: "hop", Baseline: "direct", Test: "rr", Metric: "rtt_p99_seconds", N: 8, ReferenceMedian: 0.002, EstimateUnbounded: true, HighUnbounded: true},
	}}
	want := [][3]any{{nil, 0.001, nil}, {0.001, nil, nil}, {0.003, 0.001, 0.002}, {1.0, 0.0, 1.0}, {0.0, 0.0, 0.0}, {nil, 0.002, nil}}
	for i, row := range tables(r)[0].rows {
		if got := [3]any{row[8], row[9], row[13]}; got != want[i] {
			t.Errorf("effect %d has the medians and the difference %v, want %v", i, got, want[i])
		}
	}
}
