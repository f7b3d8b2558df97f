// Package data writes results for other programs: JSON and CSV.
package data

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/report/typeset"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/words"
)

// csvHeader names the columns of trials.csv; docs/data-format.md explains
// them.
var csvHeader = []string{"trial", "block", "order", "path", "test", "kind", "start", "elapsed_seconds", "warmup_seconds",
	"passed", "reasons", "metric", "unit", "value"}

// CSV writes the trials in long form: one row per trial and metric. Tests
// bring back different metrics, so a column for each would be mostly empty
// and would change with the experiment; in long form the columns never
// change, each value has its unit in the next column, and spreadsheets, R and pandas
// pivot it in one step. A trial without metrics keeps one row, so that holes
// are seen. The format is RFC 4180 with LF line ends.
func CSV(w io.Writer, r *result.Result) error {
	r = report.OnlyFinite(r)
	kinds := map[string]measurement.Kind{}
	for _, t := range r.Tests {
		kinds[t.Name] = t.Spec.Kind
	}
	c := csv.NewWriter(w)
	rows := [][]string{csvHeader}
	for i := range r.Trials {
		rows = append(rows, csvRows(&r.Trials[i], kinds[r.Trials[i].Test])...)
	}
	if err := c.WriteAll(rows); err != nil {
		return fmt.Errorf("write trials as CSV: %w", err)
	}
	return nil
}

// csvRows is the rows of one trial.
func csvRows(t *measurement.Trial, kind measurement.Kind) [][]string {
	start := ""
	if !t.Start.IsZero() {
		start = t.Start.UTC().Format(time.RFC3339Nano)
	}
	float := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	head := []string{typeset.Cell(t.ID), strconv.Itoa(t.Block), strconv.Itoa(t.Order), typeset.Cell(t.Path), typeset.Cell(t.Test),
		typeset.Cell(string(kind)), start, float(float64(t.Elapsed)), float(float64(t.Warmup)),
		strconv.FormatBool(t.Gate.Passed), typeset.Cell(words.Findings(t.Gate, false))}
	var out [][]string
	for _, name := range report.MetricNames(t.Metrics) {
		unit := ""
		if m, ok := measurement.MetricNamed(name); ok {
			unit = string(m.Unit)
		}
		out = append(out, slices.Concat(head, []string{typeset.Cell(name), unit, float(t.Metrics[name])}))
	}
	if len(out) == 0 {
		out = append(out, slices.Concat(head, []string{"", "", ""}))
	}
	return out
}
