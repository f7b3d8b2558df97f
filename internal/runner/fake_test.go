package runner_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/hopbench/hopbench/internal/agent"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/store"
	"github.com/hopbench/hopbench/internal/testbed"
	"github.com/hopbench/hopbench/internal/testutil"
)

// loopback is a testbed of two agents in this process, all of whose paths are
// the loopback interface: all that a new testbed has to say.
type loopback struct {
	paths  []testbed.Path
	agents map[string]*agent.Client
}

func newLoopback(t *testing.T, paths ...string) *loopback {
	t.Helper()
	bed := &loopback{agents: map[string]*agent.Client{}}
	for _, end := range []string{"source", "destination"} {
		near, far := net.Pipe()
		served := make(chan error, 1)
		go func() { served <- agent.Serve(context.Background(), far, agent.Options{}) }()
		bed.agents[end] = agent.NewClient(near)
		t.Cleanup(func() {
			if err := errors.Join(bed.agents[end].Close(), <-served); err != nil {
				t.Error(err)
			}
		})
	}
	port, err := testutil.FreePort()
	testutil.OK(t, err)
	at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)
	_, err = bed.agents["destination"].Listen(t.Context(), at, agent.Serving{Token: "secret"})
	testutil.OK(t, err)
	for _, name := range paths {
		bed.paths = append(bed.paths, testbed.Path{Name: name, Pairs: []testbed.Pair{{
			Source: "source", Destination: "destination", Request: probe.Request{Target: at, Token: "secret"},
			Expect: testbed.Expectation{Hops: [][]netip.Addr{{at.Addr()}}, ReceivedTTL: 64, ReturnedTTL: 64},
		}}})
	}
	return bed
}

func (b *loopback) Info() result.Testbed {
	return result.Testbed{Kind: "fake", Relative: true}
}
func (b *loopback) Environment() map[string]string { return nil }
func (b *loopback) Facts() []string                { return nil }
func (b *loopback) Paths() []testbed.Path          { return b.paths }
func (b *loopback) Done() <-chan struct{}          { return nil }
func (b *loopback) Err() error                     { return nil }
func (b *loopback) Close() error                   { return nil }

func (b *loopback) Agent(end string) (testbed.Agent, error) { return b.agents[end], nil }

const twoPaths = `format: hopbench.experiment/1
name: two-paths
endpoints: [{name: source}, {name: destination}]
source: source
destination: destination
baseline: one
blocks: 2
paths:
  - {name: one, hops: [{type: link}]}
  - {name: other, hops: [{type: link}]}
tests:
  - {name: latency, kind: rr, duration: 100ms, max_warmup: 10ms}
  - {name: flows, kind: tcp, flows: 2, duration: 200ms, max_warmup: 50ms}
`

// An experiment is run, kept, analysed and compared on a testbed that nothing
// but this file knows.
func TestRunOnANewTestbed(t *testing.T) {
	head := store.Head{Experiment: twoPaths, File: "two-paths.yaml", Seed: 3}
	_, plan, st := prepared(t, head)
	bed := newLoopback(t, "one", "other")
	head.Testbed = bed.Info()
	trials := finished(t, plan, bed, st)
	for _, trial := range trials {
		if f := trial.Fingerprint; !f.Matches || f.Learned || len(f.Hops) != 1 || !f.Hops[0].Reached {
			t.Errorf("trial %s: fingerprint %+v", trial.ID, f)
		}
		for _, c := range trial.Gate.Findings {
			if c.Name == "test" {
				t.Errorf("trial %s: %+v", trial.ID, c)
			}
		}
	}
	for _, end := range []measurement.End{trials[0].Source, trials[0].Destination} {
		if env := end.Environment; env["cpus"] == "" || env["hopbench"] == "" {
			t.Errorf("an end is said to be %v", env)
		}
	}
	result, err := runner.Result(head, trials)
	testutil.OK(t, err)
	if !result.Complete || len(trials) != 8 || result.Testbed.Kind != "fake" {
		t.Errorf("%d trials, complete %v, testbed %+v", len(trials), result.Complete, result.Testbed)
	}
	if len(result.Costs) == 0 || len(result.Attributions) == 0 {
		t.Errorf("%d costs, %d attributions", len(result.Costs), len(result.Attributions))
	}
}

// What is not where the testbed says is not the path.
func TestANewTestbedThatIsWrong(t *testing.T) {
	head := store.Head{Experiment: twoPaths, File: "two-paths.yaml", Seed: 3, Blocks: 1}
	_, plan, err := runner.Prepare(head)
	testutil.OK(t, err)
	bed := newLoopback(t, "one", "other")
	bed.paths[1].Pairs[0].Expect.Hops = [][]netip.Addr{{netip.MustParseAddr("192.0.2.1")}, {netip.MustParseAddr("127.0.0.1")}}
	keeper := &runner.Memory{}
	testutil.OK(t, runner.Run(t.Context(), runner.Options{Planner: runner.Fixed(plan), Testbed: bed, Keeper: keeper}))
	for _, trial := range keeper.Kept {
		if trial.Fingerprint.Matches != (trial.Path == "one") || trial.Path == "other" && trial.Gate.Passed {
			t.Errorf("trial %s: %+v, gate %+v", trial.ID, trial.Fingerprint, trial.Gate)
		}
	}
}
