package report_test

import (
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/report/markdown"
	"github.com/hopbench/hopbench/internal/report/reporttest"
	"github.com/hopbench/hopbench/internal/report/terminal"
	"github.com/hopbench/hopbench/internal/result"
)

// That a run was stopped before its end stands once, above the verdicts, and so do full
// CPUs.
func TestWhatStandsAboveTheVerdicts(t *testing.T) {
	for says, note := range map[string]result.Note{
		"Interim: the run has 4 of":                        {Code: result.NoteInterim, Count: 4, Of: 10},
		"The comparison was stopped after 4 of":            {Code: result.NoteCutShort, Count: 4, Of: 10},
		"Traces of directly peered and one appliance show": {Code: result.NoteSameHops, Path: "one-appliance", Baseline: "direct"},
		"The CPUs of an end were full in 7 of 40 trials":   {Code: result.NoteFullCPUs, Count: 7, Of: 40},
		"run.sqlite is damaged: 2 trials are missing":      {Code: result.NoteDamaged, Count: 2},
		"In some trials a hypervisor took up to":           {Code: result.NoteFullCPUs, Of: 40, Stolen: 0.2},
	} {
		standsAbove(t, says, note)
	}
}

func standsAbove(t *testing.T, says string, note result.Note) {
	t.Helper()
	r := reporttest.Run(t, 10)
	r.Notes = append(r.Notes, note)
	for what, shown := range map[string]string{
		"html": string(htmlText(t, r)), "markdown": string(written(t, markdown.Write, r)), "terminal": string(terminalText(t, r, terminal.Options{Width: 400, Verbose: true})),
	} {
		at, verdict := strings.Index(shown, says), strings.Index(shown, "2.243")
		if at < 0 || verdict < at || strings.Count(shown, says) != 1 {
			t.Errorf("%s has it at %d, the first verdict at %d:\n%s", what, at, verdict, shown[:min(len(shown), 3000)])
		}
	}
}
