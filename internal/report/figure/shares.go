package figure

import (
	"fmt"
	"html/template"

	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/words"
)

// ShareBar is a row with its picture.
type ShareBar struct {
	report.ShareRow
	SVG    template.HTML
	Legend []shareLabel
}

// shareLabel names a part of the bar.
type shareLabel struct {
	Colour        int
	Name, Percent string
}

// ShareBars draws each row as one bar of stacked shares.
func ShareBars(m *report.Model) []ShareBar {
	var out []ShareBar
	for i, row := range m.Shares {
		out = append(out, bar(row, fmt.Sprintf("share-%d", i)))
	}
	return out
}

// bar draws a row. The picture holds rectangles only, because it is stretched
// to the width of the page; its labels are text next to it.
func bar(row report.ShareRow, id string) ShareBar {
	const width, height = 400.0, 14.0
	b := ShareBar{ShareRow: row}
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
