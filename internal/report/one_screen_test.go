package report

import (
	"fmt"
	"strings"
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

// What failed is not all of a reason: "connect to 10.0.0.1:5201" does not say why.
func TestReasonsOfFailedTests(t *testing.T) {
	failed := func(failure, text string) measurement.Finding {
		return measurement.Finding{Code: measurement.FoundTestFailed, Fatal: true, Failure: failure, Text: text}
	}
	for want, findings := range map[string][]measurement.Finding{
		"1 of 1 trial: connect to 10.0.0.1:5201: refused": {failed("refused", "connect to 10.0.0.1:5201: refused: dial tcp 10.0.0.1:5201: connect: connection refused")},
		"2 of 2 trials: a flow: vanished":                 {failed("vanished", "flow 1 of 8: vanished: broken pipe"), failed("vanished", "flow 3 of 8: vanished: EOF")},
		"1 of 1 trial: no memory":                         {failed("", "no memory: 1 GB")},
		"1 of 1 trial: under load: no answer came back":   {{Code: measurement.FoundNoAnswers, Fatal: true, Part: "loaded"}},
	} {
		r := &result.Result{}
		for i, f := range findings {
			warning := measurement.Finding{Code: measurement.FoundText, Text: "a warning"}
			r.Trials = append(r.Trials, measurement.Trial{ID: fmt.Sprint(i), Gate: measurement.Gate{Findings: []measurement.Finding{warning, f}}})
		}
		if got := New(r).excludedText(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A run that is compared, and one of an index, tell what the path broke from what is excluded.
func TestBrokenTrialsAreCountedApart(t *testing.T) {
	r := &result.Result{Planned: 4, Trials: []measurement.Trial{{Gate: measurement.Gate{Passed: true}}, {Gate: measurement.Gate{Broken: true}}, {Gate: measurement.Gate{Broken: true}}, {}}}
	for want, of := range map[string][]measurement.Trial{"Excluded or broken": r.Trials, "Excluded": r.Trials[3:], "Broken": r.Trials[:3]} {
		if got := New(&result.Result{Trials: of}).ExcludedName(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	var e result.IndexEntry
	Summarise(&e, r)
	const says = "4 trials, 1 excluded, 2 broken"
	if got := newCard(&e).Status; got != says {
		t.Errorf("the index says %q", got)
	}
	if got := RunLine(result.ComparedRun{Trials: e.Trials, Excluded: e.Excluded, Broken: e.Broken}); !strings.Contains(got, says) {
		t.Errorf("a comparison says %q", got)
	}
}
