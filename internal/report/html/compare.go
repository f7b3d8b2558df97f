package html

import (
	_ "embed"
	"html/template"
	"io"
	"slices"
	"sync"

	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/report/typeset"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/words"
)

//go:embed compare.html
var compareHTML string

var comparePage = sync.OnceValue(func() *template.Template { return parsed(compareHTML) })

// WriteComparison writes how runs compare with each other as one self-contained page.
func WriteComparison(w io.Writer, c *result.Comparison) error {
	d := struct {
		Title  string
		Lines  []string
		Sheets any
		Notes  []string
	}{Sheets: report.ComparisonSheets(c), Notes: typeset.Lines(words.NamesOf(c.Paths, c.Tests).Notes(c.Notes))}
	var names []string
	for _, r := range c.Runs {
		if name := typeset.Line(r.Experiment); !slices.Contains(names, name) {
			names = append(names, name)
		}
		d.Lines = append(d.Lines, report.RunLine(r))
	}
	d.Title = words.List(names)
	return render(w, comparePage(), "page", d, "comparison")
}
