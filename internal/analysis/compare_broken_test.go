package analysis

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/words"
)

// breakTrials has a path break its trials of a test in some blocks.
func breakTrials(r *result.Result, path, test string, blocks ...int) {
	for i := range r.Trials {
		if t := &r.Trials[i]; t.Path == path && t.Test == test && slices.Contains(blocks, t.Block) {
			t.Gate = measurement.Gate{Broken: true, Findings: []measurement.Finding{{Name: "test", Code: measurement.FoundTestFailed, Fatal: true, PathFailure: true}}}
			t.Metrics = nil
		}
	}
}

// runs are those of one side: the share of the baseline's rate that a hop carries, and by
// how much its round trips are longer.
func runsWith(share, longer float64, seed int) (out []*result.Result) {
	for i := range 3 {
		out = append(out, runOf("", map[string][]float64{"direct": around(1e9, .01, 10, seed+i), "hop": around(share*1e9, .01, 10, seed+i+3)},
			map[string][]float64{"direct": around(1e-3, .01, 10, seed+i), "hop": around(longer*1e-3, .01, 10, seed+i+5)}).Result)
	}
	return out
}

// One trial that broke in one of several runs hides no change, neither its own nor another.
func TestBrokenTrialOfARunHidesNoChange(t *testing.T) {
	for _, later := range []bool{false, true} {
		before, after := runsWith(.9, 1.1, 0), runsWith(.7, 2.1, 4)
		breakTrials(map[bool][]*result.Result{false: before, true: after}[later][1], "hop", "flows-1", 4)
		changes, _ := CompareRuns(Side{"old", before}, []Side{{"new", after}}, DefaultOptions())
		if len(changes) < 2 {
			t.Fatalf("%d changes", len(changes))
		}
		for _, c := range changes {
			if c.Verdict != result.Costs || c.PAdjusted == nil || !(*c.PAdjusted < 0.001) {
				t.Errorf("%s is %s: %s", c.Metric, c.Verdict, said(c))
			}
		}
		if _, n := measurement.OnlyFinite(result.Comparison{Changes: changes}); n > 0 {
			t.Errorf("%d numbers are not finite", n)
		}
	}
}

// What a path broke in blocks without a pair is told apart from the pairs.
func TestBrokenTrialsOfARunWithoutAPair(t *testing.T) {
	run := func(label string, seed int) *result.Result {
		same := map[string][]float64{"direct": around(1e9, .01, 12, seed), "hop": around(.95e9, .01, 12, seed+3)}
		return runOf(label, same, same).Result
	}
	before, after := run("a", 0), run("b", 4)
	alone := []int{1, 2, 3, 4, 5, 6, 7}
	breakTrials(after, "direct", "flows-1", alone...)
	for i := range after.Trials {
		if t := &after.Trials[i]; t.Gate.Broken {
			t.Gate.Broken = false // what does not count
		}
	}
	breakTrials(after, "hop", "flows-1", alone...)
	changes, _ := CompareRuns(Side{"a", []*result.Result{before}}, []Side{{"b", []*result.Result{after}}}, DefaultOptions())
	c := changes[0]
	const says = "it broke none of 5 trials, and in a none of 12, and 7 (in a none) where another path has none"
	if c.N != 5 || c.Broken != 0 || c.BrokenAlone != 7 || c.ReferenceBrokenAlone != 0 || !slices.Contains(c.Withheld, result.WithheldBroken) || !strings.Contains(said(c), says) {
		t.Errorf("%d pairs, %d and %d broken: %s", c.N, c.Broken, c.BrokenAlone, said(c))
	}
}

// What the path breaks is compared with what its baseline breaks, and both are told: as many
// trials as before are more, where the baseline breaks none any more.
func TestBrokenTrialsOfTheBaselineAreTold(t *testing.T) {
	run := func(seed int) *result.Result {
		same := map[string][]float64{"direct": around(1e9, .01, 20, seed), "hop": around(.95e9, .01, 20, seed+3)}
		return runOf("", same, same).Result
	}
	before, after := run(0), run(4)
	breakTrials(before, "direct", "flows-1", 4, 9)
	breakTrials(before, "hop", "flows-1", 4, 9)
	breakTrials(after, "hop", "flows-1", 4, 9)
	changes, _ := CompareRuns(Side{"a", []*result.Result{before}}, []Side{{"b", []*result.Result{after}}}, DefaultOptions())
	c := costOf(t, Analysis{Costs: changes}, goodput)
	if !slices.Equal(c.Withheld, []result.Withheld{result.WithheldBroken}) || c.BaselineBroken != 0 || c.ReferenceBaselineBroken != 2 {
		t.Errorf("%+v", c)
	}
	checkSaid(t, said(c), "The verdict is withheld: it broke 2 of 20 trials, and in a 2 of 20; direct broke none, and in a 2")
}

// Sides are not called alike where the later one breaks trials that the other did not,
// loses much in few trials, or lacks many blocks.
func TestNoChangeIsWithheld(t *testing.T) {
	run := func(label string, seed int) LabelledRun {
		r := runOf(label, map[string][]float64{"direct": around(1e9, .01, 20, seed), "hop": around(.95e9, .01, 20, seed+3)},
			map[string][]float64{"direct": around(1e-3, .01, 20, seed), "hop": around(1.1e-3, .01, 20, seed+5)})
		for i := range r.Result.Trials {
			if x := &r.Result.Trials[i]; x.Test == latency.Name {
				x.Metrics["loss_fraction"], x.Latency = 0, &measurement.Distribution{Samples: 10_000}
			}
		}
		return r
	}
	for _, c := range []struct {
		name, metric string
		change       func(*result.Result)
		want         []result.Withheld
		says         string
	}{
		{"nothing", goodput, func(*result.Result) {}, nil, "no change larger than"},
		{"broken", goodput, func(r *result.Result) { breakTrials(r, "hop", flows1.Name, 4, 9) }, []result.Withheld{result.WithheldBroken}, "it broke 2 of 20 trials, and in A none of 20"},
		{"baseline broken", goodput, func(r *result.Result) { breakTrials(r, "direct", flows1.Name, 4) }, nil, "no change larger than"},
		{"much lost in few", "loss_fraction", func(r *result.Result) {
			for i := range r.Trials {
				if x := &r.Trials[i]; x.Test == latency.Name && x.Path == "hop" && x.Block%7 == 1 {
					x.Metrics["loss_fraction"] = 0.009
				}
			}
		}, []result.Withheld{result.WithheldMean}, "a few trials cause most of it"},
		{"collapsed", goodput, func(r *result.Result) {
			for i := range r.Trials {
				if x := &r.Trials[i]; x.Test == flows1.Name && x.Path == "hop" && (x.Block == 4 || x.Block == 9) {
					x.Metrics[goodput] *= 0.03
				}
			}
		}, []result.Withheld{result.WithheldCollapsed}, "it collapsed in 2 of 20 trials, to 3 % of direct in the same blocks, and in A in none of 20"},
		{"both broken", goodput, func(r *result.Result) {
			breakTrials(r, "direct", flows1.Name, 1, 2, 3, 4, 5)
			breakTrials(r, "hop", flows1.Name, 1, 2, 3, 4, 5)
		}, []result.Withheld{result.WithheldBothBroken}, "too many blocks have no cost that is a number"},
		{"many missing", goodput, func(r *result.Result) {
			r.Trials = slices.DeleteFunc(r.Trials, func(x measurement.Trial) bool { return x.Test == flows1.Name && x.Path == "hop" && x.Block < 6 })
		}, []result.Withheld{result.WithheldMissingMany}, "15 of 20 do, and 20 of 20 of A"},
	} {
		a, b := run("A", 0), run("B", 1)
		c.change(b.Result)
		changes, _ := compared(a, b)
		i := slices.IndexFunc(changes, func(e result.Effect) bool { return e.Metric == c.metric })
		if i < 0 || !slices.Equal(changes[i].Withheld, c.want) || (changes[i].Verdict == result.NoCost) != (c.want == nil) {
			t.Errorf("%s: %+v", c.name, changes)
			continue
		}
		checkSaid(t, said(changes[i]), c.says)
	}
}

// Nor are groups of runs where some trials of the later ones fell far below the others; as many
// in the runs before are no change.
func TestRunsThatCollapseAreNotAlike(t *testing.T) {
	fall := func(r *result.Result, share float64, blocks ...int) {
		for i := range r.Trials {
			if x := &r.Trials[i]; x.Test == flows1.Name && x.Path == "hop" && slices.Contains(blocks, x.Block) {
				x.Metrics[goodput] *= share
			}
		}
	}
	before, after := runsWith(.9, 1.1, 0), runsWith(.9, 1.1, 4)
	fall(after[2], 0.1, 2)
	fall(after[2], 0.05, 3, 8)
	changes, _ := CompareRuns(Side{"old", before}, []Side{{"new", after}}, DefaultOptions())
	c := costOf(t, Analysis{Costs: changes}, goodput)
	if c.Verdict != result.NotResolved || !slices.Equal(c.Withheld, []result.Withheld{result.WithheldCollapsed}) || c.Collapse.Trials != 3 {
		t.Errorf("%+v", c)
	}
	checkSaid(t, said(c), "it collapsed in 3 of 30 trials, to 5 % of direct in the same blocks, and in old in none of 30")
	fall(before[1], 0.1, 1, 4, 7)
	changes, _ = CompareRuns(Side{"old", before}, []Side{{"new", after}}, DefaultOptions())
	if c := costOf(t, Analysis{Costs: changes}, goodput); c.Verdict != result.NoCost || c.Collapse != nil {
		t.Errorf("as many before: %s", said(c))
	}
}

// Runs in which the path, or both paths, broke all trials show no cost, and so not that it
// stayed.
func TestRunsWithoutACostAreNotAlike(t *testing.T) {
	all := []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	for name, broken := range map[string][]string{"both paths": {"direct", "hop"}, "the path": {"hop"}} {
		before, after := runsWith(.9, 1.1, 0), runsWith(.5, 1.1, 4)
		for _, r := range slices.Concat(before, after) {
			for _, path := range broken {
				breakTrials(r, path, flows1.Name, all...)
			}
		}
		for _, n := range []int{1, 3} {
			changes, _ := CompareRuns(Side{"old", before[:n]}, []Side{{"new", after[:n]}}, DefaultOptions())
			i := slices.IndexFunc(changes, func(e result.Effect) bool { return e.Metric == goodput })
			if i < 0 || changes[i].Verdict != result.NotResolved {
				t.Errorf("%s, %d runs: %+v", name, n, changes)
			}
		}
	}
}

// Runs most of whose trials broke have no level that could be averaged: whether they are worse
// is told by how often they broke, unless the runs of a side differ as much.
func TestRunsThatBreakMostTrials(t *testing.T) {
	some, all := []int{1, 3, 5, 7, 8, 9}, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	side := func(label string, seed int, broken [3][]int) Side {
		s := Side{Label: label}
		for i, blocks := range broken {
			r := &result.Result{Experiment: result.ExperimentInfo{Scale: 1}, Paths: pathsNamed("direct"), Tests: []result.TestInfo{flows1}, Trials: trialsOf("direct", flows1.Name, goodput, around(1e9, .01, 10, seed+i)...)}
			breakTrials(r, "direct", flows1.Name, blocks...)
			s.Runs = append(s.Runs, r)
		}
		return s
	}
	for _, c := range []struct {
		before, after [3][]int
		want          result.Verdict
		says          string
	}{
		{[3][]int{}, [3][]int{some, some, some}, result.Costs, "worse than in old on goodput, flows-1, beyond any bound; unbounded, since it broke 18 of 30 trials, and in old none of 30"},
		{[3][]int{all, all, all}, [3][]int{}, result.Gains, "better than in old on goodput, flows-1, beyond any bound; unbounded, since it broke none of 30 trials, and in old 30 of 30"},
		{[3][]int{}, [3][]int{all, nil, nil}, result.NotResolved, "the level changed by an unknown amount over 3 and 3 runs; unbounded, since it broke 10 of 30 trials, and in old none of 30"},
		{[3][]int{nil, some, nil}, [3][]int{all, some, nil}, result.NotResolved, "unbounded, since it broke 16 of 30 trials, and in old 6 of 30"},
		{[3][]int{some, some, some}, [3][]int{all, some, some}, result.NotResolved, "unbounded, since it broke 22 of 30 trials, and in old 18 of 30"},
	} {
		changes, _ := CompareRuns(side("old", 0, c.before), []Side{side("new", 1, c.after)}, DefaultOptions())
		e := costOf(t, Analysis{Costs: changes}, goodput)
		if e.Verdict != c.want || e.RepetitionsNeeded != 0 || e.Worse() != (c.want == result.Costs) {
			t.Errorf("%+v", e)
		}
		checkSaid(t, said(e), c.says)
	}
}

// A run in which both paths broke all trials is left out, and said to be; one in which only the
// baseline did has a cost without bound, for that reason.
func TestRunsOfABrokenBaseline(t *testing.T) {
	all := []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	for says, paths := range map[string][]string{
		"the cost changed by +28.4 % over 3 and 2 runs; needs about 3 runs a side":                                                                 {"direct", "hop"},
		"beyond any bound over 3 and 3 runs; unbounded, since it broke none of 30 trials, and in old none of 30; direct broke 10, and in old none": {"direct"},
	} {
		before, after := runsWith(.7, 1.1, 0), runsWith(.9, 1.1, 4)
		for _, path := range paths {
			breakTrials(after[1], path, flows1.Name, all...)
		}
		changes, notes := CompareRuns(Side{"old", before}, []Side{{"new", after}}, DefaultOptions())
		c := costOf(t, Analysis{Costs: changes}, goodput)
		if c.Verdict != result.NotResolved || c.DifferenceLow != nil || slices.ContainsFunc(notes, func(n result.Note) bool { return n.Code != result.NoteBrokenTrials }) {
			t.Errorf("%+v\n%s", c, notesText(notes))
		}
		checkSaid(t, said(c), says)
	}
}

// Blocks in which neither side has a value show no cost: a percentile that falls on lost
// requests, or a baseline that both contrasts share and that broke.
func TestBlocksWithoutAValueOnBothSides(t *testing.T) {
	for lost, want := range map[int]result.Verdict{0: result.NoCost, 1: result.NoCost, 3: result.NotResolved, 10: result.NotResolved} {
		trials := trialsOfTwo(latency.Name, rttP50, around(1e-3, 0.01, 10, 0), around(1e-3, 0.01, 10, 4))
		for i := range trials {
			trials[i].Metrics["rtt_p99_seconds"], trials[i].Metrics["loss_fraction"] = 2e-3+1e-6*float64(i%7), 0.02
			if trials[i].Block <= lost {
				delete(trials[i].Metrics, "rtt_p99_seconds")
			}
		}
		c := costOf(t, analysed(latency, trials), "rtt_p99_seconds")
		if c.Verdict != want || (len(c.Withheld) > 0) != (want == result.NotResolved) {
			t.Errorf("with %d of 10 blocks lost on both: %s %v: %s", lost, c.Verdict, c.Withheld, said(c))
		}
	}
	r := &result.Result{Trials: slices.Concat(trialsOf("direct", flows1.Name, goodput, around(1e9, .01, 10, 0)...),
		trialsOf("hop", flows1.Name, goodput, around(.3e9, .01, 10, 3)...), trialsOf("hop2", flows1.Name, goodput, around(.9e9, .01, 10, 3)...))}
	breakTrials(r, "direct", flows1.Name, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
	c := costOf(t, Analyse(r.Trials, []result.TestInfo{flows1}, pathsNamed("direct", "hop", "hop2"), Options{Contrasts: []result.Contrast{
		{Path: "hop", Baseline: "direct", Against: &result.Contrast{Path: "hop2", Baseline: "direct"}}}}), goodput)
	if c.Verdict == result.NoCost {
		t.Errorf("of paths that differ threefold: %s", said(c))
	}
}

// Nor do they make a cost smaller: it is that of the others.
func TestBlocksWithoutAValueAreNoEffect(t *testing.T) {
	base, other := around(1e-3, 0.001, 10, 0), around(2e-3, 0.001, 10, 4)
	a := analysed(latency, broken(trialsOf("direct", latency.Name, rttP50, base...), 4), broken(trialsOf("hop", latency.Name, rttP50, other...), 4))
	c := costOf(t, a, rttP50)
	if c.N != 10 || c.WithoutValue != 4 || c.Counted() != 6 || c.Broken != 4 || c.Verdict != result.Costs || math.Abs(c.Difference-1e-3) > 1e-5 || c.DifferenceLow == nil {
		t.Errorf("%+v: %s", c, said(c))
	}
	few := costOf(t, analysed(latency, broken(trialsOf("direct", latency.Name, rttP50, base...), 8), broken(trialsOf("hop", latency.Name, rttP50, other...), 8)), rttP50)
	if few.Verdict != result.Indicated || math.Abs(few.Difference-1e-3) > 1e-5 {
		t.Errorf("%+v: %s", few, said(few))
	}
	checkSaid(t, said(few), "2 of 6 blocks")
}

// Where both paths of a contrast broke, it is not known by how much another differs from it:
// neither that it does, nor that it does not.
func TestContrastWithoutAValue(t *testing.T) {
	contrast := result.Contrast{Path: "hop", Baseline: "direct", Against: &result.Contrast{Path: "hop2", Baseline: "direct2"}}
	for _, broken := range [][]string{{"direct2", "hop2"}, {"direct", "hop"}} {
		for _, carried := range []float64{.3e9, 1e9} {
			r := &result.Result{Trials: slices.Concat(trialsOf("direct", flows1.Name, goodput, around(1e9, .01, 10, 0)...), trialsOf("hop", flows1.Name, goodput, around(carried, .01, 10, 3)...),
				trialsOf("direct2", flows1.Name, goodput, around(1e9, .01, 10, 3)...), trialsOf("hop2", flows1.Name, goodput, around(carried, .01, 10, 5)...))}
			for _, path := range broken {
				breakTrials(r, path, flows1.Name, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
			}
			c := costOf(t, Analyse(r.Trials, []result.TestInfo{flows1}, pathsNamed("direct", "hop", "direct2", "hop2"), Options{Contrasts: []result.Contrast{contrast}}), goodput)
			if c.Verdict != result.NotResolved || !slices.Equal(c.Withheld, []result.Withheld{result.WithheldBothBroken}) {
				t.Errorf("%v broke, the other carries %v: %s %v: %s", broken, carried, c.Verdict, c.Withheld, said(c))
			}
		}
	}
}

// A run of one trial, which shows no spread, does not outweigh the others, nor does one of a
// few, which agree by luck now and then, or one whose trials are quieter than those of others.
func TestRunsOfFewTrialsHoldTheLevel(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	n := repetitions(4000)
	for _, c := range []struct {
		sizes     []int
		tau, loud float64 // loud is by how much the logarithm of the noise differs between runs
	}{
		{[]int{1, 10, 10}, 0, 0}, {[]int{1, 10, 10}, 0.3, 0}, {[]int{1, 1, 10}, 0, 0}, {[]int{1, 1, 10}, 0.3, 0}, {[]int{1, 1, 1}, 0, 0}, {[]int{1, 1, 1}, 0.3, 0},
		{[]int{2, 2, 2}, 0, 0}, {[]int{2, 2, 2, 2, 2}, 0, 0}, {[]int{3, 3, 3, 3, 3}, 0, 0}, {[]int{4, 4, 4, 4, 4}, 0, 0}, {[]int{2, 6, 10}, 0.3, 0},
		{[]int{10, 10, 10, 10, 10}, 0.3, 1.5}, {[]int{6, 6, 6}, 1, 1.5},
	} {
		side := func() (out []runEstimate) {
			for _, trials := range c.sizes {
				var s sample
				level, noise := c.tau*rng.NormFloat64(), math.Exp(c.loud*rng.NormFloat64())
				for range trials {
					s.effects = append(s.effects, level+noise*rng.NormFloat64())
				}
				out = append(out, s.estimate())
			}
			return out
		}
		claims := 0
		for range n {
			if d, _ := compareGroups(side(), side(), .95); d.p < .05 {
				claims++
			}
		}
		if limit := .05*float64(n) + 4*math.Sqrt(.05*.95*float64(n)); float64(claims) > limit {
			t.Errorf("runs of %v trials, τ %v, noise of %v: %d claims in %d", c.sizes, c.tau, c.loud, claims, n)
		}
	}
}

func checkSaid(t *testing.T, got, want string) {
	t.Helper()
	if !strings.Contains(got, want) {
		t.Errorf("%s\nlacks %q", got, want)
	}
}

// Paths that differ only by what a receiver cannot divide, alike in all trials of a path,
// get a claim in no more reports than the level says, however many there are.
func TestResolutionHoldsTheLevelOfAFamily(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	n, claims := 300, 0
	test := result.TestInfo{Name: "crr", Spec: measurement.Spec{Kind: measurement.CRR, Flows: 1, Duration: 1}}
	for range n {
		names := []string{"direct"}
		for i := range 24 {
			names = append(names, fmt.Sprint("hop", i))
		}
		var trials []measurement.Trial
		for _, name := range names {
			off, v := rng.Float64()-rng.Float64(), make([]float64, 10) // a difference of two readings
			for b := range v {
				v[b] = 20 + off + 1e-3*rng.NormFloat64()
			}
			trials = append(trials, trialsOf(name, "crr", "connections_per_second", v...)...)
		}
		a := Analyse(trials, []result.TestInfo{test}, pathsNamed(names...), Options{})
		if slices.ContainsFunc(a.Costs, func(c result.Effect) bool { return c.Verdict == result.Costs || c.Verdict == result.Gains }) {
			claims++
		}
	}
	if float64(claims) > .05*float64(n) { // the correction is Bonferroni's, which errs on the safe side
		t.Errorf("%d claims in %d reports", claims, n)
	}
}

// Runs stay the unit where no run of a side has a value.
func TestRunsWithoutAnyValue(t *testing.T) {
	before, after := runsWith(.7, 1.1, 0), runsWith(.9, 1.1, 4)
	for _, r := range after {
		for _, path := range []string{"direct", "hop"} {
			breakTrials(r, path, flows1.Name, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
		}
	}
	changes, notes := CompareRuns(Side{"old", before}, []Side{{"new", after}}, DefaultOptions())
	c := costOf(t, Analysis{Costs: changes}, goodput)
	if c.Runs != 3 || c.ReferenceRuns != 3 || c.Counted() != 0 || c.Verdict != result.NotResolved || !slices.Equal(c.Withheld, []result.Withheld{result.WithheldBothBroken}) {
		t.Errorf("%+v", c)
	}
	if slices.ContainsFunc(notes, func(n result.Note) bool { return n.Code != result.NoteBrokenTrials }) || !strings.HasPrefix(words.ChangesNote(changes), "Each run is one reading") {
		t.Errorf("%s\n%s", words.ChangesNote(changes), notesText(notes))
	}
}

// What a path costs, or by how much that changed, is not known where nothing but infinities
// is subtracted: it is not 0.
func TestInfinitiesDoNotCancel(t *testing.T) {
	odd, even, all := []int{1, 3, 5, 7}, []int{2, 4, 6, 8}, []int{1, 2, 3, 4, 5, 6, 7, 8}
	run := func(direct, hop []int) *result.Result {
		r := runOf("", map[string][]float64{"direct": around(1e9, .01, 8, 0), "hop": around(.5e9, .01, 8, 3)}, nil).Result
		breakTrials(r, "direct", flows1.Name, direct...)
		breakTrials(r, "hop", flows1.Name, hop...)
		return r
	}
	unknown := func(e result.Effect, says string) {
		t.Helper()
		if e.Ratio != 0 || e.Difference != 0 || e.Low != nil || e.High != nil || e.DifferenceLow != nil || e.DifferenceHigh != nil ||
			!e.EstimateUnbounded || !e.LowUnbounded || !e.HighUnbounded || e.Resolution != 0 || e.RepetitionsNeeded != 0 || e.Verdict != result.NotResolved {
			t.Errorf("%+v", e)
		}
		checkSaid(t, said(e), says)
	}
	whole, swapped, broken, baseline := run(nil, nil), run(odd, even), run(nil, all), run(all, nil)
	a := Analyse(swapped.Trials, swapped.Tests, swapped.Paths, DefaultOptions())
	unknown(costOf(t, a, goodput), "hop: not resolved on goodput, flows-1: unbounded, where 5 % matters; unbounded, since it broke 4 of 8 trials, direct 4")
	for _, c := range []struct {
		before, after *result.Result
		says          string
	}{
		{whole, swapped, "the cost changed by an unknown amount; unbounded, since it broke 4 of 8 trials, and in a none of 8; direct broke 4, and in a none"},
		{swapped, swapped, "the cost changed by an unknown amount; unbounded, since it broke 4 of 8 trials, and in a 4 of 8; direct broke 4, and in a 4"},
		{broken, broken, "no trial of either run has a value: it broke 8 of 8 trials, and in a 8 of 8"},
		{baseline, baseline, "the cost changed by an unknown amount; unbounded, since it broke none of 8 trials, and in a none of 8; direct broke 8, and in a 8"},
	} {
		changes, _ := CompareRuns(Side{"a", []*result.Result{c.before}}, []Side{{"b", []*result.Result{c.after}}}, DefaultOptions())
		unknown(costOf(t, Analysis{Costs: changes}, goodput), c.says)
	}
	// Nor is it of several runs.
	changes, _ := CompareRuns(Side{"a", []*result.Result{whole, whole, whole}}, []Side{{"b", []*result.Result{swapped, swapped, whole}}}, DefaultOptions())
	unknown(costOf(t, Analysis{Costs: changes}, goodput), "the cost changed by an unknown amount over 3 and 3 runs; unbounded, since it broke 8 of 24 trials")
	changes, _ = CompareRuns(Side{"a", []*result.Result{whole, whole, whole}}, []Side{{"b", []*result.Result{swapped, swapped, swapped}}}, DefaultOptions())
	unknown(costOf(t, Analysis{Costs: changes}, goodput), "the cost changed by an unknown amount over 3 and 3 runs")
	// Of the pairs that have a cost it is known.
	a = Analyse(whole.Trials, whole.Tests, whole.Paths, DefaultOptions())
	most := run([]int{1, 2, 3}, []int{4, 5, 6})
	b := Analyse(most.Trials, most.Tests, most.Paths, DefaultOptions())
	if all, two := costOf(t, a, goodput), costOf(t, b, goodput); math.Abs(two.Ratio-all.Ratio) > 0.02 {
		t.Errorf("%v of two pairs, %v of all", two.Ratio, all.Ratio)
	}
}
