package runner_test

import (
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/testutil"
)

const fleet = `format: hopbench.experiment/1
name: fleet
endpoints: [{name: client, egress_rate: 5Mbit}, {name: server}]
source: client
destination: server
pairs: 2
baseline: one
blocks: 1
paths: [{name: one}, {name: other}]
tests: [{name: bulk, kind: tcp, duration: 1s, max_warmup: 100ms}]
`

// Each machine of a fleet may send what the testbed file says: all clients that do are at
// their cap, and no hop of the path limits them.
func TestTheEgressOfAFleet(t *testing.T) {
	head := store.Head{
		Experiment: fleet, File: "fleet.yaml", Seed: 3, TestbedFile: &store.File{Name: "office.yaml"},
		Testbed: result.Testbed{Kind: result.TestbedFleet, Endpoints: []result.TestbedEndpoint{
			{Name: "a", EgressBitsPerSecond: 1e9}, {Name: "b", EgressBitsPerSecond: 1e9}, {Name: "c", EgressBitsPerSecond: 2e9}, {Name: "d", EgressBitsPerSecond: 2e9},
		}},
	}
	_, plan, err := runner.Prepare(head)
	testutil.OK(t, err)
	for rate, want := range map[float64]result.Cause{1.93e9: result.CauseSourceCap, 1e9: result.CauseUnknown} {
		var trials []measurement.Trial
		for _, p := range plan.Trials {
			trial := passed(p)
			trial.Metrics, trial.Pairs = measurement.Metrics{"goodput_bits_per_second": rate}, make([]measurement.Pair, 2)
			end := measurement.TCPInfo{At: 1.1, Busy: 1.1, MSS: 1448}
			flow := measurement.Flow{Info: []measurement.TCPInfo{{At: 0.1, Busy: 0.1, MSS: 1448}, end}, Final: &end}
			trial.Flows = []measurement.Flow{flow, flow}
			trials = append(trials, trial)
		}
		r, err := runner.Result(head, trials)
		testutil.OK(t, err)
		for _, a := range r.Attributions {
			if a.Shares[want] < 0.99 || a.SourceEgressBitsPerSecond != 2e9 || a.DestinationEgressBitsPerSecond != 4e9 {
				t.Errorf("%v bit/s: %v, want %s; the sources may send %v, the destinations %v", rate, a.Shares, want, a.SourceEgressBitsPerSecond, a.DestinationEgressBitsPerSecond)
			}
		}
	}
}
