package statistics

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// What Select moves is in place as sorting has it, with ties, infinities and NaN, which comes first.
func TestSelectMatchesSorting(t *testing.T) {
	values := rapid.OneOf(
		rapid.Map(rapid.IntRange(-4, 4), func(i int) float64 { return float64(i) / 2 }),
		rapid.Float64(), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1)}),
	)
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SliceOfN(values, 1, 300).Draw(t, "values")
		k := rapid.IntRange(0, len(s)-1).Draw(t, "k")
		sorted := slices.Clone(s)
		slices.Sort(sorted)
		if got := Select(s, k); cmp.Compare(got, sorted[k]) != 0 || cmp.Compare(s[k], got) != 0 {
			t.Fatalf("rank %d is %v, and %v in its place; sorted %v", k, got, s[k], sorted[k])
		}
		slices.Sort(s[:k])
		slices.Sort(s[k+1:])
		if slices.CompareFunc(s, sorted, cmp.Compare[float64]) != 0 {
			t.Fatalf("around rank %d are %v, sorted %v", k, s, sorted)
		}
	})
}

// Values for which each pivot is the worst are sorted instead.
func TestSelectOfBadPivots(t *testing.T) {
	s := make([]float64, 1<<16)
	for i := range s { // an organ pipe, whose ends and middle are no good pivots
		s[i] = float64(min(i, len(s)-1-i))
	}
	want := MedianOfSorted(slices.Sorted(slices.Values(s)))
	if got := Median(s); got != want {
		t.Errorf("the median is %v, want %v", got, want)
	}
}
