package runner

import "github.com/hopbench/hopbench/internal/measurement"

// instruments are how the first trial of each test that passed was measured.
type instruments map[string]map[string]string

// learn takes note of a trial.
func (i instruments) learn(t measurement.Trial) {
	if i[t.Test] == nil && t.Gate.Passed {
		i[t.Test] = t.Effective
	}
}
