package figure

import (
	"fmt"
	"math"
	"slices"

	"github.com/hopbench/hopbench/internal/analysis/statistics"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/report"
)

// A picture of several pairs has up to three rows on one axis of time.
const (
	pairRow = 108.0
	pairGap = 30.0
)

// pairLines is what one trial of several pairs shows over time.
type pairLines struct {
	path  int
	trial *measurement.Trial
	rows  [3][]ranged // all pairs together, each pair, round-trip times
}

// PairFigures draws, per test that several pairs did at the same time, the
// throughput of all together, that of each, and TCP's round-trip times below
// them, of one trial per path.
func PairFigures(m *report.Model) []Figure {
	var out []Figure
	for i, t := range m.Tests {
		var all []pairLines
		for p := range m.Paths {
			trial := report.MedianTrial(m.Run, m.Paths[p].Name, t.Name, t.Primary.Name, 2)
			if trial == nil {
				continue
			}
			l := pairLines{path: p, trial: trial, rows: linesOf(trial)}
			if len(l.rows[0]) > 1 {
				all = append(all, l)
			}
		}
		if len(all) > 0 {
			out = append(out, pairFigure(m, fmt.Sprintf("pairs-%d", i), t, all))
		}
	}
	return out
}

// pairSlots is into how many slices the time of a picture is divided at most.
const pairSlots = 80

// slots are slices of the time of a trial, from its first start to its first end.
type slots struct {
	n     int
	width float64 // seconds
}

// slotsOf are no narrower than the bins of the count of any pair.
func slotsOf(t *measurement.Trial) slots {
	b := t.Throughput
	if b == nil || b.Width <= 0 {
		return slots{}
	}
	narrowest := float64(b.Width)
	for _, p := range t.Pairs {
		if p.Throughput != nil {
			narrowest = max(narrowest, float64(p.Throughput.Width))
		}
	}
	end := float64(b.Width) * float64(len(b.Bytes))
	n := int(min(end/narrowest, pairSlots))
	if n < 1 {
		return slots{}
	}
	return slots{n: n, width: end / float64(n)}
}

// means are the means of points in every slot, absent from those without any.
func (s slots) means(points []point) map[int]float64 {
	sums, counts := map[int]float64{}, map[int]float64{}
	for _, p := range points {
		if i := math.Floor(p.x / s.width); i >= 0 && i < float64(s.n) {
			sums[int(i)] += p.y
			counts[int(i)]++
		}
	}
	for i := range sums {
		sums[i] /= counts[i]
	}
	return sums
}

// ranges are the median, the least and the largest of several lines in every slot.
func (s slots) ranges(lines [][]point) []ranged {
	values := make([][]float64, s.n)
	for _, l := range lines {
		for i, v := range s.means(l) {
			values[i] = append(values[i], v)
		}
	}
	var out []ranged
	for i, v := range values {
		if len(v) > 0 {
			slices.Sort(v)
			out = append(out, ranged{(float64(i) + 0.5) * s.width, v[0], statistics.Median(v), v[len(v)-1]})
		}
	}
	return out
}

// linesOf are the three rows of a trial.
func linesOf(t *measurement.Trial) [3][]ranged {
	s := slotsOf(t)
	var rates, rtts [][]point
	for _, p := range t.Pairs {
		var rate, rtt []point
		if b := p.Throughput; b != nil && b.Width > 0 {
			for i, n := range b.Bytes {
				rate = append(rate, point{float64(p.Delay) + (float64(i)+0.5)*float64(b.Width), n * 8 / float64(b.Width)})
			}
		}
		for _, r := range p.RTT {
			if r.RTT > 0 {
				rtt = append(rtt, point{float64(p.Delay + r.At), float64(r.RTT)})
			}
		}
		rates, rtts = append(rates, rate), append(rtts, rtt)
	}
	return [3][]ranged{s.ranges([][]point{throughputSeries(t)}), s.ranges(rates), s.ranges(rtts)}
}

// pairFigure draws one test.
func pairFigure(m *report.Model, id string, t report.Test, all []pairLines) Figure {
	pairs, warmups, ends := 0, []float64(nil), []float64(nil)
	for _, l := range all {
		pairs = max(pairs, len(l.trial.Pairs))
		warmups = append(warmups, float64(l.trial.Warmup))
		ends = append(ends, l.rows[0][len(l.rows[0])-1].x)
	}
	title, round, rows := "Throughput and round-trip time of several pairs", ", and TCP's round-trip time likewise", []string{"all pairs together", "each pair, median and range", "TCP RTT of each pair"}
	if !slices.ContainsFunc(all, func(l pairLines) bool { return len(l.rows[2]) > 0 }) { // as of packets over UDP
		title, round, rows = "Throughput of several pairs", "", rows[:2]
	}
	p := newPanel(id, title+", "+t.Label,
		fmt.Sprintf("Over time, of one trial per path: the throughput of %d pairs together, that of each pair as median and range%s; the warm-up is grey.", pairs, round),
		m.Paths, panelTop+panelBottom+float64(len(rows))*(pairRow+pairGap)-pairGap)
	p.x = axis{low: 0, high: max(slices.Max(ends), 1e-9), from: p.left, to: p.right}
	bottom, warmup := p.bottom, p.x.at(statistics.Median(warmups))
	for row, name := range rows {
		p.top = panelTop + float64(row)*(pairRow+pairGap)
		p.bottom = p.top + pairRow
		p.pairRow(m, row, name, all, warmup)
	}
	p.top, p.bottom = panelTop, bottom
	p.xAxis(p.x.ticks(5, one), "seconds since the first start")
	return Figure{Title: t.Label, SVG: p.end(), Caption: pairCaption(all)}
}

// pairRow draws one row between p.top and p.bottom.
func (p *panel) pairRow(m *report.Model, row int, name string, all []pairLines, warmup float64) {
	unit := measurement.BitsPerSecond
	if row == 2 {
		unit = measurement.SecondsUnit
	}
	var ys []float64
	for _, l := range all {
		for _, r := range l.rows[row] {
			ys = append(ys, r.low, r.high)
		}
	}
	p.y = linearAxis(ys, true, p.bottom, p.top, 3)
	if low, high := span(ys); row == 2 && low > 0 && high/low > 12 {
		p.y = logAxis(ys, p.bottom, p.top)
	}
	scale := p.y.unitOf(unit)
	p.rect(p.left, p.top, warmup-p.left, p.bottom-p.top, "warm", "")
	p.text(p.left, p.top-8, "start", "axis", axisName(name, scale, p.y.log))
	p.yTicks(p.y.ticks(3, scale))
	p.line(p.left, p.bottom, p.right, p.bottom, "rule")
	var labels []endLabel
	for _, l := range all {
		line := l.rows[row]
		if len(line) == 0 {
			continue
		}
		middle, outline := spread(line, p.x, p.y)
		if row > 0 {
			p.area(outline, class("f", l.path)+" range")
		}
		p.polyline(middle, class("s", l.path)+" curve", l.trial.ID)
		var tail []float64
		for _, r := range line[len(line)*3/4:] {
			tail = append(tail, r.middle)
		}
		labels = append(labels, endLabel{path: l.path, label: m.Paths[l.path].Label, y: p.y.at(statistics.Median(tail))})
	}
	p.endLabels(labels)
}

// pairCaption names the trials that are shown.
func pairCaption(all []pairLines) string {
	s := "Shown is the trial with the median result of each path:"
	for i, l := range all {
		if i > 0 {
			s += ","
		}
		s += " " + trialName(l.trial)
	}
	return s + "."
}
