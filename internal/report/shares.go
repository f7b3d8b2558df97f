package report

import (
	"fmt"
	"html/template"
)

// shareRow is how the time of a test on a path divides among its limits.
type shareRow struct {
	Path, Test string // labels
	Sentence   string
	Parts      []sharePart // in a fixed order, those above zero
}

// sharePart is one limit and its share of the time, 0 to 1.
type sharePart struct {
	Name     string
	Colour   int // index of the style sheet's share colours
	Fraction float64
}

// shares arranges the attribution for figures and text.
func (m *model) shares() []shareRow { return nil }

// shareBar is a row with its picture.
type shareBar struct {
	shareRow
	SVG    template.HTML
	Legend []shareLabel
}

// shareLabel names a part of the bar.
type shareLabel struct {
	Colour        int
	Name, Percent string
}

// shareBars draws each row as one bar of stacked shares.
func (m *model) shareBars() []shareBar {
	var out []shareBar
	for i, row := range m.Shares {
		out = append(out, row.bar(fmt.Sprintf("share-%d", i)))
	}
	return out
}

// bar draws a row. The picture holds rectangles only, because it is stretched
// to the width of the page; its labels are text beside it.
func (row shareRow) bar(id string) shareBar {
	const width, height = 400.0, 14.0
	b := shareBar{shareRow: row}
	description, x := "", 0.0
	for _, p := range row.Parts {
		description += p.Name + " " + trimmedPercent(p.Fraction) + ". "
	}
	s := newSVG(id, width, height, "What limits "+row.Test+" on "+row.Path, description)
	for _, p := range row.Parts {
		w := min(p.Fraction*width, width-x)
		s.rect(x, 0, w, height, fmt.Sprintf("share%d", p.Colour), p.Name+" "+trimmedPercent(p.Fraction))
		x += w
		percent := with(number(p.Fraction*100, 0), "%")
		if p.Fraction < 0.005 {
			percent = "< 1" + nbsp + "%"
		}
		b.Legend = append(b.Legend, shareLabel{p.Colour, p.Name, percent})
	}
	b.SVG = s.end()
	return b
}
