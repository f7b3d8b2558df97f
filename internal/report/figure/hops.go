package figure

import (
	"fmt"

	"github.com/hopbench/hopbench/internal/analysis/statistics"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/report/typeset"
)

// Bounds of the figures of hops.
const (
	maxHopFigures = 12
	maxHopLines   = 5
)

// HopFigures lays what each hop of a path counted next to what the receivers
// confirmed, in the median trial of each test of throughput.
func HopFigures(m *report.Model) []Figure {
	var out []Figure
	more := 0
	for ti, t := range m.Tests {
		for pi, p := range m.Paths {
			trials := m.WatchedTrials(p, t)
			if len(trials) == 0 {
				continue
			}
			if len(out) == maxHopFigures {
				more++
				continue
			}
			if f, ok := hopFigure(fmt.Sprintf("hops-%d-%d", ti, pi), report.MedianOf(trials, t.Primary.Name), p, t); ok {
				out = append(out, f)
			}
		}
	}
	if more > 0 {
		out[len(out)-1].Caption += fmt.Sprintf(" %d more are not drawn.", more)
	}
	return out
}

// hopLine is one line of such a figure.
type hopLine struct {
	label  string
	points []point
}

// hopLines are the receivers' throughput and those of the first hops, in the
// slices of time between the first hop's samples. More is how many hops are
// left out.
func hopLines(trial *measurement.Trial, framing report.Framing) (lines []hopLine, more int) {
	hops := report.WatchedHops(trial)
	more = max(len(hops)-maxHopLines, 0)
	hops = hops[:len(hops)-more]
	lines = []hopLine{{label: "receivers"}}
	for _, w := range hops {
		lines = append(lines, hopLine{label: w.Label()})
	}
	ends := float64(trial.Throughput.Width) * float64(len(trial.Throughput.Bytes))
	samples := hops[0].Series[0].Samples
	for i := 1; i < len(samples); i++ {
		from, to := float64(samples[i-1].At), float64(samples[i].At)
		if from < 0 || to > ends || to <= from {
			continue
		}
		middle, seconds := (from+to)/2, to-from
		lines[0].points = append(lines[0].points, point{middle, report.Confirmed(trial.Throughput, from, to) * 8 / seconds})
		for j, w := range hops {
			forward, backward := w.Payload(from, to, framing)
			lines[j+1].points = append(lines[j+1].points, point{middle, (forward + backward) * 8 / seconds})
		}
	}
	return lines, more
}

// hopFigure draws one trial; ok is false when it has too few samples.
func hopFigure(id string, trial *measurement.Trial, p report.Path, t report.Test) (f Figure, ok bool) {
	lines, more := hopLines(trial, report.FramingOf(trial, t.Spec, p.Tunnel()))
	if len(lines[0].points) < 3 {
		return Figure{}, false
	}
	heading := p.Label + ", " + t.Label
	labels := make([]report.Path, len(lines))
	var xs, ys []float64
	for i, l := range lines {
		labels[i].Label = l.label
		for _, q := range l.points {
			xs, ys = append(xs, q.x), append(ys, q.y)
		}
	}
	panel := newPanel(id, "Throughput as the hops counted it, "+heading, "The receivers' line is whole, those of hops are dashed.", labels, panelHeight)
	_, xHigh := span(xs)
	panel.x = axis{low: 0, high: max(xHigh, 1e-9), from: panel.left, to: panel.right}
	panel.y = linearAxis(ys, true, panel.bottom, panel.top, 4)
	unit := panel.y.unitOf(measurement.BitsPerSecond)
	panel.axes(panel.x.ticks(5, one), panel.y.ticks(4, unit), "seconds since the trial's start", timeAxisName(unit, false))
	var ended []endLabel
	panel.plot("", 0, one, unit, func() { ended = panel.hopLines(lines) })
	panel.endLabels(ended)
	f = Figure{Title: heading, SVG: panel.end(), Caption: fmt.Sprintf("Trial %s, the median one.", typeset.Line(trial.ID))}
	if more > 0 {
		f.Caption += fmt.Sprintf(" %s more are in the table.", quantity.Count(more, "hop"))
	}
	return f, true
}

// hopLines draws them, and says where they end.
func (panel *panel) hopLines(lines []hopLine) []endLabel {
	var ended []endLabel
	for i, l := range lines {
		kind := " curve"
		if i > 0 {
			kind = " curve idle"
		}
		var tail []float64
		for _, q := range l.points[len(l.points)*3/4:] {
			tail = append(tail, q.y)
		}
		panel.polyline(panel.place(minMax(l.points, int(panel.right-panel.left))), class("s", i)+kind, l.label)
		ended = append(ended, endLabel{path: i, label: l.label, y: panel.y.at(statistics.Median(tail))})
	}
	return ended
}
