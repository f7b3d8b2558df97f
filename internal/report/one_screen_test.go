package report

import (
	"fmt"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// The trials that do not count are all accounted for, however many reasons there are.
func TestReasonsOfExcludedTrials(t *testing.T) {
	for want, reasons := range map[string][]string{
		"":                         nil,
		"2 of 7 trials: no memory": {"no memory", "no memory: 1 GB"},
		"3 of 7 trials: 2 × no memory; 1 × vanished":                      {"vanished", "no memory", "no memory"},
		"6 of 7 trials: 3 × no memory; 1 × vanished; 2 for other reasons": {"vanished", "timeout", "refused", "no memory", "no memory", "no memory"},
	} {
		r := &result.Result{}
		for i := range 7 {
			trial := measurement.Trial{ID: fmt.Sprint(i), Gate: measurement.Gate{Passed: i >= len(reasons)}}
			if i < len(reasons) {
				trial.Gate.Findings = []measurement.Finding{{Code: measurement.FoundText, Fatal: true, Text: reasons[i]}}
			}
			r.Trials = append(r.Trials, trial)
		}
		if got := New(r).excludedText(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
