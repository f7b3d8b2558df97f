package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/report/typeset"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/words"
)

// sheet is a part of a comparison that every rendering shows: sentences, a
// table, and what is said below it.
type sheet struct {
	Title    string
	Verdicts []Verdict
	PublishedTable
	Changes [][]string // a table of two runs, its head first
	Below   []string
}

// ComparisonSheets arranges a comparison for a reader.
func ComparisonSheets(c *result.Comparison) []sheet {
	names, plain := words.NamesOf(c.Paths, c.Tests).Telling(c.Changes), words.NamesOf(nil, nil).Telling(c.Changes)
	var out []sheet
	for _, r := range c.Runs {
		if len(r.Published) > 0 {
			out = append(out, publishedSheet(c, r))
		}
	}
	var sides []string
	for _, change := range c.Changes {
		if !slices.Contains(sides, change.Run) {
			sides = append(sides, change.Run)
		}
	}
	for _, side := range sides {
		s := sheet{}
		for _, change := range c.Changes {
			if change.Run == side {
				s.Title = fmt.Sprintf("%s compared with %s", typeset.Line(side), typeset.Line(change.ReferenceRun))
				s.add(change, names, plain)
			}
		}
		slices.SortStableFunc(s.Verdicts, func(a, b Verdict) int { return harmless(a.Kind) - harmless(b.Kind) })
		s.Below = append(s.Below, words.ChangesNote(c.Changes))
		out = append(out, s)
	}
	return out
}

func publishedSheet(c *result.Comparison, r result.ComparedRun) sheet {
	s := sheet{Title: words.PublishedTitle, PublishedTable: publishedTable(r.Published, r.Scale)}
	if len(c.Runs) > 1 {
		s.Title += ", " + typeset.Line(r.Label)
	}
	s.Below = words.Tally(r.Published)
	return s
}

// add adds a change as a sentence and, where both runs measured it, as a row, which has the
// plain names.
func (s *sheet) add(c result.Effect, names, plain words.Names) {
	if len(s.Changes) == 0 {
		s.Changes = [][]string{{"path", "test", "metric", typeset.Line(c.ReferenceRun), typeset.Line(c.Run), "change", "95 % interval", "p", "verdict"}}
	}
	if c.Primary {
		s.Verdicts = append(s.Verdicts, newVerdict(c, names))
	}
	metric := measurement.MetricOf(c.Metric)
	before, after := levels(c, metric)
	change, between := words.Size(c)
	if c.NoLevels() {
		change, between = words.None, ""
	}
	p := words.None
	if c.PAdjusted != nil {
		p = strings.TrimPrefix(strings.TrimPrefix(words.P(*c.PAdjusted), "p "), "= ")
	}
	s.Changes = append(s.Changes, []string{typeset.Line(plain.Subject(c)), typeset.Line(c.Test), typeset.Line(metric.Label), before, after,
		change, between, p, typeset.Line(words.Verdict(c))})
}

// levels are those of both runs in one unit; a run that measured nothing has none.
func levels(c result.Effect, metric measurement.Metric) (before, after string) {
	wasNot, isNot := c.Unmeasured(c.ReferenceMedian, c.ReferenceBroken, c.ReferenceN), c.Unmeasured(c.Median, c.Broken, c.N)
	var known []float64
	if !wasNot {
		known = append(known, c.ReferenceMedian)
	}
	if !isNot {
		known = append(known, c.Median)
	}
	column := words.NewColumn(metric.Unit, known, nil)
	write := func(v float64, unmeasured bool) string {
		if unmeasured {
			return words.None
		}
		return column.Write(v)
	}
	return write(c.ReferenceMedian, wasNot), write(c.Median, isNot)
}

// RunLine is a run in a line.
func RunLine(r result.ComparedRun) string {
	parts := []string{typeset.Line(r.Experiment)}
	if !r.Started.IsZero() {
		parts = append(parts, words.Moment(r.Started))
	}
	parts = append(parts, words.Trials(r.Trials, 0, r.Excluded, r.Broken))
	if scale := words.ScaledBy(r.Scale); scale != "" {
		parts = append(parts, "1:"+scale)
	}
	if v := typeset.Line(r.Environment["hopbench"]); v != "" {
		parts = append(parts, "hopbench "+v)
	}
	return typeset.Line(r.Label) + ": " + typeset.Line(r.Source) + " (" + strings.Join(parts, ", ") + ")"
}
