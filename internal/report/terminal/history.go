package terminal

import (
	"fmt"
	"io"
	"strings"

	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/report/typeset"
	"github.com/hopbench/hopbench/internal/words"
)

// linesOfEvents is how many of the newest events are printed.
const linesOfEvents = 20

// History prints what a watch brought in so many columns: a line for each series, with its
// course, and the newest events.
func History(w io.Writer, h *report.History, columns int) error {
	var b strings.Builder
	for _, text := range []string{h.Title + ": " + h.Status, words.WatchLimits(h.Stated)} {
		for _, line := range typeset.Wrap(text, columns) {
			fmt.Fprintln(&b, line)
		}
	}
	wide := 0
	for _, t := range h.Series {
		wide = max(wide, typeset.Columns(t.Label))
	}
	wide = min(wide, columns/2)
	for _, t := range h.Series {
		fmt.Fprintf(&b, "\n%s  %s\n", typeset.Pad(typeset.Shorten(t.Label, wide), wide), t.Spark(max(columns-wide-2, 8)))
		for _, line := range typeset.Wrap(t.Caption, columns-2) {
			fmt.Fprintln(&b, "  "+line)
		}
	}
	if len(h.Events) > 0 {
		fmt.Fprintln(&b, "\nannounced, the newest first:")
	}
	for i, e := range h.Events {
		if i == linesOfEvents {
			fmt.Fprintf(&b, "  and %d before\n", len(h.Events)-i+h.More)
			break
		}
		for k, line := range typeset.Wrap(words.WatchMoment(e.Time)+"  "+e.Text, columns-4) {
			fmt.Fprintln(&b, strings.Repeat("  ", min(k, 1)+1)+line)
		}
	}
	return typeset.Flush(w, b.String(), "history of a watch")
}
