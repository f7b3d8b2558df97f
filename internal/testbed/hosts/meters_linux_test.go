package hosts_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/testbed/inventory"
	"github.com/hopbench/hopbench/internal/testutil"
)

// An appliance with an agent tells what passes it. That another source is silent, and that
// the agent dies, costs no trial.
func TestFiguresOfHops(t *testing.T) {
	n := networkOf(t, strings.Replace(yard, "kind: rr, duration: 100ms, max_warmup: 10ms", "kind: tcp, duration: 600ms, max_warmup: 100ms", 1))
	n.inventory.Endpoints = append(n.inventory.Endpoints, inventory.Endpoint{
		Name: "fw-vm", Reach: inventory.Reach{Scheme: inventory.ReachSSH, Host: "routed/fw"},
	})
	n.inventory.Hops = []inventory.Hop{
		{Name: "fw", Agent: &inventory.AgentMeter{Endpoint: "fw-vm", Interface: "to-source"}},
		{Name: "log", CSV: &inventory.CSVMeter{File: filepath.Join(t.TempDir(), "none.csv")}},
	}
	at := slices.IndexFunc(n.inventory.Paths, func(p inventory.Path) bool { return p.Name == "routed" })
	n.inventory.Paths[at].Hops = []string{"fw", "log"}

	bed, err := n.open(t.Context())
	testutil.OK(t, err)
	if facts := strings.Join(bed.Facts(), "\n"); !strings.Contains(facts, "hop log: its figures cannot be read: ") || strings.Contains(facts, "hop fw") {
		t.Errorf("facts %q", facts)
	}
	keeper := &runner.Memory{}
	testutil.OK(t, runner.Run(t.Context(), runner.Options{
		Planner: runner.Fixed(n.e.Plan(1)), Testbed: bed, Keeper: keeper,
		OnEvent: func(e runner.Event) {
			if e.Finished != nil && e.Trial.Block == 1 && e.Done == 3 {
				n.kill("fw-vm")
			}
		},
	}))
	for _, trial := range keeper.Kept {
		facts := strings.Join(trial.Facts, "\n")
		missing := strings.Contains(facts, "the figures of hop fw are missing: ask the agent of fw-vm")
		switch {
		case trial.Path != "routed":
			if len(trial.HopSeries) > 0 || strings.Contains(facts, "figures of hop") {
				t.Errorf("trial %s: %+v, facts %q", trial.ID, trial.HopSeries, facts)
			}
		case !strings.Contains(facts, "the figures of hop log are missing: "):
			t.Errorf("trial %s: facts %q", trial.ID, facts)
		case trial.Block == 2:
			if !missing || len(trial.HopSeries) > 0 {
				t.Errorf("trial %s: %+v, facts %q", trial.ID, trial.HopSeries, facts)
			}
		case missing || len(trial.HopSeries) != 1 || trial.HopSeries[0].Name != "fw":
			t.Errorf("trial %s: %+v, facts %q", trial.ID, trial.HopSeries, facts)
		default:
			checkCounts(t, trial, trial.HopSeries[0])
		}
	}
}

// checkCounts compares what a hop counted with what was received: with the headers it is
// more in the direction of the data, and much less in that of the acknowledgements.
func checkCounts(t *testing.T, trial measurement.Trial, s measurement.HopSeries) {
	t.Helper()
	if s.Samples[0].At > trial.Warmup { // on a machine that is very busy
		t.Logf("trial %s: the first reading came %v s after the start", trial.ID, s.Samples[0].At)
		return
	}
	var received float64
	for _, f := range trial.Flows {
		received += float64(f.ReceivedBytes)
	}
	last := s.Samples[len(s.Samples)-1]
	if last.ForwardBytes < received || received <= 0 || last.BackwardPackets <= 0 || last.BackwardBytes > received/2 || s.Grain != 0 {
		t.Errorf("trial %s: %v bytes were received, and the hop counted %+v", trial.ID, received, s)
	}
}
