package report

import (
	"fmt"
	"html/template"
	"slices"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/words"
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
func (m *model) shares() []shareRow {
	var out []shareRow
	for _, a := range m.Run.Attributions {
		row := shareRow{Path: m.pathLabel(a.Path), Test: m.testLabel(a.Test), Sentence: sentence(words.Attribution(a, m.specOf(a.Test).Direction))}
		for _, c := range words.Causes(a.Shares) {
			row.Parts = append(row.Parts, sharePart{line(words.Cause(c)), shareColour(c), min(a.Shares[c], 1)})
		}
		if row.Sentence != "" || len(row.Parts) > 0 {
			out = append(out, row)
		}
	}
	return out
}

// shareColour is the colour of a cause in the style sheet; the last is grey.
func shareColour(c result.Cause) int {
	all := result.Causes()
	if i := slices.Index(all, c); i >= 0 {
		return i
	}
	return len(all) - 1
}

// specOf is how a test was done.
func (m *model) specOf(name string) (s measurement.Spec) {
	for _, t := range m.Tests {
		if t.Name == name {
			s = t.Spec
		}
	}
	return s
}

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
		description += p.Name + " " + words.Share(p.Fraction) + ". "
	}
	s := newSVG(id, width, height, "What limits "+row.Test+" on "+row.Path, description)
	for _, p := range row.Parts {
		w := min(p.Fraction*width, width-x)
		s.rect(x, 0, w, height, fmt.Sprintf("share%d", p.Colour), p.Name+" "+words.Share(p.Fraction))
		x += w
		if p.Fraction >= 0.005 { // the rest is in the picture's description
			b.Legend = append(b.Legend, shareLabel{p.Colour, p.Name, words.Share(p.Fraction)})
		}
	}
	b.SVG = s.end()
	return b
}
