package terminal

import (
	"io"

	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/report/typeset"
	"github.com/hopbench/hopbench/internal/result"
)

// WriteIndex writes an index for a terminal, an experiment a paragraph.
func WriteIndex(w io.Writer, x *result.Index, o Options) error {
	d := report.NewIndex(x)
	t := newTerminal(o)
	t.paragraph("", "", d.Status)
	for _, c := range d.Cards {
		t.heading(c.Name)
		state := c.State
		for _, s := range []string{c.Status, c.Tally} {
			if s != "" {
				state += ", " + s
			}
		}
		t.paragraph("  ", "", state)
		t.paragraph("  ", "", c.Reason)
		t.paragraph("  ", "", c.Headline)
	}
	return typeset.Flush(w, t.b.String(), "index")
}
