package analysis

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// The figures were checked with NumPy from the definitions: Walsh averages, the
// 9th from either end for 95 % of 10 pairs.
func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		name        string
		test        result.TestInfo
		metric      string
		base, other []float64
		verdict     result.Verdict
		sentence    string
	}{
		{"rate costs", flows1, goodput, around(1.2e9, 0.004, 10, 0), around(358e6, 0.004, 10, 4), result.Costs,
			"hop: costs 70.16 % [70.09, 70.20] of goodput, flows-1 (1.20 Gbit/s → 358 Mbit/s)"},
		{"rate gains", flows1, goodput, around(1.0e9, 0.004, 10, 0), around(1.25e9, 0.004, 10, 4), result.Gains,
			"hop: gains 25.0 % [24.9, 25.3] of goodput, flows-1 (1.00 Gbit/s → 1.25 Gbit/s)"},
		{"time costs", latency, rttP50, around(738e-6, 0.003, 10, 0), around(3e-3, 0.003, 10, 4), result.Costs,
			"hop: adds 2.263 ms [2.259, 2.267] to RTT p50, latency (738 µs → 3.00 ms, 4.07×)"},
		{"time gains", latency, rttP50, around(900e-6, 0.003, 10, 0), around(450e-6, 0.003, 10, 4), result.Gains,
			"hop: takes 449.7 µs [448.6, 450.5] off RTT p50, latency (900 µs → 450 µs, 0.500×)"},
		{"no cost", flows1, goodput, around(1e9, 0.004, 10, 0), around(1e9, 0.004, 10, 4), result.NoCost,
			"hop: no cost larger than 0.24 % on goodput, flows-1, where 5 % matters"},
		{"below what matters", flows1, goodput, around(1e9, 0.001, 10, 0), around(0.98e9, 0.001, 10, 4), result.NoCost,
			"hop: no cost larger than 2.1 % on goodput, flows-1, where 5 % matters; the difference of −2.00 % [−2.03, −1.94] is beyond chance, but too small to matter"},
		{"short times", latency, rttP50, around(150e-6, 0.003, 10, 0), around(162e-6, 0.003, 10, 4), result.NoCost,
			"hop: no cost larger than 13 µs on RTT p50, latency, where 100 µs matters; the difference of +12.0 µs [+11.9, +12.3] is beyond chance, but too small to matter"},
		{"not resolved", flows1, goodput, around(1e9, 0.2, 10, 0), around(1e9, 0.2, 10, 4), result.NotResolved,
			"hop: not resolved on goodput, flows-1: +1.2 % [−5.9, +12.9], where 5 % matters; needs about 23 to 250 blocks"},
		{"too few", flows1, goodput, around(1e9, 0.01, 3, 0), around(0.5e9, 0.01, 3, 4), result.Indicated,
			"hop: −50.1 % on goodput, flows-1, is indicated by 3 of 6 blocks, but not claimed: p < 0.0001 if noise is normal and equal on all paths and tests; needs 6 blocks"},
		{"too few and noisy", flows1, goodput, around(1e9, 0.3, 3, 0), around(0.9e9, 0.3, 3, 4), result.TooFewBlocks,
			"hop: too few blocks on goodput, flows-1: 3 of 6 blocks; −13.4 % so far; needs 6 to 230 blocks"},
		{"one block", flows1, goodput, around(1e9, 0.01, 1, 0), around(0.5e9, 0.01, 1, 4), result.TooFewBlocks,
			"hop: too few blocks on goodput, flows-1: 1 of 6 blocks; −49.9 % so far; needs at least 6 blocks; the spread of trials is unknown"},
		{"hole", flows1, goodput, around(1e9, 0.01, 8, 0), nil, result.NotResolved,
			"hop: not resolved on goodput, flows-1: no block has a counted value on both hop and direct"},
		{"identical", flows1, goodput, around(1e9, 0, 8, 0), around(1e9, 0, 8, 0), result.NoCost,
			"hop: no cost larger than 0.1 % on goodput, flows-1, where 5 % matters"},
		{"without noise", flows1, goodput, around(1e9, 0, 8, 0), around(5e8, 0, 8, 0), result.Costs,
			"hop: costs 50.0 % [50.0, 50.0] of goodput, flows-1 (1.00 Gbit/s → 500 Mbit/s)"},
		// Three times as long in most blocks, yet shorter by far in two: the ratio
		// decides nothing.
		{"ratio and difference disagree", latency, rttP50, []float64{1e-3, 1.1e-3, 1.2e-3, 10, 0.9e-3, 0.8e-3, 1e-3, 10, 1.3e-3, 0.7e-3},
			[]float64{3e-3, 3.2e-3, 3.5e-3, 9, 2.8e-3, 2.5e-3, 3.1e-3, 9.1, 4e-3, 2e-3}, result.NotResolved, ""},
		{"zeros", flows1, goodput, around(1e9, 0.01, 8, 0), make([]float64, 8), result.Costs,
			"hop: costs goodput, flows-1 beyond any bound (1.00 Gbit/s → 0 bit/s); unbounded, since values of some trials are unbounded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := only(t, onTwoPaths(c.test, c.metric, c.base, c.other, Options{}))
			if got.Verdict != c.verdict {
				t.Errorf("verdict %q, want %q", got.Verdict, c.verdict)
			}
			if text := said(got); c.sentence != "" && text != c.sentence {
				t.Errorf("sentence\n%s\nwant\n%s", text, c.sentence)
			}
			if _, err := json.Marshal(got); err != nil {
				t.Error(err)
			}
			if len(c.base) < minBlocks && (got.Low != nil || got.P != nil) {
				t.Errorf("an interval or a p from %d blocks: %+v", len(c.base), got)
			}
		})
	}
}

// Six blocks show one large, steady effect among fifteen comparisons without
// any, which Holm's correction could not.
func TestSixBlocksClaimInAnyFamily(t *testing.T) {
	r := rand.New(rand.NewPCG(51, 52))
	noisy := func(centre float64) []float64 {
		out := make([]float64, 6)
		for i := range out {
			out[i] = centre * math.Exp(0.02*r.NormFloat64())
		}
		return out
	}
	names := []string{"direct"}
	trials := trialsOf("direct", flows1.Name, goodput, noisy(1e9)...)
	for i := range 16 {
		name, centre := fmt.Sprintf("hop-%d", i), 1e9
		if i == 7 {
			centre = 5e8
		}
		names = append(names, name)
		trials = append(trials, trialsOf(name, flows1.Name, goodput, noisy(centre)...)...)
	}
	a := Analyse(trials, []result.TestInfo{flows1}, pathsNamed(names...), Options{})
	for i, c := range a.Costs {
		if (c.Verdict == result.Costs) != (i == 7) {
			t.Errorf("%+v", c)
		}
		if i == 7 && (!near(*c.PAdjusted, 0.03125, 1e-12) || !near(*c.PHolm, 0.5, 1e-12)) {
			t.Errorf("adjusted p %v, Holm's %v", *c.PAdjusted, *c.PHolm)
		}
	}
	if len(a.Notes) != 0 || FewestBlocks() != 6 {
		t.Errorf("notes %+v, fewest blocks %d", a.Notes, FewestBlocks())
	}
}

// Secondary costs are corrected over all costs, primary ones over the primary.
func TestFamilies(t *testing.T) {
	trials := trialsOfTwo(latency.Name, rttP50, around(1e-3, 0.01, 10, 0), around(2e-3, 0.01, 10, 4))
	for i := range trials {
		trials[i].Metrics["rtt_p99_seconds"] = 1.5 * trials[i].Metrics[rttP50]
	}
	a := analysed(latency, trials)
	if len(a.Costs) != 2 {
		t.Fatalf("%+v", a.Costs)
	}
	least := math.Ldexp(1, -9)
	if c := a.Costs[0]; !c.Primary || c.Metric != rttP50 || !near(*c.PAdjusted, least, 1e-15) || !near(*c.PHolm, least, 1e-15) {
		t.Errorf("%+v", c)
	}
	if c := a.Costs[1]; c.Primary || c.Metric != "rtt_p99_seconds" || !near(*c.PAdjusted, least, 1e-15) || !near(*c.PHolm, 2*least, 1e-15) {
		t.Errorf("%+v", c)
	}
}

func TestExcludedTrialsAreCounted(t *testing.T) {
	trials := trialsOfTwo(flows1.Name, goodput, around(1e9, 0.01, 10, 0), around(5e8, 0.01, 10, 4))
	trials[2].Gate = measurement.Gate{Findings: []measurement.Finding{{Name: "loss", Code: measurement.FoundText, Text: "a warning"}, {Name: "fingerprint", Code: measurement.FoundText, Fatal: true, Text: "two hops instead of one"}}}
	trials[2].Metrics[goodput] = 1 // must count nowhere
	trials[15].Gate = measurement.Gate{}
	repeated := trials[4]
	repeated.ID, repeated.Order = "again", 99
	foreign := trialsOf("elsewhere", flows1.Name, goodput, 5)[0]
	a := analysed(flows1, append(trials, repeated, foreign))
	if c := only(t, a); c.N != 8 || c.Verdict != result.Costs {
		t.Errorf("%+v", c)
	}
	for _, c := range a.Cells {
		if c.N != 9 || c.Low == nil || c.Coverage < 0.95 {
			t.Errorf("cell %+v", c)
		}
	}
	want := []string{
		"2 of 22 trials excluded by a gate (unnamed gate 1, fingerprint 1). b03-direct-flows-1: two hops instead of one; b06-hop-flows-1: no reason was recorded.",
		"1 trial repeated a test on the same path in the same block; only the first of each counts.",
		"1 trial of a path or a test that is not in this experiment; ignored.",
		"hop, flows-1: 2 of 10 blocks lack goodput on hop or direct and do not count.",
	}
	if notesText(a.Notes) != strings.Join(want, "\n") {
		t.Errorf("notes:\n%s\nwant:\n%s", notesText(a.Notes), strings.Join(want, "\n"))
	}
}

// A drift is noted, and said in the sentence that it touches.
func TestDriftIsNoted(t *testing.T) {
	base, other := around(1e9, 0.002, 12, 0), around(9e8, 0.002, 12, 4)
	for i := range other {
		other[i] *= 1 - 0.02*float64(i)
	}
	a := onTwoPaths(flows1, goodput, base, other, Options{})
	c := only(t, a)
	if !violated(c, result.NoDrift) || !strings.Contains(said(c), "; the effect changed during the run (p ") {
		t.Errorf("%s\n%+v", said(c), c.Violations)
	}
	if c.Drift == nil || *c.Drift.Rho > -0.99 || *c.Drift.P > 1e-6 {
		t.Errorf("drift %+v", c.Drift)
	}
	if len(a.Notes) != 2 || !strings.HasPrefix(notesText(a.Notes), "Drift: the effect of hop on goodput, flows-1 changed during the run, from −14.5 % in the first half of the blocks to −25.4 % in the second (Spearman's ρ") {
		t.Errorf("notes %+v", a.Notes)
	}
	// That of a share is in points, and of a difference of costs it is told apart from a cost.
	lost := make([]float64, 12)
	for i := range lost {
		lost[i] = 0.01 * float64(i+1)
	}
	paths, contrast := pathsNamed("direct", "hop", "tunnel", "both"), result.Contrast{Path: "both", Baseline: "tunnel", Against: &result.Contrast{Path: "hop", Baseline: "direct"}}
	trials := trialsOf("both", udp.Name, "loss_fraction", lost...)
	for _, p := range paths[:3] {
		trials = append(trials, trialsOf(p.Name, udp.Name, "loss_fraction", make([]float64, 12)...)...)
	}
	a = Analyse(trials, []result.TestInfo{udp}, paths, Options{Contrasts: []result.Contrast{contrast}})
	const says = "the effect of both over tunnel, compared with hop over direct on loss, udp changed during the run, from +3.5 percentage points in the first half of the blocks to +9.5 percentage points in the second ("
	if text := notesText(a.Notes); !strings.Contains(text, says) {
		t.Errorf("notes:\n%s", text)
	}
}

func TestOutliersAreFlaggedAndKept(t *testing.T) {
	values := around(1e9, 0.01, 10, 0)
	values[7] = 2e8
	a := Analyse(trialsOf("direct", flows1.Name, goodput, values...), []result.TestInfo{flows1}, pathsNamed("direct"), Options{})
	if len(a.Cells) != 1 {
		t.Fatalf("%+v", a.Cells)
	}
	c := a.Cells[0]
	if c.N != 10 || len(c.Outliers) != 1 || c.Outliers[0] != "b08-direct-flows-1" {
		t.Errorf("%+v", c)
	}
	if got := outliers([]float64{1, 1, 1, 1, 1, 1, 5}); got != nil {
		t.Errorf("with a deviation of zero %v are flagged", got)
	}
}

// Values that cannot be compared leave a hole, not a NaN.
func TestUnusableValues(t *testing.T) {
	paths := pathsNamed("direct", "hop")
	trials := slices.Concat(trialsOf("direct", flows1.Name, goodput, 1e9, math.NaN(), math.Inf(1), 0, -1, 1e9, 1e9),
		trialsOf("hop", flows1.Name, goodput, around(1e9, 0.1, 7, 0)...))
	a := Analyse(trials, []result.TestInfo{flows1}, paths, Options{Alpha: math.NaN(), Matters: map[string]measurement.Margin{goodput: {Fraction: 7}}})
	if c := only(t, a); c.N != 5 || c.Ratio != 0 {
		t.Errorf("%+v", c)
	}
	if _, err := json.Marshal(a); err != nil {
		t.Error(err)
	}
	for _, p := range [][]result.PathInfo{nil, {{Name: "direct"}}, {{Name: "direct", Baseline: true}, {Name: "hop", Baseline: true}}} {
		if a := Analyse(trials, []result.TestInfo{flows1}, p, Options{}); len(a.Costs) != 0 || len(a.Notes) == 0 {
			t.Errorf("paths %v: %+v", p, a)
		}
	}
	if a := Analyse(nil, []result.TestInfo{flows1}, paths, Options{}); len(a.Costs) != 1 || a.Costs[0].N != 0 {
		t.Errorf("without trials: %+v", a)
	}
}
