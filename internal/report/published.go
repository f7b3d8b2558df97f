package report

import (
	_ "embed"
	"math"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/result"
)

// comparison is a published figure beside what was measured: a row of the one
// table that reports, comparisons and indexes show.
type comparison struct {
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

// comparisons lays every published figure beside the measurement.
func (m *model) comparisons() []comparison {
	var out []comparison
	for _, h := range m.r.Held {
		metric := metricOf(h.Metric)
		c := heldComparison(h, m.comparisonScale(h, metric))
		c.Path, c.Test = m.pathLabel(h.Path), m.testLabel(h.Test)
		out = append(out, c)
	}
	return out
}

// metricOf is a metric of the catalogue, or one that only has a name.
func metricOf(name string) measurement.Metric {
	if metric, ok := measurement.MetricNamed(name); ok {
		return metric
	}
	return measurement.Metric{Name: name, Label: line(name), Unit: measurement.Count}
}

// comparisonScale is the unit of a comparison: that of the test's own column
// where both are in the same unit, so that a test's figures line up.
func (m *model) comparisonScale(h result.Held, metric measurement.Metric) quantity.Scale {
	for _, t := range m.Tests {
		if t.Name == h.Test && t.HasPrimary && t.Primary.Unit == metric.Unit && !metric.ScalesWithRate && !t.Mixed {
			return t.Scale
		}
	}
	return heldScale(h, metric)
}

// heldScale is a unit for what was published and what was measured.
func heldScale(h result.Held, metric measurement.Metric) quantity.Scale {
	values := []float64{h.Value}
	if h.N > 0 {
		values = append(values, h.Measured)
	}
	return commonScale(metric.Unit, values)
}

// heldComparison writes a published figure and what was measured in a unit.
func heldComparison(h result.Held, s quantity.Scale) comparison {
	c := comparison{ID: line(h.ID), Path: line(h.Path), Test: line(h.Test), Metric: metricOf(h.Metric).Label,
		Published: with(publishedNumber(h.Value/s.Factor), s.Name), Measured: "—",
		Reason: upperFirst(sentence(h.Reason)), Note: sentence(h.Note)}
	c.Verdict, c.VerdictClass = judgementText(h)
	if h.N == 0 {
		return c
	}
	d := quantity.Decimals(h.Measured/s.Factor, 3)
	if h.Measured == math.Trunc(h.Measured) && (s.Name == "" || s.Name == "B") {
		d = 0 // whole counts, such as hops
	}
	write := func(x float64) string { return quantity.Number(x/s.Factor, d) }
	c.Measured = with(write(h.Measured), s.Name)
	if h.Low != nil && h.High != nil {
		c.Interval = interval(*h.Low, *h.High, write)
	}
	c.Ratio = ratioText(h.Ratio)
	return c
}

// judgementText is a judgement in two words, and its style.
func judgementText(h result.Held) (text, class string) {
	switch {
	case h.Judgement == result.NotMeasured:
		return "not measured", "v-open"
	case h.Judgement == result.Within && h.Tolerance != nil:
		return "within" + nbsp + trimmedPercent(*h.Tolerance), "v-fine"
	case h.Judgement == result.Outside && h.Tolerance != nil:
		return "not within" + nbsp + trimmedPercent(*h.Tolerance), "v-costs"
	}
	return "not judged", "v-open"
}

// publishedColumns are the heads of the table of published figures; measured is
// that of the measured values.
func publishedColumns(measured string) []string {
	return []string{"row", "path", "test", "metric", "published", measured, "95 % interval", "ratio", "verdict", "reason", "note"}
}

// publishedCells are the cells of a comparison below publishedColumns.
func (c comparison) publishedCells() []string {
	return []string{c.ID, c.Path, c.Test, c.Metric, c.Published, c.Measured, c.Interval, c.Ratio, c.Verdict, c.Reason, c.Note}
}

// publishedHTML defines the template of that table, which both pages use.
//
//go:embed published.html
var publishedHTML string

// publishedTable is that table for a page.
type publishedTable struct {
	ScaleName string // "10", "" when not scaled
	Rows      []comparison
}
