package figure

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"

	"github.com/hopbench/hopbench/internal/analysis/statistics"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/words"
)

// Figure is a picture with its caption.
type Figure struct {
	Title   string
	SVG     template.HTML
	Caption string
}

// series is one trial over time, in base units.
type series struct {
	path   int  // index into model.Paths, which is also its colour and shape
	idle   bool // of the time before the load of a load test
	trial  *measurement.Trial
	points []point // x seconds, y value
}

// ThroughputFigures draws each throughput test with one line per trial.
func ThroughputFigures(m *report.Model) []Figure {
	return timeFigures(m, "throughput", "Throughput over time", measurement.BitsPerSecond, throughputSeries)
}

// RttFigures draws the round-trip time that the senders' TCP saw meanwhile.
func RttFigures(m *report.Model) []Figure {
	return timeFigures(m, "rtt", "TCP's round-trip time under load", measurement.SecondsUnit, rttSeries)
}

// throughputSeries turns bins of bytes into bits per second at their middles.
func throughputSeries(t *measurement.Trial) []point {
	b := t.Throughput
	if b == nil || b.Width <= 0 {
		return nil
	}
	out := make([]point, 0, len(b.Bytes))
	for i, n := range b.Bytes {
		out = append(out, point{(float64(i) + 0.5) * float64(b.Width), n * 8 / float64(b.Width)})
	}
	return out
}

// rttSeries is the median over the flows of a trial in up to 80 slices of its
// time; with one flow it is that flow's own samples.
func rttSeries(t *measurement.Trial) []point {
	var all []point
	flows := 0
	for _, f := range t.Flows {
		if len(f.Info) > 0 {
			flows++
		}
		for _, s := range f.Info {
			if s.RTT > 0 {
				all = append(all, point{float64(s.At), float64(s.RTT)})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b point) int { return cmp.Compare(a.x, b.x) })
	if flows < 2 || len(all) == 0 {
		return all
	}
	const slots = 80
	first, last := all[0].x, all[len(all)-1].x
	n := min(slots, max(len(all)/flows, 1))
	var out []point
	for from, slot := 0, 0; slot < n && from < len(all); slot++ {
		end := first + (last-first)*float64(slot+1)/float64(n)
		to := from
		for to < len(all) && (all[to].x <= end || slot == n-1) {
			to++
		}
		if to > from {
			out = append(out, medianPoint(all[from:to]))
		}
		from = to
	}
	return out
}

// medianPoint is the mean time and the median value of a slice of time.
func medianPoint(points []point) point {
	var x float64
	var y []float64
	for _, p := range points {
		x += p.x
		y = append(y, p.y)
	}
	return point{x / float64(len(points)), statistics.Median(y)}
}

// timeFigures draws one panel per throughput test.
func timeFigures(m *report.Model, id, title string, u measurement.Unit, of func(*measurement.Trial) []point) []Figure {
	var out []Figure
	for ti, t := range m.Tests {
		var all []series
		for i, p := range m.Paths {
			for _, trial := range m.Trials(p, t) {
				if points := of(trial); len(points) > 1 {
					all = append(all, series{path: i, trial: trial, points: points})
				}
			}
		}
		if len(all) > 0 {
			out = append(out, timeFigure(m, fmt.Sprintf("%s-%d", id, ti), title+", "+t.Label, t.Label, u, all))
		}
	}
	return out
}

// timeFigure draws the lines of one test.
func timeFigure(m *report.Model, id, title, heading string, u measurement.Unit, all []series) Figure {
	var xs, ys, warmups []float64
	for _, s := range all {
		for _, p := range s.points {
			xs = append(xs, p.x)
		}
		warmups = append(warmups, float64(s.trial.Warmup))
	}
	_, xHigh := span(xs)
	bands := make([]band, len(m.Paths))
	for i := range bands {
		bands[i] = bandOf(i, all, xHigh)
		for _, r := range bands[i] {
			ys = append(ys, r.low, r.high)
		}
	}
	for _, s := range all {
		if s.drawn(bands) {
			for _, p := range s.points {
				ys = append(ys, p.y)
			}
		}
	}
	p := newPanel(id, title, fmt.Sprintf("Medians and the middle 80 %% of the trials of a path, of %s, coloured by path; the warm-up is grey.", quantity.Count(len(all), "trial")), m.Paths, panelHeight)
	p.x = axis{low: 0, high: max(xHigh, 1e-9), from: p.left, to: p.right}
	p.y = linearAxis(ys, true, p.bottom, p.top, 4)
	if low, high := span(ys); u == measurement.SecondsUnit && low > 0 && high/low > 12 {
		p.y = logAxis(ys, p.bottom, p.top) // one stalled trial must not flatten all others
	}
	unit := p.y.unitOf(u)
	warmup := statistics.Median(warmups)
	if warmup > 0 {
		p.plot("", 0, one, unit, func() { p.rect(p.left, p.top, p.x.at(warmup)-p.left, p.bottom-p.top, "warm", "") })
	}
	p.axes(p.x.ticks(5, one), p.y.ticks(4, unit), "seconds since the trial's start", timeAxisName(unit, p.y.log))
	if warmup > 0 && p.x.at(warmup)-p.left > 56 {
		p.scale(func() { p.text(p.left+4, p.top+12, "start", "axis", "warm-up") })
	}
	pixels := lineBudget(len(all), p.right-p.left)
	p.plot("", 0, one, unit, func() {
		for i, b := range bands {
			p.band(i, b)
			for _, s := range all {
				if s.path == i {
					p.trialLine(s, pixels, b.drawn())
				}
			}
		}
	})
	p.endLabels(seriesLabels(m, all, p.y))
	return Figure{Title: heading, SVG: p.end()}
}

// timeAxisName is the unit of the vertical axis.
func timeAxisName(unit quantity.Scale, log bool) string {
	if log {
		return unit.Name + " (log scale)"
	}
	return unit.Name
}

// lineBudget is how many slices a line of a panel is reduced to. It shrinks
// with the number of lines, so that a page of many trials stays small.
func lineBudget(lines int, width float64) int {
	return int(min(max(40_000/float64(max(lines, 1)), 20), width))
}

const (
	// fewestInBand is how many trials a path needs to be drawn as a band; of fewer, each
	// has its line.
	fewestInBand = 5
	// bandSlices is in how many slices of the time at most; fewer where trials have fewer points.
	bandSlices = 60
	// bandTail of the trials are below the band, and as many above.
	bandTail = 0.1
)

// band is the median and the middle 80 % of the trials of a path that count, slice by slice of
// their time; empty where there are too few of them.
type band []ranged

func (b band) drawn() bool { return len(b) > 1 }

// drawn says that the line of a trial shows without a pointer on it.
func (s series) drawn(bands []band) bool {
	return !s.trial.Gate.Passed || !bands[s.path].drawn()
}

// bandOf is that of the trials of a path among all, up to a time.
func bandOf(path int, all []series, ends float64) band {
	trials, parts := 0, bandSlices
	counts := func(s series) bool { return s.path == path && s.trial.Gate.Passed }
	for _, s := range all {
		if counts(s) {
			trials++
			parts = min(parts, len(s.points))
		}
	}
	if trials < fewestInBand || ends <= 0 {
		return nil
	}
	slots := make([][]float64, parts)
	for _, s := range all {
		if !counts(s) {
			continue
		}
		sums, counts := make([]float64, parts), make([]float64, parts)
		for _, q := range s.points {
			slot := min(max(int(q.x/ends*float64(parts)), 0), parts-1)
			sums[slot] += q.y
			counts[slot]++
		}
		for i, n := range counts {
			if n > 0 {
				slots[i] = append(slots[i], sums[i]/n)
			}
		}
	}
	var b band
	for i, values := range slots {
		if len(values) < fewestInBand {
			continue
		}
		slices.Sort(values)
		tail := int(bandTail * float64(len(values)))
		b = append(b, ranged{(float64(i) + 0.5) / float64(parts) * ends, values[tail], statistics.Median(values), values[len(values)-1-tail]})
	}
	return b
}

// band draws one.
func (p *panel) band(path int, b band) {
	middle, outline := spread(b, p.x, p.y)
	p.area(outline, class("f", path)+" range")
	p.polyline(middle, class("s", path)+" curve", "")
}

// trialLine draws one trial: its warm-up in grey, dashed when it does not count. Next to a
// band it shows under the pointer alone.
func (p *panel) trialLine(s series, pixels int, banded bool) {
	var warm, measured []point
	for _, q := range minMax(s.points, pixels) {
		at := point{p.x.at(q.x), p.y.at(q.y)}
		if q.x < float64(s.trial.Warmup) && !banded {
			warm = append(warm, at)
			continue
		}
		if len(measured) == 0 && len(warm) > 0 {
			warm = append(warm, at)
		}
		measured = append(measured, at)
	}
	kind, tooltip := " thin", trialName(s.trial)
	switch {
	case !s.trial.Gate.Passed:
		kind, tooltip = " thin failed", tooltip+": "+words.Findings(s.trial.Gate, true)
	case banded:
		kind = " trial"
	}
	p.polyline(warm, "warmline", "")
	p.polyline(measured, class("s", s.path)+kind, tooltip)
}

// minMax reduces a line to at most two points, the least and the largest, per
// slice of its time, so that no spike is lost. Short lines stay as they are.
func minMax(points []point, slices int) []point {
	if len(points) <= 2*slices || slices < 1 {
		return points
	}
	out := make([]point, 0, 2*slices)
	for i := range slices {
		part := points[i*len(points)/slices : (i+1)*len(points)/slices]
		low, high := 0, 0
		for j, q := range part {
			if q.y < part[low].y {
				low = j
			}
			if q.y > part[high].y {
				high = j
			}
		}
		out = append(out, part[min(low, high)])
		if low != high {
			out = append(out, part[max(low, high)])
		}
	}
	return out
}

// seriesLabels places the name of each path where its trials end: at the
// median of the last quarter of their points.
func seriesLabels(m *report.Model, all []series, y axis) []endLabel {
	var out []endLabel
	for i, p := range m.Paths {
		var tails []float64
		for _, s := range all {
			if s.path == i {
				for _, q := range s.points[len(s.points)*3/4:] {
					tails = append(tails, q.y)
				}
			}
		}
		if len(tails) > 0 {
			out = append(out, endLabel{path: i, label: p.Label, y: y.at(statistics.Median(tails))})
		}
	}
	return out
}
