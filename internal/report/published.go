package report

import (
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/report/typeset"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/words"
)

// FigureRow is a published figure and what was measured: a row of the one
// table that reports, comparisons and indexes show.
type FigureRow struct {
	ID, Path, Test, Metric string
	Kind                   string // planted, predicted or open
	Published              string
	Measured               string // × scale where it scales
	Interval               string
	Ratio                  string // measured / published
	Verdict                string // whether inside the tolerance
	VerdictClass           string
	Reason                 string // what the verdict rests on
	Note                   string
}

// PublishedTable is the table of published figures, and how far the experiment is scaled
// down: "10", empty where it is not.
type PublishedTable struct {
	Published []FigureRow
	ScaledBy  string
}

// publishedTable writes each figure in a unit of its own.
func publishedTable(all []result.PublishedComparison, scale float64) PublishedTable {
	out := PublishedTable{ScaledBy: words.ScaledBy(scale)}
	for _, p := range all {
		out.Published = append(out.Published, newFigureRow(p, columnOf(p)))
	}
	return out
}

// figureRows compares every published figure with the measurement. A figure in
// the unit of its test's own column is written in that, so that they line up.
func (m *Model) figureRows() []FigureRow {
	var out []FigureRow
	for _, p := range m.Run.Published {
		column := columnOf(p)
		for _, t := range m.Tests {
			if metric := measurement.MetricOf(p.Metric); t.Name == p.Test && t.HasPrimary && t.Primary.Unit == metric.Unit && !metric.ScalesWithRate && !t.Column.Mixed() {
				column = t.Column
			}
		}
		row := newFigureRow(p, column)
		row.Path, row.Test = m.PathLabel(p.Path), m.TestLabel(p.Test)
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
func newFigureRow(p result.PublishedComparison, column words.Column) FigureRow {
	s := column.ScaleOf(p.Value)
	row := FigureRow{ID: typeset.Line(p.ID), Path: typeset.Line(p.Path), Test: typeset.Line(p.Test), Metric: typeset.Line(measurement.MetricOf(p.Metric).Label),
		Kind: typeset.Line(string(p.Kind)), Published: words.Printed(p.Value, s), Measured: words.None, Verdict: words.Judgement(p), VerdictClass: "v-open",
		Reason: typeset.UpperFirst(typeset.Sentence(words.JudgementReason(p))), Note: typeset.Sentence(p.Note)}
	switch {
	case !p.SameConditions():
	case p.Judgement == result.Inside:
		row.VerdictClass = "v-fine"
	case p.Judgement == result.Outside:
		row.VerdictClass = "v-costs"
	}
	if p.N == 0 {
		return row
	}
	row.Measured, row.Interval = words.Measured(p.Measured, p.Low, p.High, s)
	row.Ratio = words.Ratio(p.Ratio)
	return row
}

// PublishedColumns are the heads of the table.
func (t PublishedTable) PublishedColumns() []string {
	measured := "measured"
	if t.ScaledBy != "" {
		measured += " × " + t.ScaledBy
	}
	return []string{"row", "path", "test", "metric", "published", measured, "95 % interval", "ratio", "verdict", "kind", "reason", "note"}
}

// PublishedCells are the cells of a comparison below publishedColumns.
func (c FigureRow) PublishedCells() []string {
	return []string{c.ID, c.Path, c.Test, c.Metric, c.Published, c.Measured, c.Interval, c.Ratio, c.Verdict, c.Kind, c.Reason, c.Note}
}
