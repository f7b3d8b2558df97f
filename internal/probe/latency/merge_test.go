package latency

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/testutil"
)

// Merging what several recorders saw is as recording all of it in one.
func TestMerge(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	all := New()
	var parts []measurement.Distribution
	for i := range 5 {
		one := New()
		for range 3000 * i { // the first is empty
			d := time.Duration(rng.ExpFloat64()*1e6) + time.Duration(i)*time.Millisecond
			one.Record(d)
			all.Record(d)
		}
		parts = append(parts, one.Distribution())
	}
	merged, err := Merge(parts)
	testutil.OK(t, err)
	got := merged.Distribution()
	want := all.Distribution()
	if got.Samples != want.Samples || got.Min != want.Min || got.Max != want.Max {
		t.Errorf("got %d samples from %v to %v, want %d from %v to %v", got.Samples, got.Min, got.Max, want.Samples, want.Min, want.Max)
	}
	same := func(what string, got, want measurement.Seconds) {
		t.Helper()
		if math.Abs(float64(got-want)) > 1e-9*math.Abs(float64(want)) {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	same("mean", got.Mean, want.Mean)
	same("standard deviation", got.StdDev, want.StdDev)
	if len(got.Percentiles) != len(want.Percentiles) {
		t.Fatalf("%d percentiles, want %d", len(got.Percentiles), len(want.Percentiles))
	}
	for i, p := range got.Percentiles {
		same("a percentile", p.Value, want.Percentiles[i].Value)
	}
}

func TestMergeRefusesNonsense(t *testing.T) {
	if _, err := Merge([]measurement.Distribution{{Samples: 3, HDR: []byte("nonsense")}}); err == nil {
		t.Error("nonsense was merged")
	}
	if r, err := Merge(nil); err != nil || r.Samples() != 0 {
		t.Errorf("nothing merged is %+v, %v", r, err)
	}
}
