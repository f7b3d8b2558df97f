package runner_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/gate"
	"github.com/hopbench/hopbench/internal/lab"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/testbed"
	testbedlab "github.com/hopbench/hopbench/internal/testbed/lab"
	"github.com/hopbench/hopbench/internal/testutil"
	"github.com/hopbench/hopbench/internal/trial"
	"github.com/hopbench/hopbench/internal/words"
)

// sharedRate is what all pairs share on the path "through".
const sharedRate = 50e6

const threePairs = `format: hopbench.experiment/1
name: three-pairs
endpoints:
  - {name: client}
  - {name: server}
source: client
destination: server
pairs: 3
baseline: plain
blocks: 1
paths:
  - name: plain
    hops: [{type: router, name: node}]
  - name: through
    hops: [{type: firewall, name: node, rate: 50Mbit, delay: 1ms}]
tests:
  - {name: flows, kind: tcp, flows: 4, duration: 600ms, max_warmup: 400ms}
  - {name: latency, kind: rr, duration: 100ms}
`

// pairsLab builds the lab of an experiment's text, or skips.
func pairsLab(t *testing.T, text string) (*experiment.Experiment, *testbedlab.Lab) {
	t.Helper()
	probe, err := lab.Start(t.Context(), lab.Topology{Nodes: []lab.Node{{Name: "a"}}}, lab.Options{})
	if err != nil {
		testutil.Need(t, false, fmt.Sprintf("a machine on which labs can be made: %v", err))
	}
	testutil.OK(t, probe.Close())
	e, err := experiment.Load("pairs.yaml", []byte(text))
	testutil.OK(t, err)
	l, err := testbedlab.New(t.Context(), e)
	testutil.OK(t, err)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return e, l
}

func plannedTrial(t *testing.T, e *experiment.Experiment, path, test string) trial.Wanted {
	t.Helper()
	for _, p := range e.Scaled().Plan(1).Trials {
		if p.Path == path && p.Test == test {
			return trial.Wanted{ID: p.ID, Path: p.Path, Spec: p.Spec}
		}
	}
	t.Fatalf("no trial of %s on %s is planned", test, path)
	return trial.Wanted{}
}

// Three pairs share a hop: each is counted, all start together, and together
// they get no more than the hop lets through.
func TestPairsShareAHop(t *testing.T) {
	e, l := pairsLab(t, threePairs)
	wanted := plannedTrial(t, e, "through", "flows")
	var signs int
	o, f, err := trial.Measure(t.Context(), l, wanted, func(measurement.Progress) { signs++ })
	testutil.OK(t, err)
	if !f.Matches {
		t.Errorf("fingerprint: %+v", f.Why)
	}
	if len(o.Pairs) != 3 || len(o.Flows) != 12 || signs == 0 {
		t.Fatalf("%d pairs, %d flows, %d signs of life", len(o.Pairs), len(o.Flows), signs)
	}
	sum := 0.0
	for i, p := range o.Pairs {
		if p.Source != fmt.Sprintf("client-%d", i+1) || p.Destination != fmt.Sprintf("server-%d", i+1) || p.Error != "" {
			t.Errorf("pair %d is %+v", i+1, p)
		}
		if p.Metrics["goodput_bits_per_second"] <= 0 || p.Throughput == nil || len(p.RTT) == 0 || p.Delay < 0 {
			t.Errorf("%s brought %v, %d round-trip times", p.Source, p.Metrics, len(p.RTT))
		}
		for _, s := range p.RTT {
			if s.RTT < 0.002 { // twice the hop's delay
				t.Errorf("%s: a round trip of %v s at %v s is shorter than the path", p.Source, s.RTT, s.At)
			}
		}
		sum += p.Metrics["goodput_bits_per_second"]
	}
	goodput := o.Metrics["goodput_bits_per_second"]
	if math.Abs(sum-goodput) > 1e-6*goodput {
		t.Errorf("the pairs' goodputs add up to %g, the trial says %g", sum, goodput)
	}
	// From the very start, because a host that comes late counts in one part of
	// the time what arrived in another.
	total := 0.0
	for _, n := range o.Throughput.Bytes {
		total += n
	}
	const burst = 131_584 // bytes that the token bucket lets through at once
	seconds := float64(o.Throughput.Width) * float64(len(o.Throughput.Bytes))
	if most := sharedRate/8*seconds*1.05 + burst; total > most {
		t.Errorf("%g bytes came in %g s through a hop of %g bit/s, at most %g can", total, seconds, float64(sharedRate), most)
	}
	// What else a busy machine may fail is not of the pairs.
	for _, c := range gate.Judge(wanted.Spec, o, f, gate.Limits{Pairs: 3, BusyWarns: true}, nil).Findings {
		if c.Name == "pairs" || c.Name == "flows" || c.Name == "duration" || c.Name == "test" {
			t.Errorf("gate: %+v", c)
		}
	}

	wanted = plannedTrial(t, e, "plain", "latency")
	if o, f, err = trial.Measure(t.Context(), l, wanted, nil); err != nil || !f.Matches {
		t.Fatalf("latency: %v, %+v", err, f.Why)
	}
	if o.Latency == nil || len(o.Pairs) != 3 {
		t.Fatalf("latency of %d pairs: %v", len(o.Pairs), o.Latency)
	}
	var transactions float64
	for _, p := range o.Pairs {
		transactions += p.Metrics["transactions_per_second"]
	}
	if got := o.Metrics["transactions_per_second"]; math.Abs(got-transactions) > 1e-6*got {
		t.Errorf("%g transactions/s, the pairs' add up to %g", got, transactions)
	}
}

// agentOf finds the process of a node's agent among this process's descendants.
func agentOf(t *testing.T, node string) int {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	testutil.OK(t, err)
	parents := map[int]int{}
	var candidates []int
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		testutil.OK(t, err)
		if stat, err := os.ReadFile(dir + "/stat"); err == nil {
			_, rest, _ := strings.Cut(string(stat), ") ")
			var state string
			var parent int
			if _, err := fmt.Sscan(rest, &state, &parent); err == nil {
				parents[pid] = parent
			}
		}
		if line, err := os.ReadFile(dir + "/cmdline"); err == nil && strings.HasPrefix(string(line), "hopbench:"+node+"\x00") {
			candidates = append(candidates, pid)
		}
	}
	for _, pid := range candidates {
		for at := pid; at > 1; at = parents[at] {
			if at == os.Getpid() {
				return pid
			}
		}
	}
	t.Fatalf("no agent of %s among %v", node, candidates)
	return 0
}

// An agent that is killed in the middle fails its trial by name, and the next
// trial works on a lab built anew.
func TestKilledAgentOfAPair(t *testing.T) {
	t.Parallel() // it waits for most of its time
	text := strings.Replace(threePairs, "duration: 600ms", "duration: 2s", 1)
	e, l := pairsLab(t, text)
	head := store.Head{Experiment: text, File: "pairs.yaml", Seed: 1}
	st, err := store.Create(t.TempDir(), head)
	testutil.OK(t, err)
	defer st.Close()
	var plan experiment.Plan
	for i, path := range []string{"plain", "through"} {
		w := plannedTrial(t, e, path, "flows")
		plan.Trials = append(plan.Trials, experiment.PlannedTrial{ID: w.ID, Order: i + 1, Path: path, Test: "flows", Spec: w.Spec})
	}
	killed := false
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = runner.Run(ctx, runner.Options{
		Planner: runner.Fixed(plan), Testbed: l, Keeper: st,
		Build: func(ctx context.Context) (testbed.Testbed, error) { return testbedlab.New(ctx, e) },
		OnEvent: func(event runner.Event) {
			if event.Live != nil && !killed {
				killed = true
				if err := syscall.Kill(agentOf(t, "client-2"), syscall.SIGKILL); err != nil {
					t.Error(err)
				}
			}
		},
	})
	testutil.OK(t, err)
	trials, err := st.Trials(ctx)
	if err != nil || len(trials) != 2 {
		t.Fatalf("%d trials, %v", len(trials), err)
	}
	reasons := words.Findings(trials[0].Gate, false)
	if trials[0].Gate.Passed || !strings.Contains(reasons, "client-2 was killed") || !strings.Contains(reasons, "of 3 pairs brought back a result") {
		t.Errorf("the trial in which client-2 was killed: %+v", trials[0].Gate)
	}
	if p := trials[0].Pairs; len(p) != 3 || p[1].Error == "" {
		t.Errorf("the pairs of the broken trial: %+v", p)
	}
	if p := trials[1].Pairs; len(p) != 3 || p[0].Error+p[1].Error+p[2].Error != "" || trials[1].Metrics["goodput_bits_per_second"] <= 0 {
		t.Errorf("the next trial: %+v, %d pairs", trials[1].Gate, len(p))
	}
}

const pairsInTunnels = `format: hopbench.experiment/1
name: pairs-in-tunnels
endpoints:
  - {name: client}
  - {name: server}
source: client
destination: server
pairs: 3
baseline: native
blocks: 1
paths:
  - name: native
    hops: [{type: router, name: node}]
  - name: inside
    tunnel: {type: vxlan}
    hops: [{type: firewall, name: fw, instances: 2}, {type: router, name: node}]
  - name: short
    variant_of: inside
    bypass: [fw]
tests:
  - {name: flows, kind: tcp, flows: 4, duration: 600ms, max_warmup: 400ms}
`

// Every pair is proved inside and outside of its own tunnel, whichever instance
// its trace sees, and the outer flows of all are counted.
func TestPairsInTunnels(t *testing.T) {
	t.Parallel() // it waits for most of its time
	e, l := pairsLab(t, pairsInTunnels)
	for path, hops := range map[string]int{"inside": 5, "short": 4} {
		if _, err := l.Switch(t.Context(), path); err != nil {
			t.Fatal(err)
		}
		o, f, err := trial.Measure(t.Context(), l, plannedTrial(t, e, path, "flows"), nil)
		testutil.OK(t, err)
		if !f.Matches || len(f.Hops) != 1 || len(f.OuterHops) != hops || f.PathMTU != 1450 {
			t.Errorf("%s: %d hops outside, a path MTU of %d, %+v", path, len(f.OuterHops), f.PathMTU, f.Why)
		}
		if n, err := strconv.Atoi(o.Effective["outer_flows_count"]); err != nil || n < 3 || len(o.Pairs) != 3 {
			t.Errorf("%s: %q outer flows of %d pairs", path, o.Effective["outer_flows_count"], len(o.Pairs))
		}
		for _, p := range o.Pairs {
			if p.Error != "" || p.Metrics["goodput_bits_per_second"] <= 0 {
				t.Errorf("%s: %s brought %v, %s", path, p.Source, p.Metrics, p.Error)
			}
		}
	}
}
