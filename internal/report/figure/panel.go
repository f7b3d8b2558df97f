package figure

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/report/typeset"
)

// panel is a small chart with axes on the left and below, and names of paths
// at the right end of their lines instead of a legend.
type panel struct {
	*svg
	left, right, top, bottom float64 // edges of the plotted area
	height                   float64
	x, y                     axis
}

// Sizes of a panel in user units. A panel is as wide as a phone, so that its
// texts keep their size there; a wide page shows two side by side.
const (
	panelWidth  = 440.0
	panelHeight = 236.0
	panelLeft   = 48.0
	panelTop    = 22.0
	panelBottom = 36.0
)

// newPanel starts a panel whose right margin has room for the labels.
func newPanel(id, title, description string, labels []report.Path, height float64) *panel {
	room := 0
	for _, p := range labels {
		room = max(room, typeset.Columns(p.Label))
	}
	margin := min(float64(room)*glyphWidth+10, 140)
	return &panel{svg: newSVG(id, panelWidth, height, title, description),
		left: panelLeft, right: panelWidth - margin, top: panelTop, bottom: height - panelBottom, height: height}
}

// axes draws grid lines, ticks and the names of both axes.
func (p *panel) axes(xTicks, yTicks []tick, xName, yName string) {
	p.text(p.left-40, 11, "start", "axis", yName)
	p.scale(func() { p.yTicks(yTicks); p.xTicks(xTicks) })
	p.xName(xName)
}

// What an axis shows besides numbers, for the page's script, which writes its ticks anew
// where a part of a panel is magnified.
const (
	logAxisKind = "log"
	nines       = "nines"  // tail positions of percentiles
	moments     = "moment" // seconds since 1970
)

// one is the scale of an axis in base units.
var one = quantity.Scale{Factor: 1}

// plot draws what a reader may magnify. It writes down the edges of the plot and what they
// are worth in the units of their axes, on the x axis from xStart on.
func (p *panel) plot(xKind string, xStart float64, x, y quantity.Scale, draw func()) {
	yKind := ""
	if p.y.log {
		yKind = logAxisKind
	}
	edges := func(a axis, start, factor float64, kind string) string {
		number := func(v float64) string { return strconv.FormatFloat(v, 'g', 12, 64) }
		return strings.TrimSpace(strings.Join([]string{coordinate(a.from), coordinate(a.to), number(start + a.low/factor), number(start + a.high/factor), kind}, " "))
	}
	p.b.WriteString(`<g class="plot"`)
	p.attribute("data-x", edges(p.x, xStart, x.Factor, xKind))
	p.attribute("data-y", edges(p.y, 0, y.Factor, yKind))
	p.b.WriteString(">")
	draw()
	p.b.WriteString("</g>")
}

// scale draws what the page's script takes away where a part of a panel is magnified.
func (p *panel) scale(draw func()) {
	p.b.WriteString(`<g class="scale">`)
	draw()
	p.b.WriteString("</g>")
}

// yTicks draws horizontal grid lines with labels.
func (p *panel) yTicks(ticks []tick) {
	for _, t := range ticks {
		y := p.y.at(t.value)
		p.line(p.left, y, p.right, y, "grid")
		p.text(p.left-6, y+4, "end", "tick", t.label)
	}
}

// xAxis draws the axis below.
func (p *panel) xAxis(ticks []tick, name string) {
	p.xTicks(ticks)
	p.xName(name)
}

// xName draws the line of the axis below and its name.
func (p *panel) xName(name string) {
	p.line(p.left, p.bottom, p.right, p.bottom, "rule")
	p.text((p.left+p.right)/2, p.height-5, "middle", "axis", name)
}

func (p *panel) xTicks(ticks []tick) {
	for _, t := range ticks {
		x := p.x.at(t.value)
		p.line(x, p.bottom, x, p.bottom+4, "rule")
		p.text(x, p.bottom+16, "middle", "tick", t.label)
	}
}

// endLabel is the name of a path at the height where its line ends.
type endLabel struct {
	path  int
	label string
	y     float64
}

// lineHeight is that of a name of two lines.
const lineHeight = 14.0

// name writes the name of a path right of the plot, around a height, in at most two lines.
func (p *panel) name(path int, label string, y float64) {
	for i, line := range p.nameLines(label) {
		p.text(p.right+9, y+4+lineHeight*float64(i), "start", class("f", path)+" name", line)
	}
}

// nameLines is a name in at most two lines of the room that is right of the plot.
func (p *panel) nameLines(label string) []string {
	room := panelWidth - p.right - 9
	lines := typeset.Wrap(label, max(int(room/glyphWidth), 2))
	if len(lines) > 2 {
		lines = []string{lines[0], strings.Join(lines[1:], " ")}
	}
	for i := range lines {
		lines[i] = fit(lines[i], room)
	}
	return lines
}

// endLabels writes names at the right edge, moved apart where they would
// overlap, with a line to where they belong.
func (p *panel) endLabels(labels []endLabel) {
	height := func(i int) float64 { return lineHeight * float64(len(p.nameLines(labels[i].label))) }
	slices.SortStableFunc(labels, func(a, b endLabel) int { return cmp.Or(cmp.Compare(a.y, b.y), a.path-b.path) })
	places := make([]float64, len(labels))
	for i, l := range labels {
		places[i] = l.y
		if i > 0 {
			places[i] = max(places[i], places[i-1]+height(i-1))
		}
	}
	if n := len(places); n > 0 { // push back up what fell below the plot
		limit := p.bottom + lineHeight
		for i := n - 1; i >= 0; i-- {
			places[i] = min(places[i], limit-height(i))
			limit = places[i]
		}
	}
	for i, l := range labels {
		p.line(p.right+1, l.y, p.right+7, places[i], class("s", l.path)+" lead")
		p.name(l.path, l.label, places[i])
	}
}

// place is where points are in the picture.
func (p *panel) place(points []point) []point {
	out := make([]point, len(points))
	for i, q := range points {
		out[i] = point{p.x.at(q.x), p.y.at(q.y)}
	}
	return out
}

// ranged is a value over time with the least and the largest that it stands for.
type ranged struct{ x, low, middle, high float64 }

// spread is where a line is in a picture, and the outline of its ranges.
func spread(line []ranged, x, y axis) (middle, outline []point) {
	for _, r := range line {
		middle = append(middle, point{x.at(r.x), y.at(r.middle)})
		outline = append(outline, point{x.at(r.x), y.at(r.high)})
	}
	for _, r := range slices.Backward(line) {
		outline = append(outline, point{x.at(r.x), y.at(r.low)})
	}
	return middle, outline
}

// class names the stroke (s) or fill (f) colour of a path by its position.
func class(kind string, path int) string { return kind + strconv.Itoa(report.PathColour(path)) }
