package report

import (
	"fmt"
	"math"

	"github.com/hopbench/hopbench/internal/measurement"
)

// orderFigures draws, per test, every trial in the order it ran: drift shows
// as a slope, a failed trial as a cross.
func (m *model) orderFigures() []figure {
	var out []figure
	for i, t := range m.Tests {
		if !t.HasPrimary {
			continue
		}
		var trials []*measurement.Trial
		for j := range m.r.Trials {
			if m.r.Trials[j].Test == t.Name {
				trials = append(trials, &m.r.Trials[j])
			}
		}
		if len(trials) > 0 {
			out = append(out, m.orderFigure(fmt.Sprintf("order-%d", i), t, trials))
		}
	}
	return out
}

// orderFigure draws one test.
func (m *model) orderFigure(id string, t test, trials []*measurement.Trial) figure {
	var values []float64
	blocks, failed, perBlock := 1, 0, map[int]int{}
	for _, trial := range trials {
		if v, ok := trial.Metrics[t.Primary.Name]; ok {
			values = append(values, v)
		}
		blocks = max(blocks, trial.Block)
		perBlock[trial.Block]++
		if !trial.Gate.Passed {
			failed++
		}
	}
	p := newPanel(id, "Every trial in the order it ran, "+t.Label,
		fmt.Sprintf("%s of %s over %s, coloured by path; %s excluded.", t.Primary.Label, plural(len(trials), "trial"), plural(blocks, "block"), plural(failed, "trial")), m.Paths)
	p.x = axis{low: 0.5, high: float64(blocks) + 0.5, from: p.left, to: p.right}
	p.y = orderAxis(values, p.bottom-8, p.top)
	unit := t.Scale
	if unit.Factor == 0 {
		unit = p.y.unitOf(t.Primary.Unit)
	}
	p.axes(blockTicks(blocks), p.y.ticks(5, unit), "block", axisName(t.Primary.Label, unit, p.y.log))
	seen := map[int]int{}
	for _, trial := range trials {
		f := (float64(seen[trial.Block]) + 0.5) / float64(perBlock[trial.Block])
		seen[trial.Block]++
		p.orderDot(m, trial, t, float64(trial.Block)-0.4+0.8*f)
	}
	p.endLabels(m.orderLabels(t, trials, p.y))
	return figure{Title: t.Label, SVG: p.done()}
}

// axisName names a vertical axis.
func axisName(label string, unit scale, log bool) string {
	if unit.Name != "" {
		label += ", " + unit.Name
	}
	if log {
		label += " (log scale)"
	}
	return label
}

// orderAxis is logarithmic where values differ by more than half, so that
// drift of a small value shows as much as that of a large one.
func orderAxis(values []float64, from, to float64) axis {
	low, high := span(values)
	if low > 0 && high/low > 1.5 {
		return logAxis(values, from, to)
	}
	return linearAxis(values, false, from, to, 5)
}

// blockTicks labels blocks, thinned out to at most about 12.
func blockTicks(blocks int) []tick {
	step := max(int(niceStep(float64(blocks)/12)), 1)
	var out []tick
	for b := 1; b <= blocks && len(out) < 60; b++ {
		if blocks <= 12 || b == 1 || b%step == 0 {
			out = append(out, tick{float64(b), fmt.Sprint(b)})
		}
	}
	return out
}

// orderDot draws one trial. A failed one without a value lies on the axis.
func (p *panel) orderDot(m *model, trial *measurement.Trial, t test, x float64) {
	i := m.pathIndex(trial.Path)
	v, ok := trial.Metrics[t.Primary.Name]
	y, text := p.bottom, "no value"
	if ok && finite(v) {
		y, text = p.y.at(v), quantity(v, t.Primary.Unit)
	}
	tooltip := fmt.Sprintf("%s: %s", trial.ID, text)
	if !trial.Gate.Passed {
		p.cross(p.x.at(x), y, 4, class("s", i)+" cross", tooltip+", excluded: "+reasons(trial.Gate, true))
		return
	}
	if !ok {
		return
	}
	p.marker(i, p.x.at(x), y, 2.8, class("f", i), tooltip)
}

// orderLabels places the names of paths at the median of their values.
func (m *model) orderLabels(t test, trials []*measurement.Trial, y axis) []endLabel {
	var out []endLabel
	for i, p := range m.Paths {
		var values []float64
		for _, trial := range trials {
			if v, ok := trial.Metrics[t.Primary.Name]; ok && trial.Path == p.Name && !math.IsNaN(v) {
				values = append(values, v)
			}
		}
		if len(values) > 0 {
			out = append(out, endLabel{path: i, label: p.Label, y: y.at(median(values))})
		}
	}
	return out
}
