package export

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testutil"
)

// What a spreadsheet does not hold is refused with what to do instead.
func TestBeyondASpreadsheet(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*result.Result)
		want   string
	}{
		"rows of levels": {func(r *result.Result) { r.Cells = make([]result.Cell, mostSheetRows+1) }, "read result.json"},
		"trials":         {func(r *result.Result) { r.Trials = make([]measurement.Trial, mostSheetRows+1) }, "--trial"},
		"metrics": {func(r *result.Result) {
			metrics := measurement.Metrics{}
			for i := range 1 << 14 {
				metrics[fmt.Sprint("made_up_", i)] = 1
			}
			r.Trials[0].Metrics = metrics
		}, "read result.json"},
		"tests": {func(r *result.Result) {
			for i := range 1 << 14 {
				name := fmt.Sprint("t", i)
				r.Tests = append(r.Tests, result.TestInfo{Name: name, Spec: measurement.Spec{Kind: measurement.RR}})
				r.Cells = append(r.Cells, result.Cell{Path: "direct", Test: name, Metric: "rtt_p50_seconds", N: 1, Median: 1})
			}
		}, "read result.json"},
		"steps of a client": {func(r *result.Result) {
			r.Trials = append(r.Trials, measurement.Trial{ID: "long", Outcome: measurement.Outcome{Pairs: []measurement.Pair{{Source: "c", Destination: "s", Throughput: &measurement.Bins{Width: 1, Bytes: make([]float64, mostSheetRows+1)}}}}})
		}, remedy},
	} {
		r := compared()
		c.change(r.Result)
		if err := XLSX(io.Discard, r); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// A cell holds 32 767 characters; what a name has more is cut.
func TestLongNames(t *testing.T) {
	r := compared()
	r.Result.Paths[1].Title = strings.Repeat("t", 40_000)
	r.Result.Trials[0].ID = strings.Repeat("i", 40_000)
	r.Result.Trials = append(r.Result.Trials, measurement.Trial{ID: strings.Repeat("j", 40_000), Path: "=fw", Test: "bulk", Outcome: measurement.Outcome{Pairs: []measurement.Pair{{Source: "10.0.0.1", Destination: "s", Throughput: &measurement.Bins{Width: 1, Bytes: []float64{1}}}}}})
	f := spreadsheet(t, r)
	for _, c := range []struct{ sheet, cell string }{{"paths", "B3"}, {"trials", "A2"}, {"aggregate", fmt.Sprint("A", chartRows+1)}, {"10.0.0.1", "A2"}} {
		if got, err := f.GetCellValue(c.sheet, c.cell); err != nil || len(got) == 0 || len(got) > 32_767 {
			t.Errorf("%s!%s has %d characters, %v", c.sheet, c.cell, len(got), err)
		}
	}
}

// awkward are names that a format might take for something else.
var awkward = []string{
	`a,b`, `a;b`, `"a"`, `'a'`, "a\tb", "a\nb", "a\r\nb", ` a `, `\`, `/`, `..`, `a&b<c>`, `{"a":1}`, `]]>`, `%s%n`, `$(a)`, "`a`", `#REF!`,
	`NULL`, `TRUE`, `1e5`, `0012`, `2026-01-01`, `=1+1`, `+1`, `-1`, `@A1`, `|a|`, `*a*`, `é`, "e\u0301", `日本`, `𝒳`, `👩‍🚀`, "\u00a0", "\u200b", "\u202eabc", "\x1b[31m", "\x00", "\x7f", "\ufeffa", "\ufffe", "\xff",
}

// Whatever a path is called, all formats give it the same name, or in CSV that name
// behind the apostrophe that keeps a spreadsheet from computing it.
func TestAwkwardNamesComeBack(t *testing.T) {
	for _, name := range awkward {
		r := run()
		r.Result.Trials = r.Result.Trials[:1]
		r.Result.Paths[0].Name, r.Result.Trials[0].Path = name, name

		rows := all(t, r)
		shown := rows[0].Path
		if strings.ContainsAny(shown, "\x00\x1b\x7f\n\r\t\u202e\ufffe") {
			t.Errorf("%q is shown as %q", name, shown)
		}
		var file bytes.Buffer
		testutil.OK(t, Parquet(&file, r))
		back, err := parquet.Read[Row](bytes.NewReader(file.Bytes()), int64(file.Len()))
		testutil.OK(t, err)
		file.Reset()
		testutil.OK(t, CSV(&file, r))
		records, err := csv.NewReader(&file).ReadAll()
		testutil.OK(t, err)
		if len(back) != len(rows) || len(records) != len(rows)+1 {
			t.Errorf("%q: %d rows of Parquet and %d of CSV, want %d", name, len(back), len(records)-1, len(rows))
			continue
		}
		f := spreadsheet(t, r)
		for i, row := range rows {
			if back[i].Path != shown || row.Path != shown {
				t.Errorf("%q is %q in Parquet, want %q", name, back[i].Path, shown)
			}
			if in := records[i+1][1]; strings.TrimPrefix(in, "'") != strings.TrimPrefix(shown, "'") || in != "" && strings.ContainsAny(in[:1], "=+-@") {
				t.Errorf("%q is %q in CSV, want %q", name, in, shown)
			}
		}
		for _, c := range []struct{ sheet, cell string }{{"trials", "D2"}, {"vm1", "B2"}, {"aggregate", fmt.Sprint("B", chartRows+1)}, {"paths", "A2"}} {
			got, err := f.GetCellValue(c.sheet, c.cell)
			testutil.OK(t, err)
			if got != shown {
				t.Errorf("%q is %q in %s!%s, want %q", name, got, c.sheet, c.cell, shown)
			}
		}
	}
}
