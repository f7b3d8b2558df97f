package runner_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/runner"
	"github.com/hopbench/hopbench/internal/testbed"
	"github.com/hopbench/hopbench/internal/testutil"
	"github.com/hopbench/hopbench/internal/words"
)

// gang is a testbed of three pairs, of which each attempt at a trial may lack some.
type gang struct {
	*bench
	lacks func(trial string, attempt, pair int) error
	begun map[string]int
	did   []string
}

// Begin counts the attempts.
func (g *gang) Begin(_ context.Context, trial string) error {
	g.begun[trial]++
	g.did = append(g.did, trial)
	return nil
}

func (g *gang) Paths() []testbed.Path {
	paths := g.bench.Paths()
	for i := range paths {
		paths[i].Pairs = []testbed.Pair{{Source: "c1", Destination: "s1"}, {Source: "c2", Destination: "s2"}, {Source: "c3", Destination: "s3"}}
	}
	return paths
}

func (g *gang) Agent(name string) (testbed.Agent, error) { return member{g, name}, nil }

// member is the source of a pair.
type member struct {
	*gang
	name string
}

func (m member) Run(ctx context.Context, r probe.Request, _ func(measurement.Progress)) (measurement.Outcome, error) {
	if err := m.lacks(r.ID, m.begun[r.ID], int(m.name[1]-'0')); err != nil {
		return measurement.Outcome{}, err
	}
	if _, err := r.Prepared(ctx); err != nil {
		return measurement.Outcome{}, err
	}
	o := goodTCP()
	o.Flows = []measurement.Flow{{ReceivedBytes: 1e6}, {ReceivedBytes: 1e6}}
	o.Pairs = []measurement.Pair{{RTT: []measurement.PairRTT{{At: 0.5, RTT: 1e-3}}}}
	return o, nil
}

// Every trial is kept exactly once, whatever its attempts lack: the first that lacks no more
// than it may, or that its path broke, or else the third. What is done again comes at the
// end of its block.
func TestTrialsThatLackPairsAreDoneAgain(t *testing.T) {
	hole := &probe.Error{Op: "connect", Reason: probe.Limit, Err: errors.New("the server is full")}
	reset := &probe.Error{Op: "flow 1 of 2", Reason: probe.Vanished, Err: syscall.ECONNRESET}
	for seed := range uint64(60) {
		plan := twoPathPlan(3)
		allowed := int(seed % 2)
		for i := range plan.Trials {
			plan.Trials[i].Spec.MissingPairs = allowed
		}
		draw := func(trial string, attempt, pair int) error {
			key := uint64(attempt*10 + pair)
			for _, c := range trial {
				key = key*31 + uint64(c)
			}
			switch rng := rand.New(rand.NewPCG(seed, key)); {
			case rng.IntN(4) == 0:
				return hole
			case rng.IntN(12) == 0:
				return reset
			}
			return nil
		}
		// judged is what an attempt must be judged.
		judged := func(trial string, attempt int) (holes int, broken bool) {
			for pair := 1; pair <= 3; pair++ {
				switch err := draw(trial, attempt, pair); err {
				case hole:
					holes++
				case reset:
					broken = true
				}
			}
			return holes, broken
		}
		bed := &gang{bench: &bench{plan: plan}, lacks: draw, begun: map[string]int{}}
		keeper := &runner.Memory{}
		var aside []measurement.Trial
		var said []string
		done := 0
		testutil.OK(t, runner.Run(t.Context(), runner.Options{
			Planner: runner.Fixed(plan), Testbed: bed, Keeper: keeper,
			SetAside: func(_ context.Context, again runner.Repeated) error {
				said = append(said, words.NoResult(again.NoResult))
				for _, id := range again.IDs {
					at := slices.IndexFunc(keeper.Kept, func(t measurement.Trial) bool { return t.ID == id })
					aside = append(aside, keeper.Kept[at])
					keeper.Kept = slices.Delete(keeper.Kept, at, at+1)
				}
				return nil
			},
			OnEvent: func(e runner.Event) {
				if e.Done < done || e.Done > len(plan.Trials) || e.Planned != len(plan.Trials) {
					t.Errorf("seed %d: %d of %d are done after %d", seed, e.Done, e.Planned, done)
				}
				done = e.Done
			},
		}))
		var kept []string
		for _, trial := range keeper.Kept {
			kept = append(kept, trial.ID)
		}
		slices.Sort(kept)
		if want := slices.Sorted(slices.Values(planned(plan))); !slices.Equal(kept, want) {
			t.Fatalf("seed %d: kept %q, planned %q", seed, kept, want)
		}
		for _, trial := range keeper.Kept {
			attempts := bed.begun[trial.ID]
			if attempts > 3 || max(trial.Attempt, 1) != attempts {
				t.Errorf("seed %d: %s was begun %d times and is attempt %d", seed, trial.ID, attempts, trial.Attempt)
			}
			for attempt := 1; attempt <= attempts; attempt++ {
				holes, broken := judged(trial.ID, attempt)
				again := holes > allowed && !broken
				if again != (attempt < attempts) && attempt < 3 {
					t.Errorf("seed %d: attempt %d at %s has %d holes, broken %v, and was done again: %v", seed, attempt, trial.ID, holes, broken, attempt < attempts)
				}
				if attempt == attempts && (trial.Gate.Passed != (holes <= allowed && !broken) || trial.Gate.Broken != (broken && holes <= allowed)) {
					t.Errorf("seed %d: attempt %d at %s has %d holes, broken %v: %+v", seed, attempt, trial.ID, holes, broken, trial.Gate)
				}
			}
		}
		if len(bed.did) != len(plan.Trials)+len(aside) || len(said) != len(aside) {
			t.Errorf("seed %d: %d trials of %d planned, %d set aside, %d sentences", seed, len(bed.did), len(plan.Trials), len(aside), len(said))
		}
		for _, s := range said {
			if !strings.Contains(s, "of 3 pairs returned a result") || !strings.Contains(s, "the server is full") {
				t.Errorf("seed %d: %s", seed, s)
			}
		}
		if !slices.Equal(bed.did, endOfBlock(plan, bed.did)) {
			t.Errorf("seed %d: done in the order %q", seed, bed.did)
		}
	}
}

// endOfBlock is the order in which trials must have been done: block by block, in each the
// plan's and then those that are done again, in the order in which they failed.
func endOfBlock(plan experiment.Plan, did []string) (want []string) {
	left := map[string]int{}
	for _, id := range did {
		left[id]++
	}
	for block := 1; block <= plan.Trials[len(plan.Trials)-1].Block; block++ {
		var queue []string
		for _, p := range plan.Trials {
			if p.Block == block {
				queue = append(queue, p.ID)
			}
		}
		for ; len(queue) > 0; queue = queue[1:] {
			want = append(want, queue[0])
			if left[queue[0]]--; left[queue[0]] > 0 {
				queue = append(queue, queue[0])
			}
		}
	}
	return want
}

// A trial that lacks pairs is missing where nothing can be set aside, as nothing may be lost.
func TestLackingTrialIsKeptWhereNothingIsSetAside(t *testing.T) {
	plan := twoPathPlan(1)
	bed := &gang{bench: &bench{plan: plan}, begun: map[string]int{}, lacks: func(_ string, _, pair int) error {
		if pair == 2 {
			return fmt.Errorf("%w: no port", syscall.EADDRINUSE)
		}
		return nil
	}}
	keeper := &runner.Memory{}
	testutil.OK(t, runner.Run(t.Context(), runner.Options{Planner: runner.Fixed(plan), Testbed: bed, Keeper: keeper}))
	for _, trial := range keeper.Kept {
		if trial.Gate.Passed || trial.Gate.Broken || trial.Attempt != 0 {
			t.Errorf("trial %s: %+v, attempt %d", trial.ID, trial.Gate, trial.Attempt)
		}
	}
	if len(keeper.Kept) != len(plan.Trials) {
		t.Errorf("%d trials of %d", len(keeper.Kept), len(plan.Trials))
	}
}

// A trial that an end failed is done again at the end of its block, at most twice. What the
// path may have failed, or would fail again, is kept.
func TestTrialsWithoutAResultAreDoneAgain(t *testing.T) {
	for reason, attempts := range map[probe.Reason]int{
		probe.Protocol: 3, probe.Local: 3,
		probe.Failed: 1, probe.Vanished: 1, probe.TimedOut: 1, probe.Refused: 1, probe.Limit: 1, probe.Unsupported: 1, probe.Unauthorized: 1,
	} {
		for _, failures := range []int{1, 5} {
			plan := twoPathPlan(2)
			failing := plan.Trials[0].ID
			var did []string
			bed := &bench{plan: plan, measure: func(p experiment.PlannedTrial) error {
				did = append(did, p.ID)
				if p.ID == failing && failures >= count(did, failing) {
					return &probe.Error{Op: "read the server's report", Reason: reason, Err: errors.New("it is torn.")}
				}
				return nil
			}}
			keeper := &runner.Memory{}
			var said []string
			testutil.OK(t, runner.Run(t.Context(), runner.Options{
				Planner: runner.Fixed(plan), Testbed: bed, Keeper: keeper,
				SetAside: func(_ context.Context, again runner.Repeated) error {
					said = append(said, words.NoResult(again.NoResult))
					keeper.Kept = slices.DeleteFunc(keeper.Kept, func(t measurement.Trial) bool { return t.ID == again.IDs[0] })
					return nil
				},
			}))
			want := min(failures+1, attempts)
			at := slices.IndexFunc(keeper.Kept, func(t measurement.Trial) bool { return t.ID == failing })
			if kept := keeper.Kept[at]; count(did, failing) != want || max(kept.Attempt, 1) != want || kept.Gate.Passed != (want > failures) || len(said) != want-1 {
				t.Errorf("%s %d times: begun %d times, want %d, attempt %d, said %q", reason, failures, count(did, failing), want, kept.Attempt, said)
			}
			if len(keeper.Kept) != len(plan.Trials) || !slices.Equal(did, endOfBlock(plan, did)) {
				t.Errorf("%s: kept %d of %d trials, done in the order %q", reason, len(keeper.Kept), len(plan.Trials), did)
			}
			for _, s := range said {
				if !strings.HasSuffix(s, fmt.Sprintf("at the end of its block: read the server's report: %s: it is torn.", reason)) {
					t.Error(s)
				}
			}
		}
	}
}

// One during which an end is lost is done again as well, on the testbed that is built again.
func TestTrialsThatLostAnEndAreDoneAgain(t *testing.T) {
	plan := twoPathPlan(2)
	lost := plan.Trials[0].ID
	for _, losses := range []int{1, 5} {
		var did []string
		build := func(context.Context) (testbed.Testbed, error) {
			b := &bench{plan: plan}
			b.measure = func(p experiment.PlannedTrial) error {
				if did = append(did, p.ID); p.ID == lost && losses >= count(did, lost) {
					b.broken = &testbed.Fault{Err: errors.New("the agent of b is gone")}
					return errors.New("connection lost")
				}
				return nil
			}
			return b, nil
		}
		first, _ := build(t.Context())
		keeper := &runner.Memory{}
		testutil.OK(t, runner.Run(t.Context(), runner.Options{
			Planner: runner.Fixed(plan), Testbed: first, Build: build, Keeper: keeper,
			SetAside: func(_ context.Context, again runner.Repeated) error {
				if said := words.NoResult(again.NoResult); !strings.HasSuffix(said, "at the end of its block: the agent of b is gone.") {
					t.Error(said)
				}
				keeper.Kept = slices.DeleteFunc(keeper.Kept, func(t measurement.Trial) bool { return t.ID == again.IDs[0] })
				return nil
			},
		}))
		want := min(losses+1, 3)
		at := slices.IndexFunc(keeper.Kept, func(t measurement.Trial) bool { return t.ID == lost })
		if kept := keeper.Kept[at]; kept.Attempt != want || kept.Gate.Passed != (want > losses) || kept.Gate.Broken {
			t.Errorf("lost %d times: attempt %d, want %d: %+v", losses, kept.Attempt, want, kept.Gate)
		}
		if len(keeper.Kept) != len(plan.Trials) || !slices.Equal(did, endOfBlock(plan, did)) {
			t.Errorf("kept %d of %d trials, done in the order %q", len(keeper.Kept), len(plan.Trials), did)
		}
	}
}

func count(all []string, one string) (n int) {
	for _, s := range all {
		if s == one {
			n++
		}
	}
	return n
}
