package report

import (
	"fmt"
	"html/template"
	"math"

	"github.com/hopbench/hopbench/internal/measurement"
)

// costRow is one dot and interval of the plot of costs.
type costRow struct {
	test    int // index into model.Tests
	path    int // index into model.Paths
	label   string
	text    string // "3.75× [3.72, 3.78]"
	verdict string
	cost    *measurement.Cost
}

// costRows lists the primary costs that a ratio axis can show, test by test.
func (m *model) costRows() []costRow {
	var out []costRow
	for ti, t := range m.Tests {
		if !t.HasPrimary {
			continue
		}
		for pi, p := range m.Paths {
			c := m.cost(key{p.Name, t.Name, t.Primary.Name})
			if c == nil || p.Baseline || c.Ratio <= 0 || !finite(math.Log(c.Ratio)) {
				continue
			}
			d := ratioDecimals(c)
			write := func(x float64) string { return number(x, d) }
			text := write(c.Ratio) + "×"
			if c.Low != nil && c.High != nil {
				text += " " + interval(*c.Low, *c.High, write)
			}
			out = append(out, costRow{test: ti, path: pi, label: p.Label, text: text, verdict: verdictText(c), cost: c})
		}
	}
	return out
}

// ratioDecimals gives a ratio three significant digits, and one more where
// its interval is narrower than that.
func ratioDecimals(c *measurement.Cost) int {
	d := decimalsFor(c.Ratio, 3)
	if c.Low != nil && c.High != nil && *c.High-*c.Low < 2*math.Pow(10, -float64(d)) {
		d++
	}
	return min(d, 4)
}

// smallestEffect is the bound below which a cost does not matter, as the
// costs record it; 0 when none does.
func smallestEffect(rows []costRow) float64 {
	b := 0.0
	for _, r := range rows {
		if x := r.cost.Bound; x > 0 && x < 1 {
			b = max(b, x)
		}
	}
	return b
}

// costLayout places the plot for a width.
type costLayout struct {
	width, left, right, rowHeight float64
	stacked                       bool // labels above each row instead of beside it
	top                           float64
}

func wideCosts() costLayout {
	return costLayout{width: 900, left: 170, right: 600, rowHeight: 26}
}

func narrowCosts() costLayout {
	return costLayout{width: 400, left: 10, right: 390, rowHeight: 40, stacked: true}
}

// costFigure draws every primary cost as a dot with its interval on a
// logarithmic axis of ratios to the baseline, which is the line at 1.
func (m *model) costFigure(id string, l costLayout) template.HTML {
	rows := m.costRows()
	if len(rows) == 0 {
		return ""
	}
	s := newSVG(id, l.width, m.costHeight(rows, l), "Costs against the baseline", m.costDescription(rows))
	m.drawCosts(s, rows, l)
	return s.end()
}

const costHeadHeight = 30.0

// costHeight is the height of the plot: a head per test, a row per cost, and
// the axis.
func (m *model) costHeight(rows []costRow, l costLayout) float64 {
	heads, last := 0, -1
	for _, r := range rows {
		if r.test != last {
			heads, last = heads+1, r.test
		}
	}
	return l.top + float64(heads)*costHeadHeight + float64(len(rows))*l.rowHeight + 46
}

// costDescription says in words what the plot shows.
func (m *model) costDescription(rows []costRow) string {
	text := "Ratio of each path to the baseline with its 95 % interval. "
	for _, r := range rows {
		text += fmt.Sprintf("%s, %s: %s, %s. ", m.Tests[r.test].Label, r.label, r.text, r.verdict)
	}
	return text
}

// drawCosts fills the plot.
func (m *model) drawCosts(s *svg, rows []costRow, l costLayout) {
	values := []float64{1 / 1.06, 1.06}
	for _, r := range rows {
		values = append(values, r.cost.Ratio)
		if r.cost.Low != nil && r.cost.High != nil {
			values = append(values, *r.cost.Low, *r.cost.High)
		}
	}
	a := logAxis(values, l.left, l.right)
	bottom := s.h - 44
	if b := smallestEffect(rows); b > 0 {
		s.rect(a.at(1-b), l.top, a.at(1+b)-a.at(1-b), bottom-l.top, "band", "smallest effect that matters: ±"+trimmedPercent(b))
	}
	ticks := 9
	if l.stacked {
		ticks = 7
	}
	for _, t := range a.ticks(ticks, plainScale) {
		x := a.at(t.value)
		s.line(x, l.top, x, bottom, "grid")
		s.text(x, bottom+15, "middle", "tick", t.label+"×")
	}
	s.line(a.at(1), l.top, a.at(1), bottom, "one")
	s.text((l.left+l.right)/2, bottom+34, "middle", "axis", "ratio to the baseline"+m.baselineName()+", log scale")
	y, last := l.top, -1
	for _, r := range rows {
		if r.test != last {
			y, last = y+costHeadHeight, r.test
			m.costHead(s, r, l, y-10)
		}
		drawCost(s, a, r, l, y)
		y += l.rowHeight
	}
}

// baselineName names the baseline for an axis.
func (m *model) baselineName() string {
	for _, p := range m.Paths {
		if p.Baseline {
			return " (" + shorten(p.Label, 24) + " = 1)"
		}
	}
	return ""
}

// costHead heads the rows of a test and says which side is worse.
func (m *model) costHead(s *svg, r costRow, l costLayout, y float64) {
	t := m.Tests[r.test]
	worse := "right of 1 is worse"
	if t.Primary.HigherIsBetter {
		worse = "left of 1 is worse"
	}
	s.text(0, y, "start", "head", fit(t.Label+", "+t.Primary.Label, l.width-150))
	s.text(l.width, y, "end", "axis", worse)
}

// drawCost draws one row whose top is y.
func drawCost(s *svg, a axis, r costRow, l costLayout, y float64) {
	middle := y + l.rowHeight/2
	tooltip := r.label + ": " + r.text + ", " + r.verdict
	if l.stacked {
		middle = y + 26
		text := r.text + " " + r.verdict
		s.text(l.left, y+12, "start", class("f", r.path)+" name", fit(r.label, l.right-l.left-float64(columns(text))*glyphWidth))
		s.text(l.right, y+12, "end", "value", text)
	} else {
		s.text(l.left-12, middle+4, "end", class("f", r.path)+" name", fit(r.label, l.left-14))
		s.text(l.right+14, middle+4, "start", "value", r.text)
		s.text(l.width, middle+4, "end", "axis", r.verdict)
	}
	s.line(l.left, middle, l.right, middle, "grid")
	if r.cost.Low != nil && r.cost.High != nil {
		from, to := a.at(*r.cost.Low), a.at(*r.cost.High)
		s.line(from, middle, to, middle, class("s", r.path)+" bar")
		s.line(from, middle-5, from, middle+5, class("s", r.path)+" cap")
		s.line(to, middle-5, to, middle+5, class("s", r.path)+" cap")
	}
	s.marker(r.path, a.at(r.cost.Ratio), middle, 4.5, class("f", r.path), tooltip)
}
