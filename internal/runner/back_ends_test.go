package runner_test

import (
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/testutil"
)

const balanced = `format: hopbench.experiment/1
name: balanced
endpoints: [{name: source}, {name: destination, egress_rate: 100Mbit}]
source: source
destination: destination
baseline: one
blocks: 1
paths:
  - {name: one, hops: [{type: router, name: box}]}
  - {name: balanced, hops: [{type: loadbalancer, name: lb, backends: 3}]}
tests:
  - {name: back, kind: tcp, flows: 12, direction: receive, duration: 1s, max_warmup: 100ms}
`

// Each back end of a load balancer sends as much as a destination may: all of them are not
// at the cap of one.
func TestTheEgressOfBackEnds(t *testing.T) {
	head := store.Head{Experiment: balanced, File: "balanced.yaml", Seed: 3, Testbed: result.Testbed{Kind: result.TestbedLab}}
	_, plan, err := runner.Prepare(head)
	testutil.OK(t, err)
	for rate, want := range map[float64]map[string]result.Cause{
		96e6:  {"one": result.CauseDestinationCap, "balanced": result.CauseUnknown},
		290e6: {"balanced": result.CauseDestinationCap},
	} {
		var trials []measurement.Trial
		for _, p := range plan.Trials {
			trial := passed(p)
			trial.Metrics = measurement.Metrics{"goodput_bits_per_second": rate}
			end := measurement.TCPInfo{At: 1.1, Busy: 1.1, MSS: 1448}
			trial.Flows = []measurement.Flow{{Info: []measurement.TCPInfo{{At: 0.1, Busy: 0.1, MSS: 1448}, end}, Final: &end}}
			trials = append(trials, trial)
		}
		r, err := runner.Result(head, trials)
		testutil.OK(t, err)
		for _, a := range r.Attributions {
			if cause, ok := want[a.Path]; ok && a.Shares[cause] < 0.99 {
				t.Errorf("%v bit/s on path %s: %v, want %s", rate, a.Path, a.Shares, cause)
			}
			if most := map[string]float64{"one": 100e6, "balanced": 300e6}[a.Path]; a.DestinationEgressBitsPerSecond != most {
				t.Errorf("what sends on path %s may send %v bit/s, want %v", a.Path, a.DestinationEgressBitsPerSecond, most)
			}
		}
	}
}
