// Package figure draws a report's charts as SVG: costs, throughput and round-trip
// time over time, latency distributions, the order of trials, pairs, hops, shares.
package figure

import (
	"html"
	"html/template"
	"math"
	"strconv"
	"strings"

	"github.com/hopbench/hopbench/internal/report/typeset"
)

// svg builds one picture. Every text and attribute goes through an escaping
// writer, so a picture can hold names from a user's file; colours come from
// classes of the page's style sheet so that light, dark and print agree.
type svg struct{ b strings.Builder }

// newSVG starts a picture of w × h user units with an accessible name and
// description (role img, aria-labelledby). The id must be unique on its page.
func newSVG(id string, w, h float64, title, description string) *svg {
	s := &svg{}
	s.b.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 ` + coordinate(w) + " " + coordinate(h) +
		`" aria-labelledby="` + escape(id) + `-t ` + escape(id) + `-d">`)
	s.b.WriteString(`<title id="` + escape(id) + `-t">` + escape(title) + `</title><desc id="` + escape(id) + `-d">` + escape(description) + `</desc>`)
	return s
}

// end closes the picture.
func (s *svg) end() template.HTML {
	s.b.WriteString("</svg>")
	return template.HTML(s.b.String()) // made of escaped parts only
}

// escape makes a text safe between tags and inside double quotes.
func escape(s string) string { return html.EscapeString(typeset.Clean(s, false)) }

// coordinate writes a coordinate with one decimal. What is not finite or far
// outside any picture is clamped: a viewer must never see a NaN.
func coordinate(v float64) string {
	if math.IsNaN(v) {
		v = 0
	}
	v = math.Round(min(max(v, -1e5), 1e5)*10) / 10
	if v == 0 {
		return "0"
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// attribute writes name="value".
func (s *svg) attribute(name, value string) {
	s.b.WriteString(" " + name + `="` + escape(value) + `"`)
}

func (s *svg) number(name string, v float64) {
	s.b.WriteString(" " + name + `="` + coordinate(v) + `"`)
}

// closeTag ends an element, with a tooltip inside when there is one.
func (s *svg) closeTag(name, tooltip string) {
	if tooltip == "" {
		s.b.WriteString("/>")
		return
	}
	s.b.WriteString("><title>" + escape(tooltip) + "</title></" + name + ">")
}

func (s *svg) line(x1, y1, x2, y2 float64, class string) {
	s.b.WriteString("<line")
	s.number("x1", x1)
	s.number("y1", y1)
	s.number("x2", x2)
	s.number("y2", y2)
	s.attribute("class", class)
	s.closeTag("line", "")
}

func (s *svg) rect(x, y, w, h float64, class, tooltip string) {
	s.b.WriteString("<rect")
	s.number("x", x)
	s.number("y", y)
	s.number("width", max(w, 0))
	s.number("height", max(h, 0))
	s.attribute("class", class)
	s.closeTag("rect", tooltip)
}

// text writes a label; anchor is start, middle or end.
func (s *svg) text(x, y float64, anchor, class, text string) {
	if text == "" {
		return
	}
	s.b.WriteString("<text")
	s.number("x", x)
	s.number("y", y)
	if anchor != "start" {
		s.attribute("text-anchor", anchor)
	}
	s.attribute("class", class)
	s.b.WriteString(">" + escape(text) + "</text>")
}

// point is a position in a picture.
type point struct{ x, y float64 }

// polyline draws connected points.
func (s *svg) polyline(points []point, class, tooltip string) { s.path(points, "", class, tooltip) }

// area fills what points surround.
func (s *svg) area(points []point, class string) { s.path(points, "Z", class, "") }

// path draws connected points and ends with a command.
func (s *svg) path(points []point, end, class, tooltip string) {
	if len(points) == 0 {
		return
	}
	s.b.WriteString(`<path d="`)
	for i, p := range points {
		switch i {
		case 0:
			s.b.WriteString("M")
		case 1:
			s.b.WriteString("L")
		default:
			s.b.WriteString(" ")
		}
		s.b.WriteString(coordinate(p.x) + "," + coordinate(p.y))
	}
	s.b.WriteString(end + `"`)
	s.attribute("class", class)
	s.closeTag("path", tooltip)
}

// marker draws a small filled shape; shapes tell paths apart without colour.
func (s *svg) marker(shape int, x, y, r float64, class, tooltip string) {
	at := func(dx, dy float64) string { return coordinate(x+dx) + "," + coordinate(y+dy) }
	var d string
	switch shape % 4 {
	case 0:
		s.b.WriteString("<circle")
		s.number("cx", x)
		s.number("cy", y)
		s.number("r", r)
		s.attribute("class", class)
		s.closeTag("circle", tooltip)
		return
	case 1:
		d = "M" + at(-r*.9, -r*.9) + "L" + at(r*.9, -r*.9) + " " + at(r*.9, r*.9) + " " + at(-r*.9, r*.9) + "Z"
	case 2:
		d = "M" + at(0, -r*1.2) + "L" + at(r*1.1, r*.9) + " " + at(-r*1.1, r*.9) + "Z"
	default:
		d = "M" + at(0, -r*1.3) + "L" + at(r*1.3, 0) + " " + at(0, r*1.3) + " " + at(-r*1.3, 0) + "Z"
	}
	s.b.WriteString("<path")
	s.attribute("d", d)
	s.attribute("class", class)
	s.closeTag("path", tooltip)
}

// cross marks what failed.
func (s *svg) cross(x, y, r float64, class, tooltip string) {
	at := func(dx, dy float64) string { return coordinate(x+dx) + "," + coordinate(y+dy) }
	s.b.WriteString("<path")
	s.attribute("d", "M"+at(-r, -r)+"L"+at(r, r)+"M"+at(-r, r)+"L"+at(r, -r))
	s.attribute("class", class)
	s.closeTag("path", tooltip)
}

// glyphWidth is about how wide a character of a label is, of 12 units and of
// the 13 that narrow screens get; labels are shortened by it, so that it need
// not be exact.
const glyphWidth = 7.8

// fit shortens a label to a width in user units.
func fit(s string, w float64) string { return typeset.Shorten(s, max(int(w/glyphWidth), 2)) }
