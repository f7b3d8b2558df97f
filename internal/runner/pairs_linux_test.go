package runner_test

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/gate"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/testbed"
	testbedlab "github.com/hopbench/hopbench/internal/testbed/lab"
	"github.com/hopbench/hopbench/internal/testbed/labtest"
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
  - {name: both, kind: tcp, flows: 2, direction: both, duration: 300ms, max_warmup: 200ms}
  - {name: ramp, kind: tcp, flows: 2, ramp: 400ms, duration: 300ms, max_warmup: 300ms}
  - {name: ramp-latency, kind: rr, waves: 3, wave_every: 100ms, duration: 100ms, max_warmup: 50ms}
`

// pairsLab builds the lab of an experiment's text, or skips.
func pairsLab(t *testing.T, text string) (*experiment.Experiment, *testbedlab.Lab) {
	t.Helper()
	e, err := experiment.Load("pairs.yaml", []byte(text))
	testutil.OK(t, err)
	return e, newLab(t, e)
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

// Pairs that start one after the other are measured when all have started, whatever the
// machine makes of the moments.
func TestPairsStartByARamp(t *testing.T) {
	e, l := pairsLab(t, threePairs)
	for test, planned := range map[string][]measurement.Seconds{"ramp": {0, 0.2, 0.4}, "ramp-latency": {0, 0.1, 0.2}} {
		wanted := plannedTrial(t, e, "through", test)
		o, f, err := trial.Measure(t.Context(), l, wanted, nil)
		if err != nil || !f.Matches || len(o.Pairs) != 3 {
			t.Fatalf("%s: %v, %+v, %d pairs", test, err, f.Why, len(o.Pairs))
		}
		for k, p := range o.Pairs {
			if p.Error != "" || math.Abs(float64(p.PlannedDelay-planned[k])) > 1e-9 {
				t.Errorf("%s: pair %d was to start after %v s, want %v: %s", test, k+1, p.PlannedDelay, planned[k], p.Error)
			}
			if p.Delay > o.Warmup+0.01 { // a bin
				t.Errorf("%s: pair %d started after %v s, and what is measured begins at %v s", test, k+1, p.Delay, o.Warmup)
			}
		}
		if test == "ramp" && o.Metrics["goodput_bits_per_second"] <= 0 || test != "ramp" && o.Latency == nil {
			t.Errorf("%s brought %v", test, o.Metrics)
		}
	}
}

// Three pairs send both ways at once through a hop: each way is counted, of each pair and of
// all together, and gets no more than the hop lets through.
func TestPairsSendBothWays(t *testing.T) {
	e, l := pairsLab(t, threePairs)
	wanted := plannedTrial(t, e, "through", "both")
	o, f, err := trial.Measure(t.Context(), l, wanted, nil)
	if err != nil || !f.Matches || len(o.Pairs) != 3 || len(o.Flows) != 3*2*2 {
		t.Fatalf("%v, %+v, %d pairs, %d flows", err, f.Why, len(o.Pairs), len(o.Flows))
	}
	ways := []string{"goodput_bits_per_second", "forward_goodput_bits_per_second", "reverse_goodput_bits_per_second"}
	var sums [3]float64
	for k, p := range o.Pairs {
		for n, name := range ways {
			v := p.Metrics[name]
			if sums[n] += v; v <= 0 {
				t.Errorf("pair %d has a %s of %v", k+1, name, v)
			}
		}
		if both := p.Metrics[ways[1]] + p.Metrics[ways[2]]; math.Abs(both-p.Metrics[ways[0]]) > 1e-6*both {
			t.Errorf("pair %d: %v are more or less than both ways", k+1, p.Metrics)
		}
	}
	for n, name := range ways {
		if got := o.Metrics[name]; math.Abs(got-sums[n]) > 1e-6*got {
			t.Errorf("%s is %v, the pairs' add up to %v", name, got, sums[n])
		}
	}
	reverse := 0
	for _, flow := range o.Flows {
		if flow.Reverse {
			reverse++
		}
	}
	if reverse != len(o.Flows)/2 {
		t.Errorf("%d of %d flows go back", reverse, len(o.Flows))
	}
	for _, c := range gate.Judge(wanted.Spec, o, f, gate.Limits{Pairs: 3, BusyWarns: true}, nil).Findings {
		if c.Name == "pairs" || c.Name == "flows" || c.Name == "duration" || c.Name == "test" {
			t.Errorf("gate: %+v", c)
		}
	}
}

// An agent that is killed in the middle leaves a hole, and the other pairs measure on. The
// trial is done again on a lab built anew, unless it may have that hole.
func TestKilledAgentOfAPair(t *testing.T) {
	t.Parallel() // it waits for most of its time
	// Nodes of other tests' labs, which are there at the same time, have other names.
	text := strings.NewReplacer("duration: 600ms", "duration: 2s", "client", "mortal", "server", "host").Replace(threePairs)
	e, l := pairsLab(t, text)
	head := store.Head{Experiment: text, File: "pairs.yaml", Seed: 1}
	st, err := store.Create(t.TempDir(), head)
	testutil.OK(t, err)
	defer st.Close()
	var plan experiment.Plan
	for i, path := range []string{"plain", "through"} {
		w := plannedTrial(t, e, path, "flows")
		w.Spec.MissingPairs = i
		w.Spec.PacingBitsPerSecond = 20e6
		w.Spec.SendMethod = measurement.SendCopy // so that no lack of pipes has trials done again, too
		plan.Trials = append(plan.Trials, experiment.PlannedTrial{ID: w.ID, Block: 1, Order: i + 1, Path: path, Test: "flows", Spec: w.Spec})
	}
	victims := map[string]string{"plain": "mortal-2", "through": "host-3"}
	var again []measurement.Trial
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = runner.Run(ctx, runner.Options{
		Planner: runner.Fixed(plan), Testbed: l, Keeper: st,
		Build: func(ctx context.Context) (testbed.Testbed, error) { return testbedlab.New(ctx, e) },
		SetAside: func(ctx context.Context, r runner.Repeated) error {
			again = append(again, *r.NoResult)
			return st.SetAside(ctx, r.IDs, head)
		},
		OnEvent: func(event runner.Event) {
			if victim := victims[event.Trial.Path]; event.Live != nil && victim != "" {
				delete(victims, event.Trial.Path)
				if err := labtest.Kill("^hopbench:" + victim + " "); err != nil {
					t.Error(err)
				}
			}
		},
	})
	testutil.OK(t, err)
	trials, err := st.Trials(ctx)
	if err != nil || len(trials) != 2 || len(again) != 1 || again[0].Path != "plain" {
		t.Fatalf("%d trials, %d set aside, %v", len(trials), len(again), err)
	}
	// brought says which pairs brought what they carried, by their numbers.
	brought := func(trial measurement.Trial) (pairs string) {
		for k, p := range trial.Pairs {
			if p.Error == "" && p.Metrics["goodput_bits_per_second"] > 0 {
				pairs += strconv.Itoa(k + 1)
			}
		}
		return pairs
	}
	for _, c := range []struct {
		trial   measurement.Trial
		attempt int
		brought string
		fatal   bool
		says    string
	}{
		{again[0], 0, "13", true, "mortal-2 was killed"},
		{trials[0], 2, "123", false, ""},
		{trials[1], 0, "12", false, "host-3 was killed"},
	} {
		if c.trial.Attempt != c.attempt || brought(c.trial) != c.brought {
			t.Errorf("%s, attempt %d: pairs %s brought a result, want %s of attempt %d", c.trial.ID, c.trial.Attempt, brought(c.trial), c.brought, c.attempt)
		}
		var lacks measurement.Finding
		for _, f := range c.trial.Gate.Findings {
			if f.Name == "pairs" && f.Code != measurement.FoundPairsWithoutRTT {
				lacks = f
			}
		}
		if reasons := words.Findings(c.trial.Gate, false) + words.Findings(c.trial.Gate, true); lacks.Fatal != c.fatal || lacks.PathFailure || !strings.Contains(reasons, c.says) {
			t.Errorf("%s: %+v: %s", c.trial.ID, lacks, reasons)
		}
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
