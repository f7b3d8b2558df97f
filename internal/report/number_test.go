package report

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
)

func TestQuantity(t *testing.T) {
	cases := []struct {
		v    float64
		unit measurement.Unit
		want string
	}{
		{1.19e9, measurement.BitsPerSecond, "1.19 Gbit/s"},
		{999.96e6, measurement.BitsPerSecond, "1.00 Gbit/s"},
		{355.4e6, measurement.BitsPerSecond, "355 Mbit/s"},
		{0, measurement.BitsPerSecond, "0 bit/s"},
		{0.000801, measurement.SecondsUnit, "801 µs"},
		{-0.0005, measurement.SecondsUnit, "−500 µs"},
		{0, measurement.SecondsUnit, "0 ms"},
		{12e-9, measurement.SecondsUnit, "12.0 ns"},
		{1330000, measurement.Bytes, "1.33 MB"},
		{0.0123, measurement.Fraction, "1.23 %"},
		{2694, measurement.Count, "2694"},
		{math.NaN(), measurement.SecondsUnit, "—"},
		{math.Inf(1), measurement.Count, "—"},
	}
	for _, c := range cases {
		if got := strings.ReplaceAll(inBestUnit(c.v, c.unit), nbsp, " "); got != c.want {
			t.Errorf("inBestUnit(%v, %q) = %q, want %q", c.v, c.unit, got, c.want)
		}
	}
}

func TestNumbers(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{quantity.Number(-0.0001, 2), "0.00"}, {quantity.Number(1.5, 1), "1.5"}, {quantity.Signed(0.0001, 1), "0.0"}, {quantity.Signed(2.25, 2), "+2.25"}, {quantity.Signed(-3, 0), "−3"},
		{quantity.Number(3e12, 0), "3e+12"}, {trimmedPercent(0.02), "2" + nbsp + "%"}, {trimmedPercent(0.005), "0.5" + nbsp + "%"},
		{ratioText(3.7449), "3.74×"}, {ratioText(0), ""}, {publishedNumber(2.783), "2.783"}, {publishedNumber(12), "12.0"}, {publishedNumber(0.738), "0.738"},
		{readable("369us"), "369" + nbsp + "µs"}, {readable("12.5Gbit"), "12.5" + nbsp + "Gbit/s"}, {readable("on"), "on"},
		{sentence("adds 2.2 ms to it"), "adds 2.2" + nbsp + "ms to it"}, {sentence("2 makes"), "2 makes"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

// TestCommonScale holds that a column's unit suits all of it.
func TestCommonScale(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   string
	}{
		{[]float64{1.19e9, 355e6, 348e6}, "Mbit/s"}, {[]float64{1.19e9, 1.18e9}, "Gbit/s"}, {nil, "bit/s"}, {[]float64{0, math.NaN()}, "bit/s"},
	} {
		if got := commonScale(measurement.BitsPerSecond, c.values); got.Name != c.want {
			t.Errorf("commonScale(%v) = %s, want %s", c.values, got.Name, c.want)
		}
	}
}

func TestWrapKeepsWidthAndWords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.RuneFrom([]rune("ab cdé 東京ü\u0301😀,"))).Draw(t, "text")
		n := rapid.IntRange(8, 40).Draw(t, "width")
		lines := wrap(text, n)
		for _, l := range lines {
			if columns(l) > n {
				t.Fatalf("%q takes %d columns, more than %d", l, columns(l), n)
			}
		}
		squeeze := func(s string) string { return strings.ReplaceAll(s, " ", "") }
		if got := squeeze(strings.Join(lines, "")); got != squeeze(text) {
			t.Fatalf("%q became %q", text, lines)
		}
	})
}

func TestColumns(t *testing.T) {
	for s, want := range map[string]int{"abc": 3, "東京": 4, "e\u0301": 1, "µs": 2, "": 0} {
		if got := columns(s); got != want {
			t.Errorf("columns(%q) = %d, want %d", s, got, want)
		}
	}
	if got := shorten("東京のルーター", 6); got != "東京…" {
		t.Errorf("shorten = %q", got)
	}
}

// TestTerminalFitsItsWidth holds that no line is wider than asked for, with
// names of wide characters too.
func TestTerminalFitsItsWidth(t *testing.T) {
	r := fixture(t, 10)
	r.Paths[1].Title = "東京のルーターを一つ通る経路"
	for width := 60; width <= 140; width += 10 {
		for l := range strings.Lines(string(terminalText(t, r, Options{Width: width}))) {
			if l = strings.TrimSuffix(l, "\n"); columns(l) > width {
				t.Errorf("width %d: %d columns: %s", width, columns(l), l)
			}
		}
	}
	if s := string(terminalText(t, r, Options{})); strings.Contains(s, "\x1b") {
		t.Error("colour without being asked for")
	}
}

func TestAxisTicks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low := rapid.Float64Range(1e-9, 1e9).Draw(t, "low")
		high := low * rapid.Float64Range(1.0001, 1e9).Draw(t, "factor")
		for _, a := range []axis{logAxis([]float64{low, high}, 0, 100), linearAxis([]float64{low, high}, true, 0, 100, 4)} {
			ticks := a.ticks(8, quantity.Scale{Factor: 1})
			if len(ticks) > 12 {
				t.Fatalf("%d ticks on %+v", len(ticks), a)
			}
			for i, k := range ticks {
				if k.value < a.low*(1-1e-6) || k.value > a.high*(1+1e-6) || (i > 0 && k.value <= ticks[i-1].value) {
					t.Fatalf("tick %v of %+v is outside or out of order", k, a)
				}
			}
			if p := a.at(low); p < -1e-6 || p > 100+1e-6 {
				t.Fatalf("%v lies at %v", low, p)
			}
		}
	})
}

// TestMinMax holds that a reduced line keeps the extremes of every slice.
func TestMinMax(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(-1e6, 1e6), 1, 500).Draw(t, "values")
		n := rapid.IntRange(1, 60).Draw(t, "slices")
		points := make([]point, len(values))
		for i, v := range values {
			points[i] = point{float64(i), v}
		}
		out := minMax(points, n)
		if len(out) > max(2*n, 0) && len(out) != len(points) {
			t.Fatalf("%d points for %d slices", len(out), n)
		}
		low, high := span(values)
		var kept []float64
		for i, p := range out {
			kept = append(kept, p.y)
			if i > 0 && p.x <= out[i-1].x {
				t.Fatal("points are out of order")
			}
		}
		if l, h := span(kept); l != low || h != high {
			t.Fatalf("extremes %v, %v became %v, %v", low, high, l, h)
		}
	})
}

// TestLatencyMerge holds that merging the trials' histograms counts every
// sample of the trials that count.
func TestLatencyMerge(t *testing.T) {
	r := fixture(t, 6)
	m := newModel(r)
	want := int64(0)
	for _, trial := range r.Trials {
		if trial.Path == "direct" && trial.Test == "latency" && trial.Gate.Passed {
			want += trial.Latency.Samples
		}
	}
	got, errs := m.mergeLatency(m.Tests[0], 0, false)
	if len(errs) > 0 || got.total != want {
		t.Fatalf("%d samples, errors %v; want %d", got.total, errs, want)
	}
	curve := got.curve()
	for i := 1; i < len(curve); i++ {
		if curve[i].x < curve[i-1].x || curve[i].y < curve[i-1].y {
			t.Fatalf("the curve falls at point %d: %v after %v", i, curve[i], curve[i-1])
		}
	}
	if last := curve[len(curve)-1].x; last > tail(1-10/float64(want))+1e-9 {
		t.Errorf("the curve goes on to %v with %d samples", last, want)
	}
}

func TestCostWithoutRatio(t *testing.T) {
	column := test{Primary: measurement.Metric{Unit: measurement.BitsPerSecond}, Scale: quantity.Scale{Factor: 1e6, Name: "Mbit/s"}}
	if cost, _, ratio := costText(&measurement.Cost{N: 7, Difference: -5e6}, column); cost != "−5"+nbsp+"Mbit/s" || ratio != "" {
		t.Errorf("a cost without a ratio is %q %q", cost, ratio)
	}
	if cost, _, _ := costText(&measurement.Cost{}, column); cost != "—" {
		t.Errorf("a cost without pairs is %q", cost)
	}
}

// A trace's hops are counts: nobody reads of 2.00 hops. A median between two
// whole counts keeps its half.
func TestWholeCountsAreWrittenWhole(t *testing.T) {
	plain := quantity.Scale{Factor: 1}
	if d := columnDecimals([]float64{1, 2}, []float64{0, 1}, plain); d != 0 {
		t.Errorf("whole counts get %d decimals", d)
	}
	if d := columnDecimals([]float64{1, 2.5}, []float64{0, 1}, plain); d == 0 {
		t.Error("2.5 hops get no decimal")
	}
}

// A drawing shows what a hop is, not how its processor time is measured.
func TestParametersOfADrawing(t *testing.T) {
	got := parameters(map[string]string{"rate": "1Gbit", "account_cpu": "true", "delay": "2us"})
	if want := []pair{{"delay", "2" + nbsp + "µs"}, {"rate", "1" + nbsp + "Gbit/s"}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
