package latency

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/testutil"
)

func near(t *testing.T, what string, got, want, relative float64) {
	t.Helper()
	if math.Abs(got-want) > relative*math.Abs(want)+1e-15 {
		t.Errorf("%s = %g, want %g within %g", what, got, want, relative)
	}
}

// Every accumulator against its plain definition, on random input.
func TestAgainstNaive(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 20, 999, 1000, 1024, 1025, 50_000} {
		r := New()
		samples := make([]float64, n)
		for i := range samples {
			d := time.Duration(50_000 + rng.ExpFloat64()*200_000)
			samples[i] = float64(d) / 1e9
			r.Record(d)
		}
		var sum, squares float64
		for _, s := range samples {
			sum += s
		}
		mean := sum / float64(n)
		for _, s := range samples {
			squares += (s - mean) * (s - mean)
		}
		slices.Sort(samples)
		d := r.Distribution()
		if d.Samples != int64(n) {
			t.Fatalf("samples = %d, want %d", d.Samples, n)
		}
		near(t, "min", float64(d.Min), samples[0], 1e-12)
		near(t, "max", float64(d.Max), samples[n-1], 1e-12)
		near(t, "mean", float64(d.Mean), mean, 1e-9)
		near(t, "sd", float64(d.StdDev), math.Sqrt(squares/float64(n)), 1e-9)
		for _, p := range d.Percentiles {
			pos := p.Percent / 100 * float64(n-1)
			// One rank of slack: the histogram rounds a rank, the exact path interpolates.
			lo, hi := samples[max(int(pos)-1, 0)], samples[min(int(pos)+2, n-1)]
			if v := float64(p.Value); v < lo*0.998 || v > hi*1.002 {
				t.Errorf("n=%d p%g = %g, want within [%g, %g]", n, p.Percent, v, lo, hi)
			}
		}
		m := measurement.Metrics{}
		r.FillMetrics(m, measurement.RR)
		if _, ok := m["rtt_p99_seconds"]; ok != (n >= 1000) {
			t.Errorf("n=%d: p99 present = %v", n, ok)
		}
		if n%2 == 0 && n <= exactSamples {
			near(t, "p50", m["rtt_p50_seconds"], (samples[n/2-1]+samples[n/2])/2, 1e-12)
		}
		h, err := Decode(d.HDR)
		testutil.OK(t, err)
		if h.TotalCount() != int64(n) {
			t.Errorf("decoded histogram holds %d samples, want %d", h.TotalCount(), n)
		}
	}
}

func TestPercentilesNeedTenSamplesBeyond(t *testing.T) {
	for _, c := range []struct {
		n    int
		want []float64
	}{
		{0, nil}, {19, nil}, {20, []float64{50}}, {40, []float64{25, 30, 40, 50, 60, 70, 75}},
	} {
		r := New()
		for range c.n {
			r.Record(time.Millisecond)
		}
		var got []float64
		for _, p := range r.Distribution().Percentiles {
			got = append(got, p.Percent)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("n=%d: percentiles %v, want %v", c.n, got, c.want)
		}
	}
	r := New()
	for range 1000 {
		r.Record(time.Millisecond)
	}
	got := r.Distribution().Percentiles
	if last := got[len(got)-1].Percent; last != 99 {
		t.Errorf("highest percentile of 1000 samples is %g, want 99", last)
	}
}

func TestOutOfRange(t *testing.T) {
	r := New()
	r.Record(-time.Second)
	r.Record(2 * highest)
	d := r.Distribution()
	if d.Samples != 2 || d.Min != 0 || d.Max != measurement.SecondsOf(2*highest) {
		t.Errorf("got %+v", d)
	}
	if h, err := Decode(d.HDR); err != nil || h.TotalCount() != 2 {
		t.Errorf("histogram lost a sample: %v", err)
	}
}

func TestFillMetricsByKind(t *testing.T) {
	r := New()
	m := measurement.Metrics{}
	r.FillMetrics(m, measurement.Ping)
	if len(m) != 0 {
		t.Errorf("no samples gave %v", m)
	}
	for range 2000 {
		r.Record(time.Millisecond)
	}
	r.FillMetrics(m, measurement.Ping)
	if _, ok := m["rtt_p99_seconds"]; ok || len(m) != 5 {
		t.Errorf("ping metrics: %v", m)
	}
}

func TestJSON(t *testing.T) {
	r := New()
	r.Record(time.Millisecond)
	d := r.Distribution()
	if d.Samples != 1 || d.Max != 0.001 {
		t.Fatalf("one sample: %+v", d)
	}
	text, err := json.Marshal(d)
	testutil.OK(t, err)
	var back measurement.Distribution
	testutil.OK(t, json.Unmarshal(text, &back))
	if _, err := Decode(back.HDR); err != nil {
		t.Error(err)
	}
	if _, err := Decode([]byte("junk")); err == nil {
		t.Error("junk was decoded")
	}
}

func TestRecordDoesNotAllocate(t *testing.T) {
	r := New()
	if n := testing.AllocsPerRun(5000, func() { r.Record(53 * time.Microsecond) }); n != 0 {
		t.Errorf("Record allocates %v times", n)
	}
}

// The steps of a coarse clock show in the smallest distance between two times; pairs have
// the coarsest of theirs.
func TestResolution(t *testing.T) {
	of := func(times ...time.Duration) measurement.Distribution {
		r := New()
		for _, d := range times {
			r.Record(d)
		}
		return r.Distribution()
	}
	coarse, fine := of(31*time.Millisecond, 30*time.Millisecond, 30*time.Millisecond, 33*time.Millisecond), of(1200*time.Nanosecond, 1207*time.Nanosecond)
	for _, c := range []struct {
		d    measurement.Distribution
		want measurement.Seconds
	}{{coarse, 1e-3}, {fine, 7e-9}, {of(30*time.Millisecond, 30*time.Millisecond), 30e-3}, {of(30 * time.Millisecond), 0}} {
		if math.Abs(float64(c.d.Resolution-c.want)) > 1e-12 {
			t.Errorf("%v, want %v", c.d.Resolution, c.want)
		}
	}
	both, err := Merge([]measurement.Distribution{fine, coarse, fine})
	testutil.OK(t, err)
	if got := both.Distribution().Resolution; got != coarse.Resolution {
		t.Errorf("together %v, want %v", got, coarse.Resolution)
	}
}
