package terminal

import (
	"fmt"
	"io"
	"strings"

	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/report/typeset"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/words"
)

// WriteComparison writes a comparison for a terminal.
func WriteComparison(w io.Writer, c *result.Comparison, o Options) error {
	if o.Width <= 0 {
		o.Width = 100
	}
	t := newTerminal(o)
	for _, r := range c.Runs {
		t.paragraph("", "", report.RunLine(r))
	}
	for _, s := range report.ComparisonSheets(c) {
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
				change := strings.TrimSpace(r[5] + " " + r[6])
				return fmt.Sprintf("%s, %s, %s: %s → %s, %s, p %s: %s", r[0], r[1], r[2], r[3], r[4], change, r[7], r[8])
			})
		}
		for _, b := range s.Below {
			t.paragraph("", "", b)
		}
	}
	if len(c.Notes) > 0 {
		t.heading("Notes")
		for _, n := range typeset.Lines(words.NamesOf(c.Paths, c.Tests).Notes(c.Notes)) {
			t.paragraph("- ", "", n)
		}
	}
	return typeset.Flush(w, t.b.String(), "comparison")
}
