package html

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"sync"

	"github.com/hopbench/hopbench/internal/report"
	"github.com/hopbench/hopbench/internal/report/figure"
	"github.com/hopbench/hopbench/internal/report/typeset"
	"github.com/hopbench/hopbench/internal/words"
)

//go:embed history.html
var historyHTML string

var historyPage = sync.OnceValue(func() *template.Template { return parsed(historyHTML) })

// WriteHistory writes what a watch brought as one self-contained page.
func WriteHistory(w io.Writer, h *report.History) error {
	type event struct {
		When, Text string
		Change     bool
	}
	d := struct {
		Title, Status, Limits string
		Figures               []figure.Figure
		Events                []event
		More                  int
	}{Title: h.Title, Status: h.Status, Limits: words.WatchLimits(h.Stated), Figures: figure.TrendFigures(h), More: h.More}
	for _, e := range h.Events {
		d.Events = append(d.Events, event{words.Moment(e.Time), e.Text, e.Change})
	}
	var b strings.Builder
	if err := historyPage().Execute(&b, d); err != nil {
		return fmt.Errorf("render the history of a watch: %w", err)
	}
	return typeset.Flush(w, b.String(), "history of a watch")
}
