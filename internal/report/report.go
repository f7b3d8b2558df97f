// Package report shows a run to people and to other programs: as text for a
// terminal, Markdown, one self-contained HTML page, a picture, CSV and JSON.
//
// Every rendering of the figures is made from one model (model.go), so that
// no two of them can disagree, and its only input is a result.Result: a
// stored run is rendered again without measuring. Names and texts of a result
// come from a user's file or from another machine and are treated as hostile:
// they are escaped for the medium they are written to, control characters are
// replaced, and numbers that are not finite are left out and counted.
package report

import (
	"fmt"
	"io"

	"github.com/hopbench/hopbench/internal/result"
)

// Options of a terminal report.
type Options struct {
	// Width is the number of columns to fit; 0 means 100. Below 40 the lines
	// of the table may be longer than Width.
	Width int
	// Colour allows ANSI colours. The caller knows whether it writes to a
	// terminal and what NO_COLOR says; this package does not look.
	Colour bool
}

// Terminal writes the report for a terminal.
func Terminal(w io.Writer, r *result.Result, o Options) error {
	if o.Width <= 0 {
		o.Width = 100
	}
	t := newTerminal(o)
	t.write(newModel(r))
	return flush(w, t.b.String(), "terminal report")
}

// Markdown writes the report as GitHub-flavoured Markdown.
func Markdown(w io.Writer, r *result.Result) error {
	return flush(w, markdown(newModel(r)), "Markdown report")
}

// flush writes text in one go and names it in an error.
func flush(w io.Writer, text, what string) error {
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("write %s: %w", what, err)
	}
	return nil
}
