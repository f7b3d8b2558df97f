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
	t := newTerminal(o)
	for _, r := range c.Runs {
		t.paragraph("", "", report.RunLine(r))
	}
	for _, s := range report.ComparisonSheets(c) {
		t.heading(s.Title)
		t.verdicts(s.Verdicts)
		if len(s.Published) > 0 {
			t.publishedGrid(s.Published)
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
	t.list("Notes", typeset.Lines(words.NamesOf(c.Paths, c.Tests).Notes(c.Notes)))
	return typeset.Flush(w, t.b.String(), "comparison")
}
