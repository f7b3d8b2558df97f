package report

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/words"
)

func TestNumbers(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{quantity.Number(-0.0001, 2), "0.00"}, {quantity.Number(1.5, 1), "1.5"}, {quantity.Signed(0.0001, 1), "0.0"}, {quantity.Signed(2.25, 2), "+2.25"}, {quantity.Signed(-3, 0), "−3"},
		{quantity.Number(3e12, 0), "3e+12"},
		{sentence("adds 2.2 ms to it"), "adds 2.2" + words.NBSP + "ms to it"}, {sentence("2 makes"), "2 makes"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
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

func TestReadable(t *testing.T) {
	for given, want := range map[string]string{"369us": "369" + words.NBSP + "µs", "12.5Gbit": "12.5" + words.NBSP + "Gbit/s", "on": "on"} {
		if got := readable(given); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestShellWord(t *testing.T) {
	for given, want := range map[string]string{"routing-appliance": "routing-appliance", "./my file's.yaml": `'./my file'\''s.yaml'`, "--seed": "--seed", "": "''"} {
		if got := shellWord(given); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A drawing shows what a hop is, not how its processor time is measured.
func TestParametersOfADrawing(t *testing.T) {
	got := parameters(map[string]string{"rate": "1Gbit", "account_cpu": "true", "delay": "2us"})
	if want := []pair{{"delay", "2" + words.NBSP + "µs"}, {"rate", "1" + words.NBSP + "Gbit/s"}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
