package figure

import (
	"fmt"
	"math"
	"slices"

	"github.com/hopbench/hopbench/internal/analysis/statistics"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/report/typeset"
	"github.com/hopbench/hopbench/internal/words"
)

// lane is the trials of one path in a figure of the run's order.
type lane struct {
	path   int // index into model.Paths
	trials []*measurement.Trial
	middle float64 // median of the trials that count, of all when none does
	has    bool    // there is a value at all
}

// OrderFigures draws, per test, every trial in the order it ran: drift shows
// as a slope, a failed trial as a cross.
func OrderFigures(m *report.Model) []Figure {
	var out []Figure
	for i, t := range m.Tests {
		if !t.HasPrimary {
			continue
		}
		var lanes []lane
		for p := range m.Paths {
			if l := laneOf(m, t, p); len(l.trials) > 0 {
				lanes = append(lanes, l)
			}
		}
		if len(lanes) > 0 {
			out = append(out, orderFigure(m, fmt.Sprintf("order-%d", i), t, lanes))
		}
	}
	return out
}

// laneOf gathers the trials of a test on a path.
func laneOf(m *report.Model, t report.Test, p int) lane {
	l := lane{path: p, trials: m.Trials(m.Paths[p], t)}
	var good, all []float64
	for _, trial := range l.trials {
		if v, ok := trial.Metrics[t.Primary.Name]; ok {
			all = append(all, v)
			if trial.Gate.Passed {
				good = append(good, v)
			}
		}
	}
	if len(good) == 0 {
		good = all
	}
	l.middle, l.has = statistics.Median(good), len(good) > 0
	return l
}

// furthest is the largest distance of a counted trial from its lane's median,
// as a fraction of it, over all lanes: they share it, so that a noisier path
// looks noisier. Excluded trials may lie beyond and are drawn at the edge.
func furthest(lanes []lane, metric string) float64 {
	d := 0.01
	for _, l := range lanes {
		for _, trial := range l.trials {
			if v, ok := trial.Metrics[metric]; ok && trial.Gate.Passed && l.middle != 0 {
				d = max(d, math.Abs(v-l.middle)/math.Abs(l.middle))
			}
		}
	}
	return d * 1.1
}

const laneHeight = 58.0

// orderFigure draws one test: a lane per path around that path's own median,
// all lanes to the same relative scale. On one common axis the distance
// between paths would hide any drift within them.
func orderFigure(m *report.Model, id string, t report.Test, lanes []lane) Figure {
	blocks, count := 1, 0
	fates := map[string]int{}
	perBlock := map[int][]int{}
	for _, l := range lanes {
		for _, trial := range l.trials {
			blocks, count = max(blocks, trial.Block), count+1
			perBlock[trial.Block] = append(perBlock[trial.Block], trial.Order)
			fates[fate(trial)]++
		}
	}
	for _, orders := range perBlock {
		slices.Sort(orders)
	}
	d := furthest(lanes, t.Primary.Name)
	lacking := fmt.Sprintf("%d excluded", fates[excluded])
	if n := fates[broken]; n > 0 && fates[excluded] == 0 {
		lacking = fmt.Sprintf("%d broken", n)
	} else if n > 0 {
		lacking += fmt.Sprintf(", %d broken", n)
	}
	p := newPanel(id, "Every trial in the order it ran, "+t.Label, fmt.Sprintf("%s of %s over %s, one lane per path around its median, plus and minus %s; %s.",
		t.Primary.Label, quantity.Count(count, "trial"), quantity.Count(blocks, "block"), words.Percent(d), lacking), m.Paths, panelTop+panelBottom+laneHeight*float64(len(lanes)))
	p.x = axis{low: 0.5, high: float64(blocks) + 0.5, from: p.left, to: p.right}
	unit := t.Column.ScaleOf(0)
	if t.Column.Mixed() { // each lane says its own
		unit = quantity.Scale{Factor: 1}
	}
	p.text(p.left-40, 11, "start", "axis", axisName(t.Primary.Label, unit, false))
	p.text(p.right, 11, "end", "axis", "lanes: median ± "+words.Percent(d))
	for i, l := range lanes {
		top := p.top + laneHeight*float64(i)
		a := axis{low: l.middle - d*math.Abs(l.middle), high: l.middle + d*math.Abs(l.middle), from: top + laneHeight - 5, to: top + 5}
		if l.middle == 0 || !quantity.Finite(a.low) || !quantity.Finite(a.high) {
			a.low, a.high = -1, 1
		}
		if i > 0 {
			p.line(p.left, top, p.right, top, "grid")
		}
		p.lane(m, t, l, a, perBlock)
	}
	p.xAxis(blockTicks(blocks), "block")
	return Figure{Title: t.Label, SVG: p.end()}
}

// lane draws the trials of one path.
func (p *panel) lane(m *report.Model, t report.Test, l lane, a axis, perBlock map[int][]int) {
	middle := (a.from + a.to) / 2
	if l.has {
		p.line(p.left, middle, p.right, middle, "grid")
		number, unit := quantity.Split(l.middle, t.Primary.Unit)
		if !t.Column.Mixed() {
			scaled := l.middle / t.Column.ScaleOf(0).Factor
			number, unit = quantity.Number(scaled, quantity.Decimals(scaled, 3)), ""
		}
		p.text(p.left-6, middle+4, "end", "tick", number)
		p.text(p.left-6, middle+4+lineHeight, "end", "tick", unit)
	}
	for _, trial := range l.trials {
		orders := perBlock[trial.Block]
		at, _ := slices.BinarySearch(orders, trial.Order)
		f := (float64(at) + 0.5) / float64(max(len(orders), 1))
		p.orderMark(trial, t, l.path, p.x.at(float64(trial.Block)-0.4+0.8*f), a)
	}
	p.name(l.path, m.Paths[l.path].Label, middle)
}

// What trials are that did not pass.
const (
	excluded = "excluded" // by a gate
	broken   = "broken"   // by its path; it counts as the worst
)

// fate is which of them a trial is, empty for one that passed.
func fate(t *measurement.Trial) string {
	switch {
	case t.Gate.Passed:
		return ""
	case t.Gate.Broken:
		return broken
	}
	return excluded
}

// trialName names a trial, and what it is if it did not pass.
func trialName(t *measurement.Trial) string {
	if t.Gate.Passed {
		return typeset.Line(t.ID)
	}
	return typeset.Line(t.ID) + " (" + fate(t) + ")"
}

// orderMark draws one trial. One without a value lies at the foot of its lane.
func (p *panel) orderMark(trial *measurement.Trial, t report.Test, path int, x float64, a axis) {
	v, ok := trial.Metrics[t.Primary.Name]
	y, text := a.from, "no value"
	if ok {
		y, text = a.at(v), words.Value(v, t.Primary.Unit)
	}
	tooltip := fmt.Sprintf("%s: %s", typeset.Line(trial.ID), text)
	switch {
	case !trial.Gate.Passed:
		p.cross(x, y, 4, class("s", path)+" cross", tooltip+", "+fate(trial)+": "+words.Findings(trial.Gate, true))
	case ok:
		p.marker(path, x, y, 2.8, class("f", path), tooltip)
	}
}

// axisName names a vertical axis.
func axisName(label string, unit quantity.Scale, log bool) string {
	if unit.Name != "" {
		label += ", " + unit.Name
	}
	if log {
		label += " (log scale)"
	}
	return label
}

// blockTicks labels blocks, thinned out to at most about 12.
func blockTicks(blocks int) []tick {
	step := max(int(niceStep(float64(blocks)/12)), 1)
	var out []tick
	for b := 1; b <= blocks && len(out) < 60; b++ {
		if blocks <= 12 || b%step == 0 {
			out = append(out, tick{float64(b), fmt.Sprint(b)})
		}
		if blocks > 1e6 && b > 1e6 {
			break
		}
	}
	return out
}
