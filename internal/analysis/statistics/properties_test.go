package statistics

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// smallValues draws lists with many ties and zeros.
func smallValues(most int) *rapid.Generator[[]float64] {
	return rapid.SliceOfN(rapid.Map(rapid.IntRange(-4, 4), func(i int) float64 { return float64(i) / 2 }), 1, most)
}

func TestSignedRankMatchesEnumeration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := smallValues(12).Draw(t, "values")
		if got, want := SignedRankP(values), naiveSignedRankP(values); !near(got, want, 1e-12) {
			t.Fatalf("p = %v, by enumeration %v", got, want)
		}
	})
}

func TestRankSumMatchesEnumeration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := smallValues(6).Draw(t, "a"), smallValues(6).Draw(t, "b")
		if got, want := RankSumP(a, b), naiveRankSumP(a, b); !near(got, want, 1e-9) {
			t.Fatalf("p = %v, by enumeration %v", got, want)
		}
	})
}

// The interval and the p of the signed-rank test are two faces of one thing:
// without ties, zero lies outside the interval exactly when p ≤ 1 − coverage.
func TestIntervalAgreesWithP(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(6, 40).Draw(t, "n")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		shift := rapid.Float64Range(-1, 1).Draw(t, "shift")
		values := make([]float64, n)
		for i := range values {
			values[i] = shift + r.NormFloat64()
		}
		got, ok := SignedRankInterval(WalshAverages(values), n, 0.95)
		if !ok {
			t.Fatal("no interval")
		}
		if p := SignedRankP(values); got.ExcludesZero() != (p <= (1-got.Coverage)*(1+1e-9)) {
			t.Fatalf("interval %+v, p %v", got, p)
		}
	})
}

// Above maxExact the normal approximation takes over without a jump.
func TestApproximationMeetsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	values := make([]float64, maxExact+1)
	for i := range values {
		values[i] = 0.12 + r.NormFloat64()
	}
	exact, approximate := SignedRankP(values[:maxExact]), SignedRankP(values)
	if exact < 0.01 || exact > 0.9 || math.Abs(math.Log(approximate/exact)) > 0.5 {
		t.Errorf("p = %v of %d values, %v of one more", exact, maxExact, approximate)
	}
	below, _ := signedRankDepth(maxExact, 0.95)
	above, _ := signedRankDepth(maxExact+1, 0.95)
	// The depth grows by about n/2 per value.
	if step := above - below; step < maxExact/2-15 || step > maxExact/2+5 {
		t.Errorf("depth goes from %d to %d", below, above)
	}
}

func TestHodgesLehmannIsEquivariant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(-100, 100), 1, 25).Draw(t, "values")
		shift, factor := rapid.Float64Range(-50, 50).Draw(t, "shift"), rapid.Float64Range(-9, 9).Draw(t, "factor")
		moved := make([]float64, len(values))
		for i, v := range values {
			moved[i] = shift + factor*v
		}
		got, want := HodgesLehmann(moved), shift+factor*HodgesLehmann(values)
		if !near(got, want, 1e-9) {
			t.Fatalf("estimate %v, want %v", got, want)
		}
		// By its definition, in any order of the values.
		var naive []float64
		for i := range values {
			for j := range i + 1 {
				naive = append(naive, (values[i]+values[j])/2)
			}
		}
		slices.Sort(naive)
		middle := (naive[(len(naive)-1)/2] + naive[len(naive)/2]) / 2
		if got := HodgesLehmann(values); !near(got, middle, 1e-9) {
			t.Fatalf("estimate %v, by definition %v", got, middle)
		}
	})
}

// The distribution of U against every choice of n of n + m ranks.
func TestRankSumDistribution(t *testing.T) {
	for n := 1; n <= 6; n++ {
		for m := 1; m <= 6; m++ {
			counts := make([]float64, n*m+1)
			total := 0.0
			var choose func(from, left, u int)
			choose = func(from, left, u int) {
				if left == 0 {
					counts[u]++
					total++
					return
				}
				for rank := from; rank <= n+m-left; rank++ {
					// The chosen value exceeds the unchosen below it.
					choose(rank+1, left-1, u+rank-(n-left))
				}
			}
			choose(0, n, 0)
			for u, p := range rankSumDistribution(n, m) {
				if math.Abs(p-counts[u]/total) > 1e-12 {
					t.Fatalf("n = %d, m = %d: P(U = %d) is %v, counted %v", n, m, u, p, counts[u]/total)
				}
			}
		}
	}
}

// The depths against the published table of the Mann–Whitney test at 5 %, two
// sides (Hollander, Wolfe & Chicken 2014, table A.6): the critical U, and one.
func TestRankSumDepth(t *testing.T) {
	for _, c := range []struct{ n, m, k int }{
		{4, 4, 1}, {5, 5, 3}, {6, 6, 6}, {7, 7, 9}, {8, 8, 14}, {10, 10, 24}, {4, 10, 6}, {20, 20, 128},
	} {
		k, coverage := rankSumDepth(c.n, c.m, 0.95)
		if k != c.k || coverage < 0.95 || coverage > 0.98 {
			t.Errorf("n = %d, m = %d: k = %d, coverage %v; want k = %d", c.n, c.m, k, coverage, c.k)
		}
	}
	for _, c := range [][2]int{{0, 10}, {1, 30}, {3, 3}, {2, 7}} {
		if k, _ := rankSumDepth(c[0], c[1], 0.95); k > 0 {
			t.Errorf("%v values have an interval", c)
		}
	}
	// Where the exact distribution ends the approximation goes on.
	exact, _ := rankSumDepth(25, 25, 0.95)
	near, _ := rankSumDepth(25, 26, 0.95)
	if near < exact || near > exact+12 {
		t.Errorf("k is %d for 25 and 25 values, %d for 25 and 26", exact, near)
	}
}

// Without ties, the interval excludes zero exactly when p is below 5 %.
func TestShiftIntervalAgreesWithP(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string, shift float64) []float64 {
			values := rapid.SliceOfNDistinct(rapid.Float64Range(1, 2), 4, 12, rapid.ID[float64]).Draw(t, name)
			for i := range values {
				values[i] += shift
			}
			return values
		}
		a, b := draw("a", 0), draw("b", rapid.Float64Range(-1, 1).Draw(t, "shift"))
		for _, v := range b {
			if slices.Contains(a, v) {
				t.Skip("a tie")
			}
		}
		i, ok := RankSumInterval(Shifts(a, b), len(a), len(b), 0.95)
		if !ok {
			t.Skip("too few")
		}
		if p := RankSumP(a, b); (p < 0.05) != i.ExcludesZero() && math.Abs(p-0.05) > 1e-12 {
			t.Fatalf("p = %v and the interval is [%v, %v]", p, i.Low, i.High)
		}
	})
}
