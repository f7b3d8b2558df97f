package report

import (
	"math"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/stats"
)

// comparison is a published figure beside what was measured.
type comparison struct {
	ID, Path, Test, Metric string
	Published              string
	Measured               string // × scale where it scales
	Interval               string
	Ratio                  string // measured / published
	Held                   string // the ratios to the baseline, and the judgement
	Judgement              string // whether within the tolerance
	HeldClass              string
	Note                   string
}

// comparisons lays every published figure beside the measurement.
func (m *model) comparisons() []comparison {
	var out []comparison
	for _, h := range stats.HoldPublished(m.r, m.r.Experiment.Published) {
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
func (m *model) comparisonScale(h measurement.Held, metric measurement.Metric) quantity.Scale {
	for _, t := range m.Tests {
		if t.Name == h.Test && t.HasPrimary && t.Primary.Unit == metric.Unit && !metric.ScalesWithRate && !t.Mixed {
			return t.Scale
		}
	}
	return heldScale(h, metric)
}

// heldScale is a unit for what was published and what was measured.
func heldScale(h measurement.Held, metric measurement.Metric) quantity.Scale {
	values := []float64{h.Value}
	if h.N > 0 {
		values = append(values, h.Measured)
	}
	return commonScale(metric.Unit, values)
}

// heldComparison writes a published figure and what was measured in a unit.
func heldComparison(h measurement.Held, s quantity.Scale) comparison {
	c := comparison{ID: line(h.ID), Path: line(h.Path), Test: line(h.Test), Metric: metricOf(h.Metric).Label,
		Published: with(publishedNumber(h.Value/s.Factor), s.Name), Measured: "not measured", Note: sentence(h.Note)}
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
	c.Judgement, c.HeldClass = judgementText(h)
	c.Held = heldText(h, c.Judgement)
	return c
}

// heldText is what the judgement compares, and how it ends.
func heldText(h measurement.Held, judgement string) string {
	if h.Basis != measurement.BasisRatio {
		return judgement
	}
	text := ratioText(h.MeasuredRatio) + " the baseline"
	if h.RatioLow != nil && h.RatioHigh != nil {
		text += " " + interval(*h.RatioLow, *h.RatioHigh, func(x float64) string { return quantity.Number(x, nearOneDecimals(x)) })
	}
	text += ", published " + ratioText(h.PublishedRatio)
	if judgement != "" {
		text += ": " + judgement
	}
	return text
}

// judgementText is a judgement in two words, and its style; empty for none.
func judgementText(h measurement.Held) (text, class string) {
	switch h.Judgement {
	case measurement.Within:
		return "within" + nbsp + trimmedPercent(*h.Tolerance), "v-fine"
	case measurement.Outside:
		return "not within" + nbsp + trimmedPercent(*h.Tolerance), "v-costs"
	}
	return "", ""
}

// HasHeld says that any comparison is more than two numbers side by side.
func (m *model) HasHeld() bool { return hasHeld(m.Published) }

func hasHeld(all []comparison) bool {
	for _, c := range all {
		if c.Held != "" {
			return true
		}
	}
	return false
}

// publishedColumns are the heads of the table of published figures; measured is
// that of the measured values. The ratio to the baseline and the judgement have
// a column where any figure has them.
func publishedColumns(all []comparison, measured string) []string {
	columns := []string{"row", "path", "test", "metric", "published", measured, "95 % interval", "ratio"}
	if hasHeld(all) {
		columns = append(columns, "held")
	}
	return append(columns, "note")
}

// publishedCells are the cells of a comparison below publishedColumns.
func (c comparison) publishedCells(held bool) []string {
	cells := []string{c.ID, c.Path, c.Test, c.Metric, c.Published, c.Measured, c.Interval, c.Ratio}
	if held {
		cells = append(cells, c.Held)
	}
	return append(cells, c.Note)
}
