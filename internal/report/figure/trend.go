package figure

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/words"
)

// mostColumns bounds the points of a trend: where there are more samples, each is the median
// of several, with the span of them behind it.
const mostColumns = 360

// TrendFigures draws each series of a watch over time, with its limits and its changes.
func TrendFigures(h *report.History) []Figure {
	var out []Figure
	for i, t := range h.Series {
		out = append(out, trend(fmt.Sprintf("trend-%d", i), t))
	}
	return out
}

func trend(id string, t report.Trend) Figure {
	stretches := stretchesOf(t)
	parts := slices.Concat(stretches...)
	first, last := t.Times[0], t.Times[len(t.Times)-1]
	if !last.After(first) { // a single round, or a clock that was set back
		last = first.Add(time.Second)
	}
	p := newPanel(id, t.Label, words.TrendDescription(t.Label, len(t.Values), len(t.Changes)), nil, panelHeight)
	var shown []float64
	for _, s := range parts {
		shown = append(shown, s.Low, s.High)
	}
	// Limits that are far off would press the line flat, unless it is flat.
	low, high := slices.Min(shown), slices.Max(shown)
	beyond := high - low
	if beyond == 0 {
		beyond = math.Inf(1)
	}
	for i, learned := range t.Learned {
		if learned {
			shown = append(shown, max(t.Low[i], low-beyond), min(t.High[i], high+beyond))
		}
	}
	p.y = linearAxis(shown, false, p.bottom, p.top, 4)
	if p.y.low < 0 && low >= 0 {
		p.y.low = 0
	}
	p.x = axis{low: 0, high: last.Sub(first).Seconds(), from: p.left, to: p.right}
	at := func(i int) float64 { return t.Times[i].Sub(first).Seconds() }
	scale := p.y.unitOf(t.Unit)
	name := scale.Name
	if name == "" {
		name = "value"
	}
	var limits []ranged
	band := func() {
		level, between := spread(limits, p.x, p.y)
		p.area(between, "band")
		p.polyline(level, "warmline", "")
		limits = nil
	}
	zoomed := func(draw func()) { p.plot(moments, float64(first.UnixMilli())/1e3, one, scale, draw) }
	zoomed(func() {
		for _, stretch := range stretches {
			for _, s := range stretch {
				i := s.To - 1
				if !t.Learned[i] {
					band()
					continue
				}
				limits = append(limits, ranged{at(i), t.Low[i], t.Level[i], t.High[i]})
			}
			band()
		}
	})
	p.axes(timeTicks(first, last), p.y.ticks(4, scale), "", name)
	zoomed(func() {
		for _, stretch := range stretches {
			var medians []ranged
			for _, s := range stretch {
				medians = append(medians, ranged{(at(s.From) + at(s.To-1)) / 2, s.Low, s.Median, s.High})
			}
			line, shade := spread(medians, p.x, p.y)
			if len(line) == 1 { // no line leads to it
				line = []point{{line[0].x - 1, line[0].y}, {line[0].x + 1, line[0].y}}
			}
			if len(parts) < len(t.Values) {
				p.area(shade, class("f", 1)+" range")
			}
			p.polyline(line, class("s", 1)+" curve", "")
		}
		for _, c := range t.Changes {
			x := p.x.at(c.Sub(first).Seconds())
			p.line(x, p.top, x, p.bottom, class("s", 2)+" failed")
		}
	})
	p.scale(func() {
		for _, c := range t.Changes {
			p.marker(3, p.x.at(c.Sub(first).Seconds()), p.top, 4, class("f", 2), words.Moment(c))
		}
	})
	return Figure{Title: t.Label, SVG: p.end(), Caption: t.Caption}
}

// holeShare is the part of a picture from which on a time without samples is left blank.
const holeShare = 100

// stretchesOf cuts a trend into slices, and apart where nothing was measured for several times as
// long as usual, or the clock was set back: no line leads over a time of which nothing is known.
func stretchesOf(t report.Trend) (out [][]report.Slice) {
	n := len(t.Values)
	var apart []time.Duration
	for i := range n - 1 {
		apart = append(apart, t.Times[i+1].Sub(t.Times[i]))
	}
	hole := time.Duration(0)
	if n > 1 {
		usual := slices.Sorted(slices.Values(apart))[(n-1)/2]
		hole = max(4*usual, t.Times[n-1].Sub(t.Times[0])/holeShare)
	}
	from := 0
	for i := range n {
		if i+1 < n && apart[i] >= 0 && apart[i] <= hole {
			continue
		}
		stretch := report.Trend{Values: t.Values[from : i+1]}.Slices(max(mostColumns*(i+1-from)/n, 1))
		for k := range stretch {
			stretch[k].From, stretch[k].To = stretch[k].From+from, stretch[k].To+from
		}
		out, from = append(out, stretch), i+1
	}
	return out
}

// timeTicks are a few moments between two, written as fine as they are apart.
func timeTicks(first, last time.Time) []tick {
	const count = 4
	whole := last.Sub(first)
	layout := "2006-01-02"
	switch {
	case whole < 2*time.Minute*count:
		layout = "15:04:05"
	case whole < 24*time.Hour:
		layout = "15:04"
	case whole < 8*24*time.Hour:
		layout = "01-02 15:04"
	}
	var out []tick
	for i := range count {
		d := whole * time.Duration(2*i+1) / (2 * count)
		out = append(out, tick{d.Seconds(), first.Add(d).UTC().Format(layout)})
	}
	return out
}
