package markdown

import (
	"fmt"
	"io"
	"strings"

	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/report/typeset"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/words"
)

// WriteComparison writes a comparison as GitHub-flavoured Markdown.
func WriteComparison(w io.Writer, c *result.Comparison) error {
	var b strings.Builder
	b.WriteString("# Comparison\n\n")
	for _, r := range c.Runs {
		fmt.Fprintf(&b, "- %s\n", Text(report.RunLine(r)))
	}
	for _, s := range report.ComparisonSheets(c) {
		fmt.Fprintf(&b, "\n## %s\n\n", Text(s.Title))
		verdicts(&b, s.Verdicts)
		if len(s.Published) > 0 {
			publishedTable(&b, s.PublishedTable)
		}
		for i, row := range s.Changes {
			if i == 0 {
				b.WriteString("\n" + tableHead(row))
				continue
			}
			b.WriteString(tableRow(row))
		}
		for _, below := range s.Below {
			fmt.Fprintf(&b, "\n%s\n", Text(below))
		}
	}
	list(&b, "Notes", typeset.Lines(words.NamesOf(c.Paths, c.Tests).Notes(c.Notes)))
	return typeset.Flush(w, b.String(), "comparison")
}
