package report_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/report/html"
	"github.com/hopbench/hopbench/internal/report/markdown"
	"github.com/hopbench/hopbench/internal/report/reporttest"
	"github.com/hopbench/hopbench/internal/report/terminal"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testutil"
)

// That a run was stopped before its end stands once, above the verdicts.
func TestInterimStandsAboveTheVerdicts(t *testing.T) {
	r := reporttest.Run(t, 10)
	r.Notes = append(r.Notes, result.Note{Code: result.NoteInterim, Count: 4, Of: 10})
	var page, text bytes.Buffer
	testutil.OK(t, html.Write(&page, r))
	testutil.OK(t, markdown.Write(&text, r))
	for what, shown := range map[string]string{
		"html": page.String(), "markdown": text.String(), "terminal": string(terminalText(t, r, terminal.Options{Width: 400})),
	} {
		at, verdict := strings.Index(shown, "Interim: the run was stopped"), strings.Index(shown, "2.243")
		if at < 0 || verdict < at || strings.Count(shown, "Interim: ") != 1 {
			t.Errorf("%s has it at %d, the first verdict at %d:\n%s", what, at, verdict, shown[:min(len(shown), 3000)])
		}
	}
}
