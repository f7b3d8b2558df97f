package analysis

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// randomTrials draws a run with holes, failed gates and two tests.
func randomTrials(t *rapid.T) ([]measurement.Trial, []result.TestInfo, []result.PathInfo) {
	paths := pathsNamed("direct", "one", "two")
	tests := []result.TestInfo{latency, flows1}
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 2))
	blocks := rapid.IntRange(1, 14).Draw(t, "blocks")
	var out []measurement.Trial
	for i, p := range paths {
		values := make([]float64, blocks)
		for j := range values {
			values[j] = math.Exp(0.2*r.NormFloat64()) / float64(1+i)
		}
		out = append(out, trialsOf(p.Name, flows1.Name, goodput, values...)...)
		out = append(out, trialsOf(p.Name, latency.Name, rttP50, values...)...)
	}
	kept := out[:0]
	for _, trial := range out {
		if r.Float64() < 0.1 {
			trial.Gate = measurement.Gate{Findings: []measurement.Finding{{Name: "cpu", Code: measurement.FoundBusyCPUs, Fatal: true}}}
		}
		if r.Float64() < 0.95 {
			kept = append(kept, trial)
		}
	}
	return kept, tests, paths
}

func TestOrderOfTrialsDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		trials, tests, paths := randomTrials(t)
		want := Analyse(trials, tests, paths, Options{})
		shuffled := rapid.Permutation(trials).Draw(t, "shuffled")
		if got := Analyse(shuffled, tests, paths, Options{}); !reflect.DeepEqual(got, want) {
			t.Fatalf("the same trials in another order give\n%+v\nnot\n%+v", got, want)
		}
	})
}

// Renumbering the blocks changes drift and nothing else.
func TestOrderOfBlocksIsOnlyDrift(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		trials, tests, paths := randomTrials(t)
		want := Analyse(trials, tests, paths, Options{})
		index := make([]int, 15)
		for i := range index {
			index[i] = i
		}
		index = rapid.Permutation(index).Draw(t, "blocks")
		moved := slices.Clone(trials)
		for i := range moved {
			moved[i].Block = index[moved[i].Block]
		}
		got := Analyse(moved, tests, paths, Options{})
		for i := range got.Costs {
			got.Costs[i].Drift, want.Costs[i].Drift = nil, nil
			sameCost(t, got.Costs[i], want.Costs[i], 1e-12)
		}
		for i := range got.Cells {
			slices.Sort(got.Cells[i].Outliers)
			slices.Sort(want.Cells[i].Outliers)
		}
		if !reflect.DeepEqual(got.Cells, want.Cells) {
			t.Fatalf("cells changed: %+v, %+v", got.Cells, want.Cells)
		}
	})
}

// Measured in another unit of rate, the costs are the same fractions.
func TestScalingRatesChangesNoRatio(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		trials, _, paths := randomTrials(t)
		tests := []result.TestInfo{flows1} // times have an absolute smallest effect
		// A power of two scales without rounding.
		factor := math.Ldexp(1, rapid.IntRange(-20, 20).Draw(t, "exponent"))
		scaled := slices.Clone(trials)
		for i := range scaled {
			if v, ok := scaled[i].Metrics[goodput]; ok {
				scaled[i].Outcome.Metrics = measurement.Metrics{goodput: v * factor}
			}
		}
		want, got := Analyse(trials, tests, paths, Options{}), Analyse(scaled, tests, paths, Options{})
		for i := range want.Costs {
			w := want.Costs[i]
			w.Difference *= factor
			w.DifferenceLow, w.DifferenceHigh = times(w.DifferenceLow, factor), times(w.DifferenceHigh, factor)
			sameCost(t, got.Costs[i], w, 1e-12)
		}
	})
}

func times(v *float64, factor float64) *float64 {
	if v == nil {
		return nil
	}
	product := *v * factor
	return &product
}

// Exchanging path and baseline turns the ratio about.
func TestExchangingThePathsInvertsTheRatio(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		trials, _, paths := randomTrials(t)
		tests := []result.TestInfo{flows1}
		pair := paths[:2]
		back := slices.Clone(pair)
		back[0].Baseline, back[1].Baseline = false, true
		a, b := only(t, Analyse(trials, tests, pair, Options{})), only(t, Analyse(trials, tests, back, Options{}))
		if a.N != b.N || (a.N > 0 && !near(a.Ratio*b.Ratio, 1, 1e-9)) {
			t.Fatalf("ratios %v and %v of %d and %d pairs", a.Ratio, b.Ratio, a.N, b.N)
		}
		if a.P != nil && (!near(*a.P, *b.P, 1e-12) || !near(*a.Low**b.High, 1, 1e-9)) {
			t.Fatalf("%+v\n%+v", a, b)
		}
		opposite := map[result.Verdict]result.Verdict{
			result.Costs: result.Gains, result.Gains: result.Costs,
			result.NoCost: result.NoCost, result.NotResolved: result.NotResolved,
			result.TooFewBlocks: result.TooFewBlocks, result.Indicated: result.Indicated,
		}
		// What missing trials withhold, they withhold on the side of a gain.
		if opposite[a.Verdict] != b.Verdict && len(a.Withheld)+len(b.Withheld) == 0 {
			t.Fatalf("verdicts %q and %q", a.Verdict, b.Verdict)
		}
	})
}

// Cells of several tests together are the cells of each alone.
func TestCellsAreIndependent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		trials, tests, paths := randomTrials(t)
		all := Analyse(trials, tests, paths, Options{}).Cells
		var apart []result.Cell
		for _, p := range paths {
			for _, test := range tests {
				apart = append(apart, Analyse(trials, []result.TestInfo{test}, []result.PathInfo{p}, Options{}).Cells...)
			}
		}
		if !reflect.DeepEqual(all, apart) {
			t.Fatalf("together %+v\napart %+v", all, apart)
		}
	})
}

// Whatever the values, the analysis ends, can be written as JSON and keeps
// what its fields promise of each other.
func TestAnythingGoes(t *testing.T) {
	odd := rapid.SampledFrom([]float64{0, 1, -1, 1e9, 1e9, 1e9 + 1, 5e-324, 1e-300, 1e300, -1e149, math.MaxFloat64, math.Inf(1), math.NaN()})
	value := rapid.OneOf(odd, rapid.Float64Range(1e8, 2e8), rapid.Float64())
	rapid.Check(t, func(t *rapid.T) {
		var trials []measurement.Trial
		paths := pathsNamed("direct", "one", "two")
		for _, p := range paths {
			values := rapid.SliceOfN(value, 0, 12).Draw(t, p.Name)
			trials = append(trials, trialsOf(p.Name, flows1.Name, goodput, values...)...)
			trials = append(trials, trialsOf(p.Name, latency.Name, rttP50, values...)...)
		}
		a := Analyse(trials, []result.TestInfo{flows1, latency}, paths, Options{Alpha: rapid.SampledFrom([]float64{0, 0.01, 0.05, 0.4, 1e-9}).Draw(t, "alpha"),
			MinBlocks: rapid.IntRange(-1, 9).Draw(t, "least")})
		if _, err := json.Marshal(a); err != nil {
			t.Fatal(err)
		}
		if len(a.Costs) != 4 {
			t.Fatalf("%d costs", len(a.Costs))
		}
		for _, c := range a.Costs {
			if strings.Contains(said(c), "NaN") || (c.Verdict == result.Costs || c.Verdict == result.Gains || c.Verdict == result.NoCost) && c.RepetitionsNeeded > 0 ||
				(c.Verdict == result.TooFewBlocks || c.Verdict == result.Indicated) != (c.FewestBlocks > 0) || c.NeededLow > c.NeededHigh || c.RepetitionsNeeded > result.MaxRepetitionsNeeded || c.RepetitionsNeeded > 0 && c.RepetitionsNeeded <= c.N ||
				(c.Verdict == result.NoCost) != (c.Bound > 0) || (c.Low == nil) != (c.High == nil) && !c.LowUnbounded && !c.HighUnbounded || (c.P == nil) != (c.PHolm == nil) {
				t.Fatalf("%+v", c)
			}
			if c.EstimateUnbounded {
				continue
			}
			if outside(c.Low, c.Ratio, c.High) || outside(c.DifferenceLow, c.Difference, c.DifferenceHigh) {
				t.Fatalf("estimate outside of its interval: %+v", c)
			}
		}
	})
}

// outside says that an estimate is not between the limits that there are.
func outside(low *float64, v float64, high *float64) bool {
	return low != nil && *low > v || high != nil && v > *high
}

func sameCost(t *rapid.T, got, want result.Effect, tolerance float64) {
	t.Helper()
	same := func(a, b *float64) bool {
		if a == nil || b == nil {
			return a == b
		}
		return near(*a, *b, tolerance*math.Max(1, math.Abs(*b)))
	}
	if !same(&got.Ratio, &want.Ratio) || !same(&got.Difference, &want.Difference) || !same(got.Low, want.Low) || !same(got.High, want.High) ||
		!same(got.DifferenceLow, want.DifferenceLow) || !same(got.DifferenceHigh, want.DifferenceHigh) || !same(got.P, want.P) || !same(got.PHolm, want.PHolm) ||
		got.N != want.N || got.Verdict != want.Verdict || got.RepetitionsNeeded != want.RepetitionsNeeded || !same(&got.Bound, &want.Bound) {
		t.Fatalf("cost changed:\n%+v\n%+v", got, want)
	}
}
