package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/result"
)

// table is the result in the published shape: paths as rows, tests as columns.
type table struct {
	Columns []column
	Rows    []row
}

// column heads a test.
type column struct {
	Test   string // label
	Metric string // label of the metric
}

// row is one path.
type row struct {
	Path     string
	Baseline bool
	Off      string // "without gateway", where hops are switched off
	Cells    []cell
}

// cell is one test on one path, as text ready to show.
type cell struct {
	Value    string // median without its unit, "—" when there is none
	Unit     string
	Interval string // "" when there are too few blocks for one
	// Blocks is "7 of 10 blocks" where trials are missing, else "".
	Blocks string

	Cost         string // difference from the baseline, "" on the baseline
	CostInterval string
	Ratio        string // of path to baseline: "3.71×"
	Verdict      string
	VerdictKind  result.Verdict

	Scaled    string   // value × scale, where that means something
	Published []string // the study's figures for this cell
	Outliers  int
}

// table lays the primary metrics out.
func (m *model) table() table {
	var out table
	var shown []test
	for _, t := range m.Tests {
		if !t.HasPrimary {
			continue // trace: shown with the paths
		}
		shown = append(shown, t)
		out.Columns = append(out.Columns, column{Test: t.Label, Metric: t.Primary.Label})
	}
	if len(shown) == 0 {
		return out
	}
	for _, p := range m.Paths {
		r := row{Path: p.Label, Baseline: p.Baseline, Off: p.without()}
		for _, t := range shown {
			r.Cells = append(r.Cells, m.tableCell(p, t))
		}
		out.Rows = append(out.Rows, r)
	}
	return out
}

// without names the hops that are switched off on a path.
func (p path) without() string {
	var off []string
	if p.Info != nil {
		for _, h := range p.Info.Hops {
			if h.Off {
				off = append(off, line(h.Name))
			}
		}
	}
	if len(off) == 0 {
		return ""
	}
	return "without " + conjoined(off)
}

// tableCell fills one cell.
func (m *model) tableCell(p path, t test) cell {
	k := key{p.Name, t.Name, t.Primary.Name}
	out := cell{Value: "—", Published: m.publishedIn(p, t)}
	n := 0
	if c := m.cell(k); c != nil && c.N > 0 {
		n = c.N
		s, decimals := t.in(c.Median)
		write := func(v float64) string { return quantity.Number(v/s.Factor, decimals) }
		out.Value, out.Unit, out.Outliers = write(c.Median), s.Name, len(c.Outliers)
		if c.Low != nil && c.High != nil {
			out.Interval = interval(*c.Low, *c.High, write)
		}
		if by, ok := m.scaled(); ok && t.Primary.ScalesWithRate {
			out.Scaled = inBestUnit(c.Median*by, t.Primary.Unit)
		}
	}
	if blocks := m.r.Experiment.Blocks; n < blocks {
		out.Blocks = fmt.Sprintf("%d of %s", n, quantity.Count(blocks, "block"))
	}
	if c := m.cost(k); c != nil && !p.Baseline {
		out.Cost, out.CostInterval, out.Ratio = costText(c, t)
		out.Verdict, out.VerdictKind = verdictText(c), c.Verdict
	}
	return out
}

// costText writes a cost the way its unit is spoken of: latency as a
// difference in time, rates as a percentage of the baseline. The ratio goes
// beside it. Without a ratio, because values are not all positive, the
// difference stands alone; without any pair of trials there is nothing to say.
func costText(c *result.Cost, t test) (cost, between, ratio string) {
	if c.N == 0 {
		return "—", "", ""
	}
	ratio = ratioText(c.Ratio)
	if t.Primary.Unit == measurement.SecondsUnit || ratio == "" {
		s, decimals := t.in(c.Difference)
		write := func(v float64) string { return quantity.Signed(v/s.Factor, decimals) }
		cost = with(write(c.Difference), s.Name)
		if c.DifferenceLow != nil && c.DifferenceHigh != nil {
			between = interval(*c.DifferenceLow, *c.DifferenceHigh, write)
		}
		return cost, between, ratio
	}
	percent := func(ratio float64) float64 { return (ratio - 1) * 100 }
	spread := 0.0
	if c.Low != nil && c.High != nil {
		spread = percent(*c.High) - percent(*c.Low)
	}
	d := percentDecimals(percent(c.Ratio), spread)
	write := func(v float64) string { return quantity.Signed(percent(v), d) }
	cost = with(write(c.Ratio), "%")
	if c.Low != nil && c.High != nil {
		between = interval(*c.Low, *c.High, write)
	}
	return cost, between, ratio
}

// ratioText writes a ratio with three significant digits: "3.71×".
func ratioText(x float64) string {
	if x <= 0 || !quantity.Finite(x) {
		return ""
	}
	return quantity.Ratio(x) + "×"
}

// verdictText is the verdict in a few words.
func verdictText(c *result.Cost) string {
	switch c.Verdict {
	case result.Costs:
		return "costs"
	case result.Gains:
		return "gains"
	case result.NoCost:
		if c.Bound > 0 {
			return "no cost > " + trimmedPercent(c.Bound)
		}
		return "no cost"
	case result.NotResolved:
		if c.BlocksNeeded > 0 {
			return fmt.Sprintf("not resolved, needs ≈%s%d blocks", nbsp, c.BlocksNeeded)
		}
		return "not resolved"
	}
	return line(string(c.Verdict))
}

// publishedIn lists the published figures of a cell: the one on the primary
// metric alone if there is one, else all with the name of their metric.
func (m *model) publishedIn(p path, t test) []string {
	var out []string
	for _, f := range m.r.Experiment.Published {
		if f.Path != p.Name || f.Test != t.Name {
			continue
		}
		metric, ok := measurement.MetricNamed(f.Metric)
		if !ok {
			continue
		}
		text := with(publishedNumber(f.Value/t.Scale.Factor), t.Scale.Name)
		if metric.Unit != t.Primary.Unit || metric.ScalesWithRate || t.Mixed {
			s := quantity.ScaleFor(metric.Unit, f.Value)
			text = with(publishedNumber(f.Value/s.Factor), s.Name)
		}
		if f.Metric == t.Primary.Name {
			return []string{text}
		}
		out = append(out, strings.TrimPrefix(metric.Label, "RTT ")+" "+text)
	}
	return out
}

// verdicts writes the costs as sentences, the largest first among the primary
// ones, and picks the headline.
func (m *model) verdicts() {
	for _, p := range m.Paths {
		for _, t := range m.Tests {
			for i := range m.r.Costs {
				c := &m.r.Costs[i]
				if c.Path != p.Name || c.Test != t.Name {
					continue
				}
				v := m.verdict(c, p, t)
				if c.Primary || (t.HasPrimary && c.Metric == t.Primary.Name) {
					m.Verdicts = append(m.Verdicts, v)
				} else {
					m.Others = append(m.Others, v)
				}
			}
		}
	}
	m.Headline = m.headline()
}

// verdict makes a cost a sentence, its own if it has one.
func (m *model) verdict(c *result.Cost, p path, t test) verdict {
	metric, ok := measurement.MetricNamed(c.Metric)
	if !ok {
		metric = measurement.Metric{Label: line(c.Metric), Unit: measurement.Count}
	}
	v := verdict{Kind: c.Verdict, Text: sentence(c.Sentence), Path: p.Label, Test: t.Label, Metric: metric.Label, cost: c}
	if v.Text == "" {
		s := test{Primary: metric, Scale: quantity.ScaleFor(metric.Unit, c.Difference)}
		s.Decimals = quantity.Decimals(c.Difference/s.Scale.Factor, 3)
		cost, between, _ := costText(c, s)
		v.Text = strings.TrimSpace(fmt.Sprintf("%s, %s, %s: %s %s", p.Label, t.Label, metric.Label, cost, between)) + " (" + verdictText(c) + ")."
	}
	return v
}

// headline is the sentence of the cost that a reader must know first: the
// largest that is beyond chance, of throughput before latency. Of paths whose
// costs are about as large, it is the first. When nothing costs, it says so.
func (m *model) headline() string {
	best, size := -1, 0.0
	for i, v := range m.Verdicts {
		if v.Kind != result.Costs || v.cost.Ratio <= 0 {
			continue
		}
		s := math.Abs(math.Log(v.cost.Ratio))
		if metric, _ := measurement.MetricNamed(v.cost.Metric); metric.ScalesWithRate {
			s += 1000 // more than any logarithm of a ratio of two floats
		}
		if s > size+0.1*math.Mod(size, 1000) {
			best, size = i, s
		}
	}
	switch {
	case best >= 0:
		return upperFirst(m.Verdicts[best].Text)
	case len(m.Verdicts) == 0 && len(m.r.Trials) == 0:
		return "Nothing was measured yet."
	case len(m.Verdicts) == 0 && len(m.Paths) == 1:
		return "One path was measured; there is nothing to compare it with."
	case len(m.Verdicts) == 0:
		return "There is nothing to compare with the baseline."
	case len(m.Verdicts) == 1:
		return upperFirst(m.Verdicts[0].Text)
	}
	unresolved := 0
	for _, v := range m.Verdicts {
		if v.Kind == result.NotResolved {
			unresolved++
		}
	}
	if unresolved > 0 {
		return fmt.Sprintf("No cost was found beyond chance; %d of %d comparisons are not resolved.", unresolved, len(m.Verdicts))
	}
	return "No path costs more than the stated bounds."
}
