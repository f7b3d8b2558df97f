package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/words"
)

// sheet is a part of a comparison that every rendering shows: sentences, a
// table, and what is said below it.
type sheet struct {
	Title    string
	Verdicts []verdict
	Figures  []figureRow // a table of published figures
	Measured string      // head of their measured column
	Changes  [][]string  // a table of two runs, its head first
	Below    []string
}

// comparisonSheets arranges a comparison for a reader.
func comparisonSheets(c *result.Comparison) []sheet {
	names := words.NamesOf(c.Paths, c.Tests)
	var out []sheet
	for _, r := range c.Runs {
		if len(r.Published) > 0 {
			out = append(out, publishedSheet(c, r))
		}
	}
	for _, r := range c.Runs {
		s := sheet{Title: fmt.Sprintf("%s compared with %s", line(r.Label), line(c.Runs[0].Label))}
		for _, change := range c.Changes {
			if change.Run == r.Label {
				s.add(change, names)
			}
		}
		if len(s.Changes) > 0 {
			s.Below = append(s.Below, "Two runs are two samples that nothing pairs: the ratio is the median of all ratios of a trial of one to a trial of the other, its interval inverts the exact rank-sum test. It speaks of the trials, not of what else changed between the runs.")
			out = append(out, s)
		}
	}
	return out
}

func publishedSheet(c *result.Comparison, r result.ComparedRun) sheet {
	s := sheet{Title: words.PublishedTitle, Measured: "measured"}
	if len(c.Runs) > 1 {
		s.Title += ", " + line(r.Label)
	}
	if r.Scale > 0 && r.Scale != 1 {
		s.Measured += " × " + words.Scale(r.Scale)
	}
	for _, p := range r.Published {
		s.Figures = append(s.Figures, newFigureRow(p, columnOf(p)))
	}
	s.Below = words.Tally(r.Published)
	return s
}

// add adds a change as a sentence and, where both runs measured it, as a row.
func (s *sheet) add(c result.Effect, names words.Names) {
	if len(s.Changes) == 0 {
		s.Changes = [][]string{{"path", "test", "metric", line(c.ReferenceRun), line(c.Run), "ratio", "95 % interval", "verdict"}}
	}
	if c.Primary {
		s.Verdicts = append(s.Verdicts, verdict{Kind: c.Verdict, Text: sentence(names.Effect(c))})
	}
	metric := measurement.MetricOf(c.Metric)
	column := words.NewColumn(metric.Unit, []float64{c.ReferenceMedian, c.Median}, nil)
	ratio, between := words.RatioEstimate(c.Ratio, c.Low, c.High)
	s.Changes = append(s.Changes, []string{line(c.Path), line(c.Test), line(metric.Label), column.Write(c.ReferenceMedian), column.Write(c.Median),
		ratio, between, line(words.Verdict(c))})
}

// runLine is a run in a line.
func runLine(r result.ComparedRun) string {
	parts := []string{line(r.Experiment)}
	if !r.Started.IsZero() {
		parts = append(parts, words.Moment(r.Started))
	}
	trials := quantity.Count(r.Trials, "trial")
	if r.Excluded > 0 {
		trials += fmt.Sprintf(", %d excluded", r.Excluded)
	}
	parts = append(parts, trials)
	if r.Scale > 0 && r.Scale != 1 {
		parts = append(parts, "1:"+words.Scale(r.Scale))
	}
	if v := line(r.Environment["hopbench"]); v != "" {
		parts = append(parts, "hopbench "+v)
	}
	return line(r.Label) + ": " + line(r.Source) + " (" + strings.Join(parts, ", ") + ")"
}

// ComparisonTerminal writes a comparison for a terminal.
func ComparisonTerminal(w io.Writer, c *result.Comparison, o Options) error {
	if o.Width <= 0 {
		o.Width = 100
	}
	t := newTerminal(o)
	for _, r := range c.Runs {
		t.paragraph("", "", runLine(r))
	}
	for _, s := range comparisonSheets(c) {
		t.heading(s.Title)
		for _, v := range s.Verdicts {
			t.paragraph(verdictMark(v.Kind)+" ", verdictStyle(v.Kind), v.Text)
		}
		if len(s.Figures) > 0 {
			t.publishedGrid(s.Figures)
		}
		if len(s.Changes) > 0 {
			fmt.Fprintln(&t.b)
			t.grid(s.Changes, nil, func(r []string) string {
				return fmt.Sprintf("%s, %s, %s: %s → %s, %s %s, %s", r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7])
			})
		}
		for _, b := range s.Below {
			t.paragraph("", "", b)
		}
	}
	if len(c.Notes) > 0 {
		t.heading("Notes")
		for _, n := range lines(words.NamesOf(c.Paths, c.Tests).Notes(c.Notes)) {
			t.paragraph("- ", "", n)
		}
	}
	return flush(w, t.b.String(), "comparison")
}

// ComparisonMarkdown writes a comparison as GitHub-flavoured Markdown.
func ComparisonMarkdown(w io.Writer, c *result.Comparison) error {
	var b strings.Builder
	b.WriteString("# Comparison\n\n")
	for _, r := range c.Runs {
		fmt.Fprintf(&b, "- %s\n", markdownText(runLine(r)))
	}
	for _, s := range comparisonSheets(c) {
		fmt.Fprintf(&b, "\n## %s\n\n", markdownText(s.Title))
		for _, v := range s.Verdicts {
			fmt.Fprintf(&b, "- %s\n", markdownText(v.Text))
		}
		if len(s.Figures) > 0 {
			b.WriteString(markdownHead(publishedColumns(s.Measured)))
			for _, h := range s.Figures {
				b.WriteString(markdownRow(h.publishedCells()))
			}
		}
		for i, row := range s.Changes {
			if i == 0 {
				b.WriteString("\n" + markdownHead(row))
				continue
			}
			b.WriteString(markdownRow(row))
		}
		for _, below := range s.Below {
			fmt.Fprintf(&b, "\n%s\n", markdownText(below))
		}
	}
	markdownList(&b, "Notes", lines(words.NamesOf(c.Paths, c.Tests).Notes(c.Notes)))
	return flush(w, b.String(), "comparison")
}

// ComparisonJSON writes the comparison itself, indented.
func ComparisonJSON(w io.Writer, c *result.Comparison) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(c); err != nil {
		return fmt.Errorf("write the comparison as JSON: %w", err)
	}
	return nil
}

// elapsedText writes how long something took.
func elapsedText(d measurement.Seconds) string {
	return d.Duration().Round(time.Second).String()
}
