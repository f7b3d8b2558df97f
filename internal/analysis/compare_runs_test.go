package analysis

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testutil"
	"github.com/hopbench/hopbench/internal/words"
)

// runOf is a run of two paths with a throughput and a latency test.
func runOf(label string, rates, rtts map[string][]float64) LabelledRun {
	var trials []measurement.Trial
	for _, path := range []string{"direct", "hop"} {
		trials = append(trials, trialsOf(path, "flows-1", goodput, rates[path]...)...)
		trials = append(trials, trialsOf(path, "latency", rttP50, rtts[path]...)...)
	}
	return LabelledRun{Label: label, Result: &result.Result{
		Experiment: result.ExperimentInfo{Name: "x", Scale: 1}, Paths: pathsNamed("direct", "hop"),
		Tests: []result.TestInfo{flows1, latency}, Trials: trials,
	}}
}

func compared(a, b LabelledRun) ([]result.Effect, []result.Note) {
	return CompareRuns(Side{a.Label, []*result.Result{a.Result}}, []Side{{b.Label, []*result.Result{b.Result}}}, DefaultOptions())
}

// The level of a run has no verdict until there are three runs a side.
func TestCompareLevels(t *testing.T) {
	side := func(label string, rates ...float64) Side {
		s := Side{Label: label}
		for i, rate := range rates {
			s.Runs = append(s.Runs, &result.Result{Paths: pathsNamed("direct"), Tests: []result.TestInfo{flows1},
				Trials: trialsOf("direct", "flows-1", goodput, around(rate, 0.001, 10, i)...)})
		}
		return s
	}
	one, _ := CompareRuns(side("A", 1e9), []Side{side("B", 0.8e9)}, DefaultOptions())
	if len(one) != 1 || one[0].Verdict != result.NotResolved || !slices.Equal(one[0].Withheld, []result.Withheld{result.WithheldRunLevel}) || one[0].Worse() ||
		!strings.Contains(said(one[0]), "three or more") {
		t.Errorf("one run a side: %+v", one)
	}
	many, _ := CompareRuns(side("A–C", 1e9, 1.01e9, 0.99e9), []Side{side("D–F", 0.8e9, 0.81e9, 0.79e9)}, DefaultOptions())
	if len(many) != 1 || many[0].Verdict != result.Costs || !many[0].Worse() || many[0].Runs != 3 || math.Abs(many[0].Ratio-0.8) > 0.01 ||
		!strings.Contains(said(many[0]), "over 3 and 3 runs") {
		t.Errorf("three runs a side: %+v\n%s", many, said(many[0]))
	}
	// Runs that differ as much among themselves show nothing, however quiet each is.
	noisy, _ := CompareRuns(side("A–C", 1e9, 1.3e9, 0.8e9), []Side{side("D–F", 0.8e9, 1.1e9, 0.9e9)}, DefaultOptions())
	if len(noisy) != 1 || noisy[0].Verdict != result.NotResolved || noisy[0].RepetitionsNeeded <= 3 {
		t.Errorf("three unequal runs a side: %+v", noisy)
	}
}

// Of two levels no number of trials tells, and so none is asked for.
func TestFewTrialsOfLevels(t *testing.T) {
	run := func(rates ...float64) *result.Result {
		return &result.Result{Paths: pathsNamed("direct"), Tests: []result.TestInfo{flows1}, Trials: trialsOf("direct", "flows-1", goodput, rates...)}
	}
	changes, notes := CompareRuns(Side{"A", []*result.Result{run(1e9)}}, []Side{{"B", []*result.Result{run(0.8e9, 0.81e9)}}}, DefaultOptions())
	if len(changes) != 1 || !slices.Equal(changes[0].Withheld, []result.Withheld{result.WithheldRunLevel}) || len(notes) > 0 {
		t.Errorf("%+v\n%s", changes, notesText(notes))
	}
}

// A long run makes up for a short one: what is beyond chance is not said to be impossible.
func TestALongRunMakesUpForAShortOne(t *testing.T) {
	of := func(label string, n int, hop float64) LabelledRun {
		return runOf(label, map[string][]float64{"direct": around(1e9, 0.01, n, 0), "hop": around(hop, 0.01, n, 5)}, map[string][]float64{"direct": around(1e-3, 0.01, n, 0), "hop": around(3e-3, 0.01, n, 5)})
	}
	for n, want := range map[int]int{4: 2, 20: 0} {
		changes, notes := compared(of("A", 4, 500e6), of("B", n, 300e6))
		few := 0
		for _, x := range notes {
			few += x.Count
		}
		if claimed := costOf(t, Analysis{Costs: changes}, goodput).Verdict == result.Costs; few != want || claimed != (want == 0) {
			t.Errorf("4 and %d trials: claimed %v, and %s", n, claimed, notesText(notes))
		}
	}
}

// Shares that were zero in all trials of several runs a side have the bound of the run of
// each side that looked least, as costs and as levels.
func TestRunsThatLostNothing(t *testing.T) {
	const few, some, many = 20000.0, 30000.0, 40000.0
	side := func(label string, paths []result.PathInfo, baseline, hop []float64) Side {
		s := Side{Label: label}
		for run := range baseline {
			r := &result.Result{Paths: paths, Tests: []result.TestInfo{udp}}
			for i, p := range paths {
				trials := trialsOf(p.Name, udp.Name, "loss_fraction", make([]float64, 8)...)
				for k := range trials {
					trials[k].Metrics["received_packets_per_second"] = [][]float64{baseline, hop}[i][run]
				}
				r.Trials = append(r.Trials, trials...)
			}
			s.Runs = append(s.Runs, r)
		}
		return s
	}
	one, two := pathsNamed("direct"), pathsNamed("direct", "hop")
	loss := func(a, b Side) result.Effect {
		t.Helper()
		all, _ := CompareRuns(a, []Side{b}, DefaultOptions())
		return costOf(t, Analysis{Costs: all}, "loss_fraction")
	}
	bound := func(looked ...float64) (sum float64) {
		for _, l := range looked {
			sum += zeroBound(8, l, 0.05)
		}
		return sum
	}
	lots := []float64{many, many, many}
	for name, c := range map[string]struct {
		a, b      Side
		low, high float64
		looked    float64
	}{
		"levels": {side("A", one, []float64{many, few, many}, nil), side("B", one, []float64{some, many, many}, nil), -bound(few), bound(some), few},
		// Less may have come by a loss of the baseline after or of the path before.
		"costs": {side("A", two, lots, []float64{many, few, many}), side("B", two, []float64{many, many, some}, lots), -bound(few, some), bound(many, many), few},
	} {
		got := loss(c.a, c.b)
		if got.Runs != 3 || got.LookedAt != c.looked || got.DifferenceLow == nil || !near(*got.DifferenceLow, c.low, 1e-12) || !near(*got.DifferenceHigh, c.high, 1e-12) ||
			got.Verdict != result.NoCost || got.Resolution != 0 || *got.P != 1 {
			t.Errorf("%s: %+v, want [%g, %g] of %g", name, got, c.low, c.high, c.looked)
		}
	}
	// Nor do more runs make the bound smaller.
	short := []float64{500, 500, 500}
	if got := loss(side("A", one, short, nil), side("B", one, short, nil)); got.Verdict != result.NotResolved || got.LookedAt != 500 || got.RepetitionsNeeded != 0 {
		t.Errorf("of short trials: %+v: %s", got, said(got))
	}
	unknown := side("B", two, lots, []float64{many, 0, many})
	if got := loss(side("A", two, lots, lots), unknown); got.DifferenceLow != nil || got.LookedAt != 0 || got.Verdict != result.NotResolved {
		t.Errorf("of trials that do not say what they looked at: %+v", got)
	}
	lossy := side("B", two, lots, lots)
	for i := range lossy.Runs[1].Trials { // on either path alike
		lossy.Runs[1].Trials[i].Metrics["loss_fraction"] = 0.01
	}
	if got := loss(side("A", two, lots, lots), lossy); got.LookedAt != 0 || !near(got.Resolution, 1.959964*math.Sqrt(4.0/12)/many, 1e-9) {
		t.Errorf("of a run that lost packets: %+v", got)
	}
}

// Format 1 does not say which of its excluded trials the path broke.
func TestOldFormatIsComparedWhereItIsSound(t *testing.T) {
	rates := map[string][]float64{"direct": around(1, 0.01, 8, 0), "hop": around(1, 0.01, 8, 1)}
	a, b := runOf("A", rates, rates), runOf("B", rates, rates)
	a.Result.OldFormat = true
	for i := range a.Result.Trials {
		if trial := &a.Result.Trials[i]; trial.Test == "latency" && trial.Path == "hop" && trial.Block == 3 {
			trial.Gate = measurement.Gate{Findings: []measurement.Finding{{Name: "test", Code: measurement.FoundText, Fatal: true}}}
		}
	}
	changes, notes := compared(a, b)
	if len(changes) != 1 || changes[0].Test != "flows-1" || !strings.Contains(notesText(notes), "hop, latency: not compared between A and B") {
		t.Errorf("%+v\n%s", changes, notesText(notes))
	}
}

func TestCompareRuns(t *testing.T) {
	rates := func(direct, hop float64, n int) map[string][]float64 {
		return map[string][]float64{"direct": around(direct, 0.01, n, 0), "hop": around(hop, 0.01, n, 5)}
	}
	before := runOf("A", rates(1e9, 500e6, 12), rates(1e-3, 3e-3, 12))
	after := runOf("B", rates(1e9, 400e6, 12), rates(1e-3, 2.4e-3, 10))
	changes, notes := compared(before, after)
	if len(notes) > 0 {
		t.Errorf("notes: %+v", notes)
	}
	type key struct{ path, test string }
	got := map[key]result.Effect{}
	for _, c := range changes {
		got[key{c.Path, c.Test}] = c
		if c.Low == nil || !(*c.Low <= c.Ratio && c.Ratio <= *c.High) || c.Coverage < 0.95 || c.P == nil || c.PHolm == nil {
			t.Errorf("no interval around the ratio: %+v", c)
		}
	}
	for k, want := range map[key]struct {
		verdict  result.Verdict
		ratio    float64
		worse    bool
		sentence string
	}{
		{"hop", "flows-1"}: {result.Costs, 0.8, true, "worse than in A on goodput, flows-1: the cost changed by −20"},
		{"hop", "latency"}: {result.Gains, 0.8, false, "better than in A on RTT p50, latency: the cost changed by −"},
	} {
		c, ok := got[k]
		if !ok || c.Verdict != want.verdict || math.Abs(c.Ratio-want.ratio) > 0.02 || c.Worse() != want.worse || !strings.Contains(said(c), want.sentence) {
			t.Errorf("%v: %+v", k, c)
		}
	}
	if len(got) != 2 {
		t.Errorf("compared: %+v", changes)
	}
	if c := got[key{"hop", "latency"}]; c.N != 10 || c.ReferenceN != 12 || !c.Primary {
		t.Errorf("trials of each: %+v", c)
	}
	// Exchanging the runs inverts what changed.
	back, _ := compared(after, before)
	for i, c := range back {
		if d := changes[i]; math.Abs(c.Ratio*d.Ratio-1) > 1e-9 || *c.P != *d.P {
			t.Errorf("%s %s: %v there, %v back", c.Path, c.Test, d.Ratio, c.Ratio)
		}
	}
}

// Worse means beyond chance and beyond what matters.
func TestSmallChangeIsNotWorse(t *testing.T) {
	rates := func(hop float64) map[string][]float64 {
		return map[string][]float64{"direct": around(1e9, 0.001, 10, 0), "hop": around(hop, 0.08, 10, 5)}
	}
	rtts := map[string][]float64{"direct": around(1e-3, 0.001, 10, 0), "hop": around(1e-3, 0.001, 10, 0)}
	changes, _ := compared(runOf("A", rates(1e9), rtts), runOf("B", rates(0.97e9), rtts))
	for _, c := range changes {
		if c.Worse() {
			t.Errorf("3 %% within a noise of 8 %% is worse: %+v", c)
		}
	}
	if (result.Effect{Verdict: result.Costs, Metric: goodput, Ratio: 0.97, Margin: measurement.Margin{Fraction: 0.05}}).Worse() {
		t.Error("3 % is worse where 5 % matters")
	}
	if !(result.Effect{Verdict: result.Costs, Metric: rttP50, Ratio: 1.06, Difference: 2e-4, Margin: measurement.Margin{Amount: 1e-4}}).Worse() {
		t.Error("6 % more time is not worse where 5 % matters")
	}
	if !(result.Effect{Verdict: result.Costs, Metric: rttP50, Difference: 1}).Worse() {
		t.Error("a cost without a ratio is not worse")
	}
}

// Runs at different scales are compared at the published one.
func TestCompareRunsAtDifferentScales(t *testing.T) {
	rates := func(factor float64) map[string][]float64 {
		return map[string][]float64{"direct": around(1e9/factor, 0.001, 8, 0), "hop": around(1e9/factor, 0.001, 8, 3)}
	}
	rtts := map[string][]float64{"direct": around(1e-3, 0.001, 8, 0), "hop": around(1e-3, 0.001, 8, 0)}
	a, b := runOf("A", rates(1), rtts), runOf("B", rates(10), rtts)
	b.Result.Experiment.Scale = 10
	changes, _ := compared(a, b)
	for _, c := range changes {
		if math.Abs(c.Ratio-1) > 0.01 || c.Test == "flows-1" && (!near(c.Median, 1e9, 1e7) || !near(c.ReferenceMedian, 1e9, 1e7) || math.Abs(c.Difference) > 1e7) {
			t.Errorf("%s %s: %v, %v → %v, %v", c.Path, c.Test, c.Ratio, c.ReferenceMedian, c.Median, c.Difference)
		}
	}
	if text := notesText(Differences(a, b)); !strings.Contains(text, "B at 1:10") {
		t.Errorf("the scales are not said: %s", text)
	}
}

func TestDifferences(t *testing.T) {
	rates := map[string][]float64{"direct": {1}, "hop": {1}}
	a, b := runOf("A", rates, rates), runOf("B", rates, rates)
	if d := Differences(a, b); len(d) > 0 {
		t.Errorf("of equal runs: %+v", d)
	}
	a.Result.Environment = map[string]string{"host": "x", "hopbench": "v1"}
	b.Result.Environment = map[string]string{"host": "y", "hopbench": "v2"}
	b.Result.Testbed = result.Testbed{Kind: "lab", Relative: true}
	b.Result.Tests = slices.Clone(b.Result.Tests)
	b.Result.Tests[0].Spec.Duration = 3
	b.Result.Paths = slices.Clone(b.Result.Paths)
	b.Result.Paths[1].Hops = []result.HopInfo{{Type: "router"}}
	b.Result.Experiment.Name = "z"
	text := notesText(Differences(a, b))
	for _, want := range []string{"host: x and y", "hopbench: v1 and v2", "testbed: unknown and lab", "Test flows-1", "Path hop", "experiment: x and z", "Between two machines you can compare only costs (the ratio of a path to the baseline), not levels."} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not said:\n%s", want, text)
		}
	}
}

func TestDifferencesOfEnds(t *testing.T) {
	ends := func(offloads string) []result.TestbedEndpoint {
		return []result.TestbedEndpoint{{Name: "client"}, {Name: "server", Environment: map[string]string{"kernel": "6.1", "nic_eth0_offloads": offloads}}}
	}
	a, b := &result.Result{}, &result.Result{}
	a.Testbed.Endpoints, b.Testbed.Endpoints = ends("tso gro"), ends("gro")
	got := Differences(LabelledRun{Label: "A", Result: a}, LabelledRun{Label: "B", Result: b})
	if len(got) != 1 || got[0].Name != "server: nic_eth0_offloads" || got[0].Was != "tso gro" || got[0].Is != "gro" {
		t.Errorf("between runs: %+v", got)
	}
	got = SessionDifferences(nil, ends("tso gro"), result.Session{Endpoints: ends("tso gro")}, result.Session{Trials: 3, Endpoints: ends("gro")}, result.Session{})
	if len(got) != 1 || got[0].Name != "server: nic_eth0_offloads" || got[0].Count != 3 {
		t.Errorf("between sessions: %+v", got)
	}
}

func TestSessionDifferences(t *testing.T) {
	first := map[string]string{"host": "x", "kernel": "1", "gone": "g", "host_load_average": "0.1"}
	again := map[string]string{"host": "x", "kernel": "2", "new": "n", "host_load_average": "7"}
	if d := SessionDifferences(first, nil, result.Session{Trials: 3, Environment: first}); len(d) > 0 {
		t.Errorf("of equal sessions: %+v", d)
	}
	started := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	got := SessionDifferences(first, nil, result.Session{Environment: first}, result.Session{Started: started, Trials: 12, Environment: again})
	want := []string{
		"After 12 trials the run continued (2026-11-21 09:30 UTC) with a different gone: unknown, previously g.",
		"After 12 trials the run continued (2026-11-21 09:30 UTC) with a different kernel: 2, previously 1.",
		"After 12 trials the run continued (2026-11-21 09:30 UTC) with a different new: n, previously unknown.",
	}
	if notesText(got) != strings.Join(want, "\n") {
		t.Errorf("got %s", notesText(got))
	}
	if first["new"] != "" || again["gone"] != "" {
		t.Error("what was given was changed")
	}
}

// Paths or tests that only one run has, and trials that no gate let through.
func TestCompareRunsWithHoles(t *testing.T) {
	rates := map[string][]float64{"direct": around(1, 0.1, 6, 0), "hop": around(1, 0.1, 6, 1)}
	a, b := runOf("A", rates, rates), runOf("B", rates, rates)
	a.Result.Paths = pathsNamed("direct", "hop", "gone")
	for i := range b.Result.Trials {
		if b.Result.Trials[i].Test == "latency" {
			b.Result.Trials[i].Gate = measurement.Gate{Findings: []measurement.Finding{{Name: "cpu", Code: measurement.FoundBusyCPUs, Fatal: true}}}
		}
	}
	changes, notes := compared(a, b)
	text := notesText(notes)
	if len(changes) != 1 || changes[0].Path != "hop" || changes[0].Test != "flows-1" {
		t.Errorf("changes: %+v", changes)
	}
	for _, want := range []string{`B has no path "gone"`, "B: 12 of 24 trials excluded", "not compared, since in one of the runs (A and B) no block has a counted value on both hop and direct"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not said:\n%s", want, text)
		}
	}
}

// A run whose trials lack one metric is compared by the others: that its trials do not count
// is not said.
func TestCompareRunsWithoutAMetric(t *testing.T) {
	rates := map[string][]float64{"direct": around(1, 0.1, 6, 0), "hop": around(1, 0.1, 6, 1)}
	for metric, others := range map[string]int{goodput: 2, "loss_fraction": 2, "": 0} {
		var runs []LabelledRun
		for _, label := range []string{"A", "B"} {
			r := runOf(label, rates, nil)
			r.Result.Tests[0].Spec = measurement.Spec{Kind: measurement.UDP}.Defaults()
			for i := range r.Result.Trials {
				m := r.Result.Trials[i].Metrics
				m["loss_fraction"], m["reordered_fraction"] = 0.01, 0.01
				switch {
				case label == "A":
				case metric == "":
					clear(m)
				default:
					delete(m, metric)
				}
			}
			r.Result.Tests = r.Result.Tests[:1]
			runs = append(runs, r)
		}
		changes, notes := compared(runs[0], runs[1])
		if len(changes) != others || len(notes) != 1 || notes[0].Code != result.NoteNothingToCompare || notes[0].Metric != metric {
			t.Errorf("without %q: %d changes, notes %+v", metric, len(changes), notes)
		}
	}
	// What neither has is not missed, unless a report leads with it.
	if _, notes := compared(runOf("A", rates, nil), runOf("B", rates, nil)); len(notes) != 1 || notes[0].Test != "latency" || notes[0].Metric != "" {
		t.Errorf("notes %+v", notes)
	}
}

// What does not count in the runs of a group is counted once, of all of their trials.
func TestExcludedTrialsOfAGroup(t *testing.T) {
	before, after := runsWith(.9, 1.1, 0), runsWith(.9, 1.1, 4)
	for run, excluded := range []int{2, 0, 5} {
		for i := range excluded {
			before[run].Trials[i].Gate = measurement.Gate{Findings: []measurement.Finding{{Name: []string{"cpu", "clock"}[i%2], Fatal: true}}}
		}
	}
	_, notes := CompareRuns(Side{"A–C", before}, []Side{{"D–F", after}}, DefaultOptions())
	if len(notes) != 1 || notes[0].Count != 7 || notes[0].Of != 120 || notes[0].ByGate["cpu"] != 4 || notes[0].ByGate["clock"] != 3 || len(notes[0].Findings) != maxFindings {
		t.Errorf("%+v", notes)
	}
	checkSaid(t, notesText(notes), "A–C: 7 of 120 trials excluded by a gate (cpu 4, clock 3).")
	checkSaid(t, notesText(notes), "and 2 more")
}

// A run that has a path and compares it with another one does not lack the path.
func TestCompareRunsOfOtherBaselines(t *testing.T) {
	rates := map[string][]float64{"direct": around(1, 0.1, 6, 0), "hop": around(1, 0.1, 6, 1)}
	a, b := runOf("A", rates, rates), runOf("B", rates, rates)
	for i := range b.Result.Paths {
		b.Result.Paths[i].Baseline = b.Result.Paths[i].Name == "hop"
	}
	changes, notes := compared(a, b)
	if text := notesText(notes); len(changes) != 0 || text != `B does not compare path "hop" with "direct" as the other run does.` {
		t.Errorf("%d changes and %s", len(changes), text)
	}
}

// Of two groups of runs the one is named that lacks something.
func TestCompareRunsNamesTheSideThatLacks(t *testing.T) {
	rates := map[string][]float64{"direct": around(1, 0.1, 6, 0), "hop": around(1, 0.1, 6, 1)}
	for _, c := range []struct{ lacking, want string }{{"B", "A–C"}, {"E", "D–F"}} {
		var sides [2]Side
		for i, label := range []string{"A–C", "D–F"} {
			sides[i].Label = label
			for _, name := range [][]string{{"A", "B", "C"}, {"D", "E", "F"}}[i] {
				r := runOf(name, rates, rates)
				if name == c.lacking {
					r.Result.Tests = r.Result.Tests[:1]
				}
				sides[i].Runs = append(sides[i].Runs, r.Result)
			}
		}
		changes, notes := CompareRuns(sides[0], sides[1:], DefaultOptions())
		if len(changes) != 1 || !strings.Contains(notesText(notes), c.want+` has no test "latency" of the same kind.`) {
			t.Errorf("%s lacks a test: %d changes and %s", c.lacking, len(changes), notesText(notes))
		}
	}
}

// Two samples of the same distribution: the family-wise rate of claims is at
// most 5 %, and a planted shift lies in its interval as often as it says.
func TestCompareRunsHoldsItsLevel(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 9))
	sample := func(n int, shift float64) []float64 {
		out := make([]float64, n)
		for i := range out {
			out[i] = math.Exp(shift + 0.3*rng.NormFloat64())
		}
		return out
	}
	repetitions := testutil.Repeat(150, 600)
	claims, covered := 0, 0
	want := 0.0
	const planted = 0.4
	for range repetitions {
		// What a whole run meets is in both of its paths.
		set := func(shift float64) map[string][]float64 {
			level := 2 * rng.NormFloat64()
			return map[string][]float64{"direct": sample(8, level), "hop": sample(7, level+shift)}
		}
		changes, _ := compared(runOf("A", set(0), set(0)), runOf("B", set(0), set(0)))
		if slices.ContainsFunc(changes, func(c result.Effect) bool {
			return c.Verdict == result.Costs || c.Verdict == result.Gains
		}) {
			claims++
		}
		changes, _ = compared(runOf("A", set(0), set(0)), runOf("B", set(planted), set(0)))
		c := changes[slices.IndexFunc(changes, func(c result.Effect) bool { return c.Path == "hop" && c.Test == "flows-1" })]
		want = c.Coverage
		if math.Log(*c.Low) <= planted && planted <= math.Log(*c.High) {
			covered++
		}
	}
	if !atMost(claims, repetitions, 0.05) {
		t.Errorf("%d of %d comparisons of a run with itself claim something", claims, repetitions)
	}
	checkCoverage(t, covered, repetitions, 1, want, false)
}

func TestFewest(t *testing.T) {
	if got := FewestBlocks(); got != 6 {
		t.Errorf("%d blocks are needed, want 6", got)
	}
	if got := (&costEstimate{alpha: 0.01, minBlocks: 6}).fewestBlocks(); got != 8 { // 2^−7 < 1 %
		t.Errorf("%d blocks are needed at 1 %%, want 8", got)
	}
	tests := []result.TestInfo{flows1, latency, {Name: "t", Spec: measurement.Spec{Kind: measurement.Trace}}, {Name: "m", Spec: measurement.Spec{Kind: measurement.MTU}}}
	if got := PrimaryComparisons(2, tests); got != 4 {
		t.Errorf("%d primary comparisons", got)
	}
	// 2/C(2n, n) first falls below 5 % at n = 4, below 5 %/4 at n = 5.
	for family, want := range map[int]int{1: 4, 4: 5, 25: 7} {
		c := &costEstimate{alpha: 0.05, unpaired: true, familySize: family}
		if got := c.fewestBlocks(); got != want {
			t.Errorf("a family of %d needs %d trials in each run, want %d", family, got, want)
		}
	}
}

func ExampleReadingsNote() {
	note, _ := ReadingsNote([]float64{985, 951, 975, 936, 989, 958, 967, 959})
	note.Name = "the run"
	fmt.Println(words.Names{}.Note(note))
	// Output: The 8 readings of the run are one run, so one trial: they give no interval, no p and no difference. Their lag-1 autocorrelation is −0.73, beyond the ±0.69 of independent readings: each depends on the one before it.
}

// What a run counted is reckoned by the settings that its own test has: a quick run looks at
// fewer packets than the whole one that it is compared with.
func TestRunsOfOtherSettingsKnowLess(t *testing.T) {
	const perSecond = 4000.0
	run := func(duration measurement.Seconds) *result.Result {
		r := &result.Result{Paths: pathsNamed("direct", "hop"), Tests: []result.TestInfo{{Name: "udp", Spec: measurement.Spec{Kind: measurement.UDP, Duration: duration}}}}
		for _, p := range r.Paths {
			trials := trialsOf(p.Name, "udp", "loss_fraction", make([]float64, 8)...)
			for i := range trials {
				trials[i].Metrics["received_packets_per_second"], trials[i].Metrics[goodput] = perSecond, perSecond*8*1000
			}
			r.Trials = append(r.Trials, trials...)
		}
		return r
	}
	for _, c := range []struct{ before, after measurement.Seconds }{{10, 0.5}, {0.5, 10}} {
		changes, _ := CompareRuns(Side{"A", []*result.Result{run(c.before)}}, []Side{{"B", []*result.Result{run(c.after)}}}, DefaultOptions())
		loss := costOf(t, Analysis{Costs: changes}, "loss_fraction")
		want := zeroBound(8, perSecond*float64(c.before), 0.05) + zeroBound(8, perSecond*float64(c.after), 0.05)
		if loss.LookedAt != perSecond*0.5 || loss.DifferenceHigh == nil || !near(*loss.DifferenceHigh, want, 1e-12) || !near(*loss.DifferenceLow, -want, 1e-12) {
			t.Errorf("%v s and %v s: %+v, want ±%g", c.before, c.after, loss, want)
		}
		// Of a rate, what a window of each length resolves.
		share := func(d measurement.Seconds) float64 { return counted(1) / (perSecond * float64(d)) }
		reach := expanded(math.Sqrt(2)*math.Hypot(share(c.before), share(c.after)), 0.95)
		if rate := costOf(t, Analysis{Costs: changes}, goodput); !near(rate.Resolution, -math.Expm1(-reach), 1e-6) {
			t.Errorf("%v s and %v s: a rate is resolved to %g, want %g", c.before, c.after, rate.Resolution, reach)
		}
	}
}

// Few blocks ask for as many more as it takes to bound a share that was zero in all of them; a
// run of one block takes the spread from the other.
func TestBlocksAskedForByFew(t *testing.T) {
	run := func(blocks int, packets float64) *result.Result {
		r := &result.Result{Paths: pathsNamed("direct", "hop"), Tests: []result.TestInfo{udp}}
		for i, p := range r.Paths {
			trials := trialsOf(p.Name, "udp", "loss_fraction", make([]float64, blocks)...)
			for k, rate := range around(1e9, 0.2, blocks, 3*i) {
				trials[k].Metrics[goodput] = rate
				if packets > 0 {
					trials[k].Metrics["received_packets_per_second"] = packets
				}
			}
			r.Trials = append(r.Trials, trials...)
		}
		return r
	}
	lost := 0.0
	within := func(blocks int, packets float64) result.Effect {
		r := run(blocks, packets)
		for i := range r.Trials {
			r.Trials[i].Metrics["loss_fraction"] = lost
		}
		return costOf(t, Analyse(r.Trials, r.Tests, r.Paths, Options{}), "loss_fraction")
	}
	between := func(metric string, before, after int, packets float64) result.Effect {
		changes, _ := CompareRuns(Side{"A", []*result.Result{run(before, packets)}}, []Side{{"B", []*result.Result{run(after, packets)}}}, DefaultOptions())
		return costOf(t, Analysis{Costs: changes}, metric)
	}
	const lots, few = 100_000, 345
	for name, c := range map[string]struct {
		got  result.Effect
		need int
	}{
		"few packets":               {within(3, few), 24},
		"six blocks of few":         {within(6, few), 24},
		"many packets":              {within(3, lots), 6},
		"packets unknown":           {within(3, 0), 6},
		"ten blocks unknown":        {within(10, 0), 0},
		"few packets of runs":       {between("loss_fraction", 10, 3, few), 45},
		"many packets of runs":      {between("loss_fraction", 10, 3, lots), 6},
		"unknown of runs":           {between("loss_fraction", 10, 10, 0), 0},
		"a spread of one side":      {between(goodput, 10, 1, lots), 63},
		"neither side has a spread": {between(goodput, 1, 1, lots), 5},
	} {
		if c.got.RepetitionsNeeded != c.need || c.got.NeededLow > 0 {
			t.Errorf("%s: %d blocks, want %d: %s", name, c.got.RepetitionsNeeded, c.need, said(c.got))
		}
	}
	// What a trial of few packets resolves hides an equal loss from any number of blocks: as many
	// are asked for as show that.
	lost = 0.0005
	if got := within(3, few); got.RepetitionsNeeded != 6 || got.NeededHigh != 0 {
		t.Errorf("of an equal loss: %+v", got)
	}
}
