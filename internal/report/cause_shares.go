package report

import (
	"slices"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/report/typeset"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/words"
)

// ShareRow is how the time of a test on a path divides among its limits.
type ShareRow struct {
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
func (m *Model) shares() []ShareRow {
	var out []ShareRow
	for _, a := range m.Run.Attributions {
		row := ShareRow{Path: m.PathLabel(a.Path), Test: m.TestLabel(a.Test), Sentence: typeset.Sentence(words.Attribution(a, m.specOf(a.Test)))}
		for _, c := range words.Causes(a.Shares) {
			row.Parts = append(row.Parts, sharePart{typeset.Line(words.Cause(c)), shareColour(c), min(a.Shares[c], 1)})
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
func (m *Model) specOf(name string) (s measurement.Spec) {
	for _, t := range m.Tests {
		if t.Name == name {
			s = t.Spec
		}
	}
	return s
}
