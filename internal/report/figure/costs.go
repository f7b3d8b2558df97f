package figure

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/report/typeset"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/words"
)

// costRow is one dot and interval of the plot of costs.
type costRow struct {
	test    int // index into model.Tests
	path    int // index into model.Paths
	label   string
	text    string // "3.75× [3.72, 3.78]"
	verdict string
	cost    *result.Effect
}

// costRows lists the primary costs that a ratio axis can show, test by test, and those that
// are beyond it because trials broke.
func costRows(m *report.Model) []costRow {
	var out []costRow
	for ti, t := range m.Tests {
		if !t.HasPrimary {
			continue
		}
		for pi, p := range m.Paths {
			c := m.Cost(report.Key{Path: p.Name, Test: t.Name, Metric: t.Primary.Name})
			if c == nil || p.Baseline || !c.EstimateUnbounded && !onRatioAxis(c) {
				continue
			}
			ratio, between := words.CostRatio(*c)
			text := strings.TrimSpace(ratio + " " + between)
			out = append(out, costRow{test: ti, path: pi, label: p.Label, text: text, verdict: typeset.Line(words.Verdict(*c)), cost: c})
		}
	}
	return out
}

// onRatioAxis says that an effect has a place on an axis of ratios.
func onRatioAxis(c *result.Effect) bool {
	return !c.EstimateUnbounded && c.Ratio > 0 && quantity.Finite(math.Log(c.Ratio))
}

// tooSmall are the ratios to the baseline between which an effect does not matter on the
// test of rows, as it is judged: of a rate up to the gain that undoes the loss. They are 1
// when the costs do not record it, or it is as large as the baseline's value.
func tooSmall(rows []costRow, test int) (low, high float64) {
	low, high = 1, 1
	for _, r := range rows {
		if x := r.cost.Margin.Fraction; r.test == test && !r.cost.LeadsWithDifference() && x > 0 && x < 1 {
			low, high = min(low, 1-x), max(high, 1/(1-x))
		}
		if x := r.cost.Margin.Amount / r.cost.ReferenceMedian; r.test == test && r.cost.LeadsWithDifference() && x > 0 && x < 1 {
			low, high = min(low, 1-x), max(high, 1+x)
		}
	}
	return low, high
}

// costLayout places the plot for a width.
type costLayout struct {
	width, left, right, rowHeight float64
	indent                        float64 // of the outermost texts
	top                           float64
	stacked                       bool // labels above each row instead of next to it
}

func WideCosts() costLayout {
	return costLayout{width: 900, left: 170, right: 600, rowHeight: 26}
}

func NarrowCosts() costLayout {
	return costLayout{width: 400, left: 12, right: 388, rowHeight: 44, stacked: true}
}

// CostFigure draws every primary cost as a dot with its interval on a
// logarithmic axis of ratios to the baseline, which is the line at 1.
func CostFigure(m *report.Model, id string, l costLayout) template.HTML {
	rows := costRows(m)
	if len(rows) == 0 {
		return ""
	}
	s := newSVG(id, l.width, costHeight(rows, l), "Costs against the baseline", costDescription(m, rows))
	drawCosts(m, s, rows, l)
	return s.end()
}

const (
	costHeadHeight = 30.0
	costAxisHeight = 52.0
)

// costBlock is a part of the plot with its own axis.
type costBlock struct {
	rows  []costRow
	finer bool
}

// costBlocks puts tests whose costs are all close to 1 on a finer axis of
// their own when others reach much further: next to a factor of four, an
// interval of one per cent is a dot.
func costBlocks(rows []costRow) []costBlock {
	far := map[int]bool{}
	for _, r := range rows {
		for _, v := range r.ends() {
			if v < 0.8 || v > 1.25 {
				far[r.test] = true
			}
		}
	}
	var out [2]costBlock
	for _, r := range rows {
		i := 0
		if !far[r.test] {
			i = 1
		}
		out[i].rows = append(out[i].rows, r)
	}
	switch {
	case len(out[0].rows) == 0:
		return out[1:]
	case len(out[1].rows) == 0:
		return out[:1]
	}
	out[1].finer = true
	return out[:]
}

// ends are the values of a row that the axis must reach.
func (r costRow) ends() []float64 {
	if !onRatioAxis(r.cost) {
		return nil
	}
	out := []float64{r.cost.Ratio}
	for _, end := range []*float64{r.cost.Low, r.cost.High} {
		if end != nil {
			out = append(out, *end)
		}
	}
	return out
}

// height of a block: a head per test, a row per cost, and the axis.
func (b costBlock) height(l costLayout) float64 {
	heads, last := 0, -1
	for _, r := range b.rows {
		if r.test != last {
			heads, last = heads+1, r.test
		}
	}
	return float64(heads)*costHeadHeight + float64(len(b.rows))*l.rowHeight + costAxisHeight
}

// costHeight is the height of the plot.
func costHeight(rows []costRow, l costLayout) float64 {
	h := l.top
	for _, b := range costBlocks(rows) {
		h += b.height(l)
	}
	return h
}

// costDescription says in words what the plot shows.
func costDescription(m *report.Model, rows []costRow) string {
	text := "Ratio of each path to the baseline with its 95 % interval. "
	for _, r := range rows {
		text += fmt.Sprintf("%s, %s: %s, %s. ", m.Tests[r.test].Label, r.label, r.text, r.verdict)
	}
	return text
}

// drawCosts fills the plot.
func drawCosts(m *report.Model, s *svg, rows []costRow, l costLayout) {
	y := l.top
	for _, b := range costBlocks(rows) {
		drawCostBlock(m, s, b, l, y)
		y += b.height(l)
	}
}

// drawCostBlock draws the rows of one axis from y downwards.
func drawCostBlock(m *report.Model, s *svg, b costBlock, l costLayout, y float64) {
	values := []float64{1 / 1.03, 1.03}
	for _, r := range b.rows {
		low, high := tooSmall(b.rows, r.test)
		values = append(append(values, r.ends()...), low, high)
	}
	a := logAxis(values, l.left, l.right)
	bottom := y + b.height(l) - costAxisHeight + 4
	ticks := a.ticks(12, one)
	if l.stacked {
		ticks = a.ticks(6, one)
	} else {
		drawCostGrid(s, a, ticks, y, bottom)
	}
	costTickLabels(s, a, ticks, bottom+15)
	name := "ratio to the baseline" + baselineName(m) + ", log scale"
	if l.stacked {
		name = "ratio to the baseline, log scale"
	}
	if b.finer {
		name += ", finer"
	}
	s.text((l.left+l.right)/2, bottom+32, "middle", "axis", name)
	last := -1
	for _, r := range b.rows {
		low, high := tooSmall(b.rows, r.test)
		if r.test != last {
			y, last = y+costHeadHeight, r.test
			costHead(m, s, r, l, low < high, y-10)
		}
		if l.stacked { // only next to the mark: the row's text stands above it
			drawCostGrid(s, a, ticks, y+18, y+l.rowHeight-4)
			drawCostBand(s, a, low, high, y+18, y+l.rowHeight-4)
		} else {
			drawCostBand(s, a, low, high, y, y+l.rowHeight)
		}
		drawCost(s, a, r, l, y)
		y += l.rowHeight
	}
}

// costTickLabels labels the ticks from 1 outwards, leaving out labels that
// would touch one already there.
func costTickLabels(s *svg, a axis, ticks []tick, y float64) {
	ordered := slices.Clone(ticks)
	slices.SortStableFunc(ordered, func(p, q tick) int {
		return cmp.Compare(math.Abs(math.Log(p.value)), math.Abs(math.Log(q.value)))
	})
	var taken [][2]float64
	for _, t := range ordered {
		label := t.label + "×"
		x, half := a.at(t.value), float64(typeset.Columns(label))*glyphWidth/2+2
		if slices.ContainsFunc(taken, func(o [2]float64) bool { return x-half < o[1] && x+half > o[0] }) {
			continue
		}
		taken = append(taken, [2]float64{x - half, x + half})
		s.text(x, y, "middle", "tick", label)
	}
}

// drawCostGrid draws the lines behind the marks between two heights.
func drawCostGrid(s *svg, a axis, ticks []tick, top, bottom float64) {
	for _, t := range ticks {
		s.line(a.at(t.value), top, a.at(t.value), bottom, "grid")
	}
	s.line(a.at(1), top, a.at(1), bottom, "one")
}

// drawCostBand shades effects too small to matter, with the baseline's line
// over it.
func drawCostBand(s *svg, a axis, low, high, top, bottom float64) {
	if low == high {
		return
	}
	s.rect(a.at(low), top, a.at(high)-a.at(low), bottom-top, "band", "smallest effect that matters")
	s.line(a.at(1), top, a.at(1), bottom, "one")
}

// baselineName names the baseline for an axis.
func baselineName(m *report.Model) string {
	for _, p := range m.Paths {
		if p.Baseline {
			return " (" + typeset.Shorten(p.Label, 24) + " = 1)"
		}
	}
	return ""
}

// costHead heads the rows of a test and says which side is worse.
func costHead(m *report.Model, s *svg, r costRow, l costLayout, banded bool, y float64) {
	t := m.Tests[r.test]
	worse := "right of 1 is worse"
	if t.Primary.HigherIsBetter {
		worse = "left of 1 is worse"
	}
	if margin := words.Margin(t.Primary, r.cost.Margin); banded && margin != "" {
		worse += ", beyond ±" + margin + " it matters"
	}
	if l.stacked {
		worse = strings.Replace(worse, " it matters", "", 1)
	}
	s.text(l.indent, y, "start", "head", fit(t.Label+", "+t.Primary.Label, l.width-200))
	s.text(l.width-l.indent, y, "end", "axis", worse)
}

// drawCost draws one row whose top is y.
func drawCost(s *svg, a axis, r costRow, l costLayout, y float64) {
	middle := y + l.rowHeight/2
	tooltip := r.label + ": " + r.text + ", " + r.verdict
	if l.stacked {
		middle = y + 29
		text := r.text + " " + r.verdict
		s.text(l.left, y+12, "start", class("f", r.path)+" name", fit(r.label, l.right-l.left-float64(typeset.Columns(text))*6.6-8))
		s.text(l.right, y+12, "end", "value", text)
	} else {
		s.text(l.left-12, middle+4, "end", class("f", r.path)+" name", fit(r.label, l.left-14))
		s.text(l.right+14, middle+4, "start", "value", r.text)
		s.text(l.width-l.indent, middle+4, "end", "axis", r.verdict)
	}
	s.line(l.left, middle, l.right, middle, "grid")
	if !onRatioAxis(r.cost) {
		if e := r.cost; e.LowUnbounded && e.HighUnbounded && e.Broken == e.ReferenceBroken { // on either side, for all that is known
			s.line(a.from, middle, a.to, middle, class("s", r.path)+" bar")
			return
		}
		s.cross(a.unboundedAt(r.cost), middle, 4.5, class("s", r.path)+" cross", tooltip)
		return
	}
	if r.cost.Low != nil || r.cost.High != nil || words.Endless(*r.cost) {
		from, to := a.from, a.to // of an interval that has no end
		var caps []float64
		if r.cost.Low != nil {
			from = a.at(*r.cost.Low)
			caps = append(caps, from)
		}
		if r.cost.High != nil {
			to = a.at(*r.cost.High)
			caps = append(caps, to)
		}
		s.line(from, middle, to, middle, class("s", r.path)+" bar")
		for _, x := range caps {
			s.line(x, middle-5, x, middle+5, class("s", r.path)+" cap")
		}
	}
	s.marker(r.path, a.at(r.cost.Ratio), middle, 4.5, class("f", r.path), tooltip)
}

// unboundedAt is the end of the axis beyond which an effect is: that on which its interval
// has no end or, where it has none on either side, that of the path that broke more trials.
func (a axis) unboundedAt(e *result.Effect) float64 {
	below := e.LowUnbounded
	if e.LowUnbounded == e.HighUnbounded {
		below = measurement.MetricOf(e.Metric).HigherIsBetter == (e.Broken > e.ReferenceBroken)
	}
	if below {
		return a.from
	}
	return a.to
}
