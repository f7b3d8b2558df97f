package runner_test

import (
	"context"
	"slices"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/testutil"
)

// All trials of a test are sent in one way, whenever a sender has to copy, and though it
// need not any more later: none is missing for that.
func TestOneInstrumentWherePipesRunOut(t *testing.T) {
	for _, c := range []struct {
		name string
		// send is how the tcp trial number n over all is sent, if nobody asked for copies.
		send  func(n int) string
		again bool
	}{
		{"from the middle on", func(n int) string { return map[bool]string{false: "splice", true: "copy"}[n >= 5] }, true},
		{"for a while", func(n int) string { return map[bool]string{false: "splice", true: "copy"}[n == 4 || n == 5] }, true},
		{"at first", func(n int) string { return map[bool]string{false: "splice", true: "copy"}[n < 7] }, false},
		{"for some flows of the first", func(n int) string { return map[bool]string{false: "copy", true: "splice, copy"}[n == 0] }, true},
		{"never", func(int) string { return "splice" }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan, st := setUp(t)
			n := -1
			bed := &bench{plan: plan, send: func(r probe.Request) string {
				if r.Spec.Kind != measurement.TCP {
					return ""
				}
				n++
				if r.Spec.SendMethod == measurement.SendCopy {
					return "copy"
				}
				return c.send(n)
			}}
			head, err := st.Head()
			testutil.OK(t, err)
			asked := map[string]int{}
			options := runner.Options{Planner: runner.Fixed(plan), Testbed: bed, Keeper: st}
			options.SetAside = func(ctx context.Context, again runner.Repeated) error {
				asked[again.Copied]++
				return st.SetAside(ctx, again.IDs, head)
			}
			testutil.OK(t, runner.Run(t.Context(), options))
			trials, err := st.Trials(t.Context())
			testutil.OK(t, err)
			if got := ids(trials); !slices.Equal(got, planned(plan)) {
				t.Errorf("trials %v, want the plan", got)
			}
			methods, said := map[string]string{}, map[string]bool{}
			for _, trial := range trials {
				said[trial.Path] = said[trial.Path] || trial.Source.Environment != nil
				for _, f := range trial.Gate.Findings {
					if f.Code == measurement.FoundOtherInstrument {
						t.Errorf("trial %s: %+v", trial.ID, f)
					}
				}
				method := trial.Effective["send_method"]
				if methods[trial.Test] == "" {
					methods[trial.Test] = method
				}
				if methods[trial.Test] != method {
					t.Errorf("trial %s is sent by %q, others of %s by %q", trial.ID, method, trial.Test, methods[trial.Test])
				}
			}
			for _, path := range pathNames(plan) {
				if !said[path] {
					t.Errorf("no trial of path %s says what its source is", path)
				}
			}
			for test, times := range asked {
				if times != 1 {
					t.Errorf("%s was done again %d times", test, times)
				}
			}
			if (len(asked) > 0) != c.again {
				t.Errorf("done again: %v, want %v", asked, c.again)
			}
		})
	}
}
