package runner

import (
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
)

// The first trial that passed sets what the others are compared with.
func TestInstrumentsAreTheFirstTrials(t *testing.T) {
	i := instruments{}
	for _, trial := range []struct {
		test, method string
		passed       bool
	}{{"bulk", "odd", false}, {"bulk", "splice", true}, {"bulk", "copy", true}, {"rr", "copy", true}} {
		i.learn(measurement.Trial{
			Test: trial.test, Gate: measurement.Gate{Passed: trial.passed},
			Outcome: measurement.Outcome{Effective: map[string]string{"send_method": trial.method}},
		})
	}
	if got := i["bulk"]["send_method"]; got != "splice" {
		t.Errorf("bulk is compared with %q, want splice", got)
	}
	if got := i["rr"]["send_method"]; got != "copy" {
		t.Errorf("rr is compared with %q, want copy", got)
	}
}
