package markdown

import (
	"fmt"
	"io"
	"strings"

	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/report/typeset"
	"github.com/hopbench/hopbench/internal/result"
)

// WriteIndex writes an index as GitHub-flavoured Markdown.
func WriteIndex(w io.Writer, x *result.Index) error {
	d := report.NewIndex(x)
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s\n\n", d.Title, Text(d.Status))
	b.WriteString(tableHead([]string{"experiment", "state", "what it says", "published", "took"}))
	for _, c := range d.Cards {
		says := c.Headline
		if c.Reason != "" {
			says = c.Reason
		}
		b.WriteString(tableRow([]string{c.Name, c.State, says, c.Tally, c.Status}))
	}
	for _, c := range d.Cards {
		fmt.Fprintf(&b, "\n## %s\n\n", Text(c.Title))
		if c.Reason != "" {
			fmt.Fprintf(&b, "%s: %s\n\n", c.State, Text(c.Reason))
		}
		verdicts(&b, c.Verdicts)
		if c.Report != "" {
			fmt.Fprintf(&b, "\n[Report](%s)\n", c.Report)
		}
		if len(c.Published) > 0 {
			b.WriteString("\n")
			publishedTable(&b, c.PublishedTable)
		}
	}
	return typeset.Flush(w, b.String(), "Markdown index")
}
