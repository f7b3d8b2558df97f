package report

import (
	_ "embed"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/words"
)

// figureRow is a published figure and what was measured: a row of the one
// table that reports, comparisons and indexes show.
type figureRow struct {
	ID, Path, Test, Metric string
	Published              string
	Measured               string // × scale where it scales
	Interval               string
	Ratio                  string // measured / published
	Verdict                string // whether within the tolerance
	VerdictClass           string
	Reason                 string // what the verdict rests on
	Note                   string
}

// figureRows compares every published figure with the measurement. A figure in
// the unit of its test's own column is written in that, so that they line up.
func (m *model) figureRows() []figureRow {
	var out []figureRow
	for _, p := range m.Run.Published {
		column := columnOf(p)
		for _, t := range m.Tests {
			if metric := measurement.MetricOf(p.Metric); t.Name == p.Test && t.HasPrimary && t.Primary.Unit == metric.Unit && !metric.ScalesWithRate && !t.Column.Mixed() {
				column = t.Column
			}
		}
		row := newFigureRow(p, column)
		row.Path, row.Test = m.pathLabel(p.Path), m.testLabel(p.Test)
		out = append(out, row)
	}
	return out
}

// columnOf writes what was published and what was measured in one unit.
func columnOf(p result.PublishedComparison) words.Column {
	values := []float64{p.Value}
	if p.N > 0 {
		values = append(values, p.Measured)
	}
	return words.NewColumn(measurement.MetricOf(p.Metric).Unit, values, nil)
}

// newFigureRow writes a published figure and what was measured in a unit.
func newFigureRow(p result.PublishedComparison, column words.Column) figureRow {
	s := column.ScaleOf(p.Value)
	row := figureRow{ID: line(p.ID), Path: line(p.Path), Test: line(p.Test), Metric: line(measurement.MetricOf(p.Metric).Label),
		Published: words.Printed(p.Value, s), Measured: words.None, Verdict: words.Judgement(p), VerdictClass: "v-open",
		Reason: upperFirst(sentence(words.JudgementReason(p))), Note: sentence(p.Note)}
	switch p.Judgement {
	case result.Within:
		row.VerdictClass = "v-fine"
	case result.Outside:
		row.VerdictClass = "v-costs"
	}
	if p.N == 0 {
		return row
	}
	row.Measured, row.Interval = words.Measured(p.Measured, p.Low, p.High, s)
	row.Ratio = words.Ratio(p.Ratio)
	return row
}

// publishedColumns are the heads of the table of published figures; measured is
// that of the measured values.
func publishedColumns(measured string) []string {
	return []string{"row", "path", "test", "metric", "published", measured, "95 % interval", "ratio", "verdict", "reason", "note"}
}

// publishedCells are the cells of a comparison below publishedColumns.
func (c figureRow) publishedCells() []string {
	return []string{c.ID, c.Path, c.Test, c.Metric, c.Published, c.Measured, c.Interval, c.Ratio, c.Verdict, c.Reason, c.Note}
}

// publishedHTML defines the template of that table, which both pages use.
//
//go:embed published.html
var publishedHTML string

// publishedTable is that table for a page.
type publishedTable struct {
	ScaleName string // "10", "" when not scaled
	Rows      []figureRow
}
