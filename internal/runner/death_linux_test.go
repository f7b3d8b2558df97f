package runner_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/testbed"
	testbedlab "github.com/hopbench/hopbench/internal/testbed/lab"
	"github.com/hopbench/hopbench/internal/testbed/labtest"
	"github.com/hopbench/hopbench/internal/testutil"
	"github.com/hopbench/hopbench/internal/words"
)

const mortal = `format: hopbench.experiment/1
name: mortal
endpoints: [{name: a}, {name: b}]
source: a
destination: b
baseline: direct
blocks: 2
paths:
  - {name: direct, hops: [{type: link, name: wire, delay: 100us}]}
  - {name: hopped, hops: [{type: router, name: mortal-hop, rate: 100Mbit}]}
tests:
  - {name: latency, kind: rr, duration: 300ms, max_warmup: 10ms}
`

// The process of a hop's link dies on a real wire: whoever has its turn then, the
// failure is that of a trial of the hop's path, and no trial of the other one.
func TestDeathOfAHopsLink(t *testing.T) {
	for _, during := range []string{"direct", "hopped", "after direct"} {
		t.Run(during, func(t *testing.T) {
			e, err := experiment.Load("mortal.yaml", []byte(mortal))
			testutil.OK(t, err)
			plan := e.Plan(1)
			keeper := &runner.Memory{}
			var once sync.Once
			kill := func() {
				once.Do(func() {
					if err := labtest.Kill(`^hopbench-lab-link .*hopped/mortal-hop`); err != nil {
						t.Error(err)
					}
				})
			}
			testutil.OK(t, runner.Run(t.Context(), runner.Options{
				Planner: runner.Fixed(plan), Testbed: newLab(t, e), Keeper: keeper,
				Build: func(ctx context.Context) (testbed.Testbed, error) { return testbedlab.New(ctx, e) },
				OnEvent: func(event runner.Event) {
					path, after := strings.CutPrefix(during, "after ")
					if event.Trial.Path == path && (after && event.Finished != nil || !after && event.Live != nil) {
						kill()
					}
				},
			}))
			var broken []measurement.Trial
			for _, trial := range keeper.Kept {
				if trial.Gate.Broken {
					broken = append(broken, trial)
				} else if !trial.Gate.Passed {
					t.Logf("trial %s is missing on a machine this busy: %s", trial.ID, words.Findings(trial.Gate, true))
				}
				if says := words.Findings(trial.Gate, true); trial.Path == "direct" && strings.Contains(says, "died") {
					t.Errorf("trial %s: %s", trial.ID, says)
				}
			}
			if len(keeper.Kept) != len(plan.Trials) || len(broken) != 1 || broken[0].Path != "hopped" ||
				!strings.Contains(words.Findings(broken[0].Gate, true), "hop mortal-hop of path hopped died") {
				t.Errorf("of %d trials, planned were %d, these are broken: %+v", len(keeper.Kept), len(plan.Trials), broken)
			}
		})
	}
}
