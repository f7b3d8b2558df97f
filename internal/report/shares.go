package report

import (
	"fmt"
	"html/template"
	"maps"
	"slices"

	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/result"
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

// causes are the limits in the order that reports show them, from the source
// along the path to the destination, with the words for people. Their position
// is the colour of the style sheet; the last is grey.
var causes = []struct {
	cause result.Cause
	name  string
}{
	{result.CauseSenderApplication, "sender's application"},
	{result.CauseSendBuffer, "send buffer"},
	{result.CauseReceiveWindow, "receive window"},
	{result.CauseCongestionWindowLoss, "congestion window (loss)"},
	{result.CauseCongestionWindowDelay, "congestion window (delay)"},
	{result.CausePacing, "pacing"},
	{result.CauseSourceCPU, "source's CPU"},
	{result.CauseDestinationCPU, "destination's CPU"},
	{result.CauseSourceCap, "source's egress cap"},
	{result.CauseDestinationCap, "destination's cap"},
	{result.CauseUnknown, "unknown"},
}

// shares arranges the attribution for figures and text. A cause that this
// package does not know keeps its own name, and comes last.
func (m *model) shares() []shareRow {
	var out []shareRow
	for _, a := range m.r.Attributions {
		row := shareRow{Path: m.pathLabel(a.Path), Test: m.testLabel(a.Test), Sentence: sentence(a.Sentence)}
		known := map[result.Cause]bool{}
		for i, c := range causes {
			known[c.cause] = true
			row.add(sharePart{c.name, i, a.Shares[c.cause]})
		}
		for _, c := range slices.Sorted(maps.Keys(a.Shares)) {
			if !known[c] {
				row.add(sharePart{line(string(c)), len(causes) - 1, a.Shares[c]})
			}
		}
		if row.Sentence != "" || len(row.Parts) > 0 {
			out = append(out, row)
		}
	}
	return out
}

// add appends a part that is a share: above zero and at most the whole.
func (row *shareRow) add(p sharePart) {
	if p.Fraction > 0 {
		p.Fraction = min(p.Fraction, 1)
		row.Parts = append(row.Parts, p)
	}
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
		description += p.Name + " " + trimmedPercent(p.Fraction) + ". "
	}
	s := newSVG(id, width, height, "What limits "+row.Test+" on "+row.Path, description)
	for _, p := range row.Parts {
		w := min(p.Fraction*width, width-x)
		s.rect(x, 0, w, height, fmt.Sprintf("share%d", p.Colour), p.Name+" "+trimmedPercent(p.Fraction))
		x += w
		if p.Fraction >= 0.005 { // the rest is in the picture's description
			b.Legend = append(b.Legend, shareLabel{p.Colour, p.Name, with(quantity.Number(p.Fraction*100, 0), "%")})
		}
	}
	b.SVG = s.end()
	return b
}
