package html

import (
	_ "embed"
	"html/template"
	"io"
	"sync"

	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/report/figure"
	"github.com/hopbench/hopbench/internal/words"
)

//go:embed history.html
var historyHTML string

var historyPage = sync.OnceValue(func() *template.Template { return parsed(historyHTML) })

// WriteHistory writes what a watch brought as one self-contained page.
func WriteHistory(w io.Writer, h *report.History) error {
	d := struct {
		*report.History
		Limits  string
		Figures []figure.Figure
	}{h, words.WatchLimits(h.Stated), figure.TrendFigures(h)}
	return render(w, historyPage(), "page", d, "history of a watch")
}
