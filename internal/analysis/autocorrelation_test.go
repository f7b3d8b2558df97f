package analysis

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hopbench/hopbench/experiments"
	"github.com/hopbench/hopbench/internal/analysis/statistics"
	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/testutil"
	"github.com/hopbench/hopbench/internal/words"
)

// publishedReadings are the sixty readings of row E4.2, thirty a path.
func publishedReadings(t *testing.T) map[string][]float64 {
	t.Helper()
	data, err := experiment.LoadPublished(experiments.PublishedFile, experiments.Published())
	testutil.OK(t, err)
	out := map[string][]float64{}
	for _, study := range data.Studies {
		for _, s := range study.Settings {
			if readings := s.Readings(goodput); len(readings) > 0 {
				name, _, _ := strings.Cut(s.Path, " ")
				out[name] = readings
			}
		}
	}
	if len(out) != 2 || len(out["public"]) != 30 || len(out["peered"]) != 30 {
		t.Fatalf("the published readings are %v", out)
	}
	return out
}

// The medians and autocorrelations of the published readings, worked out from
// the write-up by others, come out of the data.
func TestPublishedReadings(t *testing.T) {
	readings := publishedReadings(t)
	for _, c := range []struct {
		path      string
		median, r float64
	}{
		{"public", 962.5e6, -0.68},
		{"peered", 962.0e6, -0.50},
	} {
		if got := statistics.Median(readings[c.path]); got != c.median {
			t.Errorf("median of %s is %v, want %v", c.path, got, c.median)
		}
		r, ok := Autocorrelation(readings[c.path])
		if !ok || math.Abs(r-c.r) >= 0.005 {
			t.Errorf("autocorrelation of %s is %v (%v), want %v", c.path, r, ok, c.r)
		}
		if math.Abs(r) <= AutocorrelationLimit(30) {
			t.Errorf("%v of %s is within what independent readings show", r, c.path)
		}
	}
}

// Even if each second is wrongly taken for a trial, no cost is claimed.
func TestReadingsTakenForTrials(t *testing.T) {
	readings := publishedReadings(t)
	a := Analyse(slices.Concat(trialsOf("peered", flows1.Name, goodput, readings["peered"]...), trialsOf("public", flows1.Name, goodput, readings["public"]...)),
		[]result.TestInfo{flows1}, pathsNamed("peered", "public"), Options{})
	if c := only(t, a); c.Verdict != result.NoCost || c.Bound > 0.01 || *c.P < 0.05 {
		t.Errorf("%+v", c)
	}
}

// One run per path is one trial per path: whatever its readings, no difference
// may be claimed, neither as a cost nor as the absence of one.
func TestNothingIsClaimedFromOneRun(t *testing.T) {
	readings := publishedReadings(t)
	paths := pathsNamed("public", "peered")
	one := slices.Concat(trialsOf("public", "flows-1", goodput, statistics.Mean(readings["public"])), trialsOf("peered", "flows-1", goodput, statistics.Mean(readings["peered"])))
	a := Analyse(one, []result.TestInfo{flows1}, paths, DefaultOptions())
	cost := only(t, a)
	if cost.N != 1 || cost.Verdict != result.TooFewBlocks || cost.Low != nil || cost.P != nil || cost.RepetitionsNeeded < 6 {
		t.Errorf("from one run per path: %+v", cost)
	}
	for _, c := range a.Cells {
		if c.Low != nil {
			t.Errorf("one trial has the interval [%v, %v]", *c.Low, *c.High)
		}
	}
	// Nor when the two are compared with each other as runs.
	asRun := func(label, path string) LabelledRun {
		return LabelledRun{Label: label, Result: &result.Result{Paths: pathsNamed("path"), Tests: []result.TestInfo{flows1},
			Trials: trialsOf("path", "flows-1", goodput, statistics.Mean(readings[path]))}}
	}
	changes, notes := compared(asRun("A", "public"), asRun("B", "peered"))
	if len(changes) != 1 || changes[0].Verdict != result.NotResolved || changes[0].Low != nil || changes[0].P != nil || changes[0].Worse() {
		t.Errorf("one run against one run: %+v", changes)
	}
	if !strings.Contains(said(changes[0]), "one run on each side does not show by how much") || len(notes) > 0 { // nor would more trials
		t.Errorf("%s\n%s", said(changes[0]), notesText(notes))
	}
	for path, want := range map[string]string{"public": "−0.68", "peered": "−0.50"} {
		note, _ := ReadingsNote(readings[path])
		text := words.Names{}.Note(note)
		for _, part := range []string{"30 readings", "one trial", "no difference", want, "±0.36"} {
			if !strings.Contains(text, part) {
				t.Errorf("the sentence on %s does not say %q: %s", path, part, text)
			}
		}
	}
}

func wholeNumbers(values []int) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = float64(v)
	}
	return out
}

func TestAutocorrelation(t *testing.T) {
	for _, c := range []struct {
		readings []float64
		want     float64
		ok       bool
	}{
		{nil, 0, false},
		{[]float64{1, 2}, 0, false},
		{[]float64{5, 5, 5, 5}, 0, false},
		{[]float64{0.1, 0.1, 0.1}, 0, false},
		{[]float64{1, -1, 1, -1}, -0.75, true},
		// Mean 2.5: (1.5·0.5 − 0.5·0.5 + 0.5·1.5)/(2·(1.5² + 0.5²)) = 1.25/5.
		{[]float64{1, 2, 3, 4}, 0.25, true},
		{[]float64{1e300, -1e300, 1e300}, 0, false}, // its squares overflow
	} {
		got, ok := Autocorrelation(c.readings)
		if ok != c.ok || math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v: %v, %v; want %v, %v", c.readings, got, ok, c.want, c.ok)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		readings := rapid.SliceOfN(rapid.Float64Range(-1e6, 1e6), 3, 40).Draw(t, "readings")
		r, ok := Autocorrelation(readings)
		if ok && (math.IsNaN(r) || math.Abs(r) > 1+1e-9) {
			t.Fatalf("%v of %v", r, readings)
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		// Whole numbers, so that moving and stretching them loses no digits.
		readings := wholeNumbers(rapid.SliceOfN(rapid.IntRange(-1e6, 1e6), 3, 40).Draw(t, "readings"))
		moved := make([]float64, len(readings))
		for i, v := range readings {
			moved[i] = 1e3 + 7*v
		}
		r, ok := Autocorrelation(readings)
		if s, same := Autocorrelation(moved); same != ok || math.Abs(r-s) > 1e-9 {
			t.Fatalf("%v (%v) becomes %v (%v) when the readings are moved and stretched", r, ok, s, same)
		}
	})
	for i := range 3 {
		if note, ok := ReadingsNote(make([]float64, i)); ok {
			t.Errorf("%d readings have the note %+v", i, note)
		}
	}
	if note, ok := ReadingsNote([]float64{7, 7, 7}); !ok || note.Autocorrelation != nil {
		t.Errorf("readings that are all the same have the note %+v", note)
	}
	if note, _ := ReadingsNote([]float64{1, 2, 3}); note.Count != 3 || !strings.Contains(words.Names{}.Note(note), "within the ±") {
		t.Errorf("three readings have the note %+v", note)
	}
}
