package analysis

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
	"github.com/hopbench/hopbench/internal/words"
)

// publishedRun is a run at 1:10 of a direct path at 1.2 Gbit/s and a hop at 0.36.
func publishedRun(relative bool) *result.Result {
	ping := result.TestInfo{Name: "ping", Spec: measurement.Spec{Kind: measurement.Ping}}
	trace := result.TestInfo{Name: "trace", Spec: measurement.Spec{Kind: measurement.Trace}}
	const low, hops, loss = "rtt_min_seconds", "hops_count", "loss_fraction"
	trials := slices.Concat(
		trialsOf("direct", "flows-1", goodput, around(1.2e9, 0.01, 8, 0)...), trialsOf("hop", "flows-1", goodput, around(0.36e9, 0.01, 8, 2)...),
		trialsOf("direct", "ping", low, around(0.8e-3, 0.01, 8, 0)...), trialsOf("hop", "ping", low, around(3e-3, 0.01, 8, 2)...),
		trialsOf("direct", "trace", hops, 1, 1, 1, 1, 1, 1), trialsOf("hop", "trace", hops, 8, 8, 8, 8, 8, 8),
		trialsOf("hop", "few", goodput, 1e8, 1e8, 1e8), trialsOf("hop", "again", "retransmitted_segments", 300, 310, 320, 330, 340, 350, 360, 370))
	trials = append(trials, trialsOf("hop", "ping", loss, 0, 0, 0, 0, 0, 0, 0, 0)...)
	for i := range trials {
		if _, ok := trials[i].Metrics[loss]; ok {
			trials[i].Test = "loss"
		}
	}
	lossTest := result.TestInfo{Name: "loss", Spec: measurement.Spec{Kind: measurement.Ping}}
	r := &result.Result{
		Experiment: result.ExperimentInfo{Scale: 10, Baseline: "direct"}, Testbed: result.Testbed{Relative: relative},
		Paths: pathsNamed("direct", "hop"), Tests: []result.TestInfo{flows1, ping, trace, lossTest, {Name: "few", Spec: measurement.Spec{Kind: measurement.TCP}}, {Name: "again", Spec: measurement.Spec{Kind: measurement.TCP}}}, Trials: trials,
	}
	a := Analyse(trials, r.Tests, r.Paths, DefaultOptions())
	r.Cells, r.Costs = a.Cells, a.Costs
	return r
}

func TestComparePublished(t *testing.T) {
	within := func(v float64) *float64 { return &v }
	figures := []result.Figure{
		{ID: "1", Path: "direct", Test: "flows-1", Metric: goodput, Value: 12e9, Tolerance: within(0.05)},
		{ID: "2", Path: "hop", Test: "flows-1", Metric: goodput, Value: 3.56e9, Tolerance: within(0.05)},
		{ID: "3", Path: "hop", Test: "ping", Metric: "rtt_min_seconds", Value: 2.994e-3, Tolerance: within(0.05)},
		{ID: "4", Path: "direct", Test: "ping", Metric: "rtt_min_seconds", Value: 0.738e-3},
		{ID: "5", Path: "hop", Test: "trace", Metric: "hops_count", Value: 8, Tolerance: within(0)},
		{ID: "6", Path: "hop", Test: "flows-1", Metric: "retransmitted_segments", Value: 5, Tolerance: within(1)},
		{ID: "7", Path: "hop", Test: "loss", Metric: "loss_fraction", Value: 0, Tolerance: within(0)},
		{ID: "8", Path: "nowhere", Test: "flows-1", Metric: goodput, Value: 1e9, Tolerance: within(0.1)},
		{ID: "9", Path: "direct", Test: "trace", Metric: "hops_count", Value: 2, Tolerance: within(0.1)},
		{ID: "10", Path: "hop", Test: "again", Metric: "retransmitted_segments", Value: 350, Tolerance: within(0.01)},
		{ID: "11", Path: "hop", Test: "few", Metric: goodput, Value: 1e9, Tolerance: within(0.5)},
		{ID: "12", Path: "hop", Test: "again", Metric: "retransmitted_segments", Value: 385, ToleranceFactor: 10},
		{ID: "13", Path: "hop", Test: "again", Metric: "retransmitted_segments", Value: 6, ToleranceFactor: 10},
	}
	type want struct {
		basis     result.Basis
		judgement result.Judgement
		off       float64 // NaN for none
		says      string
	}
	nan := math.NaN()
	for relative, wants := range map[bool][]want{
		true: {
			{result.BasisValue, result.Inside, 0, "12.0 Gbit/s, published 12.0 Gbit/s"},
			{result.BasisRatio, result.Inside, 0.0112, "0.301× the baseline's, published 0.297×"},
			{result.BasisRatio, result.Outside, -0.0757, "outside 5 %"},
			{result.BasisValue, result.NotJudged, 0.084, "800 µs, published 738 µs"},
			{result.BasisValue, result.Inside, 0, "hops is 8, published 8"},
			{result.BasisValue, result.NotMeasured, nan, "was not measured"},
			{result.BasisValue, result.Inside, nan, "loss is 0 %, published 0 %"},
			{result.BasisValue, result.NotMeasured, nan, "was not measured"},
			{result.BasisValue, result.Outside, -0.5, "outside 10 %"},
			{result.BasisValue, result.Undecided, -0.043, "undecided at 1 %"},
			{result.BasisValue, result.Undecided, 0, "undecided at 50 %"},
			{result.BasisValue, result.Inside, -0.13, "inside a factor of 10"},
			{result.BasisValue, result.Outside, 54.8, "outside a factor of 10"},
		},
		// Where absolutes count, the rate and the time are compared themselves.
		false: {
			{result.BasisValue, result.Inside, 0, ""},
			{result.BasisValue, result.Inside, 0.0112, "3.60 Gbit/s, published 3.56 Gbit/s"},
			{result.BasisValue, result.Inside, 0.002, "3.00 ms, published 2.99 ms"},
			{result.BasisValue, result.NotJudged, 0.084, ""},
			{result.BasisValue, result.Inside, 0, ""},
			{result.BasisValue, result.NotMeasured, nan, ""},
			{result.BasisValue, result.Inside, nan, ""},
			{result.BasisValue, result.NotMeasured, nan, ""},
			{result.BasisValue, result.Outside, -0.5, ""},
			{result.BasisValue, result.Undecided, -0.043, ""},
			{result.BasisValue, result.Undecided, 0, ""},
			{result.BasisValue, result.Inside, -0.13, ""},
			{result.BasisValue, result.Outside, 54.8, ""},
		},
	} {
		for i, h := range ComparePublished(publishedRun(relative), figures) {
			w := wants[i]
			off := nan
			if h.Off != nil {
				off = *h.Off
			}
			sameOff := math.IsNaN(off) && math.IsNaN(w.off) || math.Abs(off-w.off) < 0.01*(1+math.Abs(w.off))
			if h.Basis != w.basis || h.Judgement != w.judgement || !sameOff || !strings.Contains(plain(words.Names{}.Published(h)), w.says) {
				t.Errorf("relative %v, figure %s: %s, %s, off %v: %s\nwant %+v", relative, h.ID, h.Basis, h.Judgement, off, words.Names{}.Published(h), w)
			}
		}
	}
	figured := ComparePublished(publishedRun(true), figures)
	for i, why := range []string{"−0.050 % off", "0.301× the baseline [", "3.76× the baseline [3.72, 3.78], published 4.06×", "no tolerance is stated", "0.0 % off",
		"none of its counted trials has this metric", "as published", "it has no trial", "50.0 % off",
		"the interval is on both sides of the tolerance", "too few trials for an interval"} {
		if !strings.Contains(plain(words.JudgementReason(figured[i])), why) {
			t.Errorf("figure %s: because %q, want %q", figured[i].ID, words.JudgementReason(figured[i]), why)
		}
	}
	if h := figured[1]; h.InInterval == nil || h.RatioLow == nil || h.Factor != 10 || h.N != 8 || math.Abs(h.Measured-3.6e9) > 0.05e9 {
		t.Errorf("of a rate on a relative testbed: %+v", h)
	}
	if h := figured[2]; h.RatioLow == nil || h.InInterval == nil {
		t.Errorf("a metric that no cost is worked out for has no interval of its ratio: %+v", h)
	}
	// Without a value of the baseline there is no ratio, and a value alone says nothing there.
	without := publishedRun(true)
	without.Trials = slices.DeleteFunc(without.Trials, func(t measurement.Trial) bool { return t.Path == "direct" && t.Test == "flows-1" })
	without.Cells = Analyse(without.Trials, without.Tests, without.Paths, DefaultOptions()).Cells
	if h := ComparePublished(without, figures)[1]; h.Basis != result.BasisRatio || h.Judgement != result.Undecided || h.Off != nil || h.InInterval != nil || h.MeasuredRatio != 0 || h.N != 8 ||
		plain(words.JudgementReason(h)) != "the baseline, whose value it is divided by, has none, published 0.297× the baseline" ||
		!strings.Contains(plain(words.Names{}.Published(h)), "goodput was published as 0.297× the baseline's, which has no value here, undecided at 5 %") {
		t.Errorf("%+v\n%s\n%s", h, words.JudgementReason(h), words.Names{}.Published(h))
	}
	// The baseline's value is found among the experiment's own figures when only
	// some are chosen.
	r := publishedRun(true)
	r.Experiment.Published = figures
	if h := ComparePublished(r, figures[1:2])[0]; h.Basis != result.BasisRatio {
		t.Errorf("alone: %+v", h)
	}
	if h := ComparePublished(publishedRun(true), figures[1:2])[0]; h.Basis != result.BasisValue {
		t.Errorf("without the baseline's: %+v", h)
	}
}

// What comes from a file may be anything; nothing that is not finite comes out.
func TestComparePublishedStaysFinite(t *testing.T) {
	for _, v := range []float64{0, -1, 1e308, -1e308, 5e-324, math.NaN(), math.Inf(1)} {
		for _, w := range []float64{0, 1, 1e308, 5e-324, math.NaN()} {
			r := publishedRun(true)
			for i := range r.Cells {
				r.Cells[i].Median, r.Cells[i].Low, r.Cells[i].High = v, &v, &v
			}
			for i := range r.Costs {
				r.Costs[i].Ratio = v
			}
			for _, h := range ComparePublished(r, []result.Figure{
				{Path: "direct", Test: "flows-1", Metric: goodput, Value: w}, {Path: "hop", Test: "flows-1", Metric: goodput, Value: 2 * w, Tolerance: &w}}) {
				for _, x := range []float64{h.Measured, h.Ratio, h.MeasuredRatio, h.PublishedRatio} {
					if math.IsNaN(x) || math.IsInf(x, 0) {
						t.Errorf("median %v, published %v: %+v", v, w, h)
					}
				}
				if h.Off != nil && (math.IsNaN(*h.Off) || math.IsInf(*h.Off, 0)) {
					t.Errorf("median %v, published %v: off by %v", v, w, *h.Off)
				}
			}
		}
	}
}

// A figure is bound to the flows and the duration that it was published with,
// and only predictions are counted.
func TestPublishedCounts(t *testing.T) {
	r := publishedRun(false)
	for i := range r.Tests {
		r.Tests[i].Spec.Duration = 1
	}
	share, far := 0.05, 0.2
	figure := func(kind result.FigureKind, value float64, tolerance *float64, flows int, duration measurement.Seconds) result.Figure {
		return result.Figure{ID: "E", Path: "direct", Test: "flows-1", Metric: goodput, Value: value, Kind: kind, Tolerance: tolerance, Flows: flows, Duration: duration}
	}
	compared := ComparePublished(r, []result.Figure{
		figure(result.FigurePredicted, 12e9, &share, 1, 1),
		figure(result.FigurePredicted, 15e9, &share, 0, 0),
		figure(result.FigurePredicted, 15e9, &far, 1, 1),
		figure(result.FigurePredicted, 12e9, &share, 64, 1),
		figure(result.FigurePredicted, 12e9, &share, 1, 30),
		figure(result.FigurePlanted, 12e9, &share, 1, 1),
		figure(result.FigureOpen, 12e9, nil, 1, 30),
	})
	want := result.PublishedCount{Inside: 1, Outside: 1, Undecided: 1, Uncounted: 2, Planted: 1, Open: 1}
	if got := result.CountPublished(compared); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
	for i, says := range map[int]string{
		0: "inside 5 %",
		3: "inside 5 %; measured with 1 flow, published with 64: not counted",
		4: "inside 5 %; measured over 1.00 s, published over 30.0 s: not counted",
		5: "E (planted), direct",
		6: "0.050 % off; measured over 1.00 s, published over 30.0 s",
	} {
		if got := plain(words.Names{}.Published(compared[i])); !strings.Contains(got, says) {
			t.Errorf("figure %d: %q lacks %q", i, got, says)
		}
	}
	got := plain(strings.Join(words.Tally(compared), " "))
	for _, says := range []string{"1 of 3 predictions inside, 1 undecided; 2 predictions not counted; 1 figure is planted.", "are not counted", "A planted figure is"} {
		if !strings.Contains(got, says) {
			t.Errorf("%q lacks %q", got, says)
		}
	}
}

// A figure of another study is not compared with the baseline that the experiment's own study
// has: nobody published such a ratio.
func TestFigureOfAnotherStudyHasNoBaseline(t *testing.T) {
	r := publishedRun(true)
	own := []result.Figure{{ID: "E5.1", Path: "direct", Test: "flows-1", Metric: goodput, Value: 12e9}, {ID: "E5.2", Path: "hop", Test: "flows-1", Metric: goodput, Value: 3.56e9}}
	r.Experiment.Published = own
	other := result.Figure{ID: "E1.3", Path: "hop", Test: "flows-1", Metric: goodput, Value: 2e9, Kind: result.FigureOpen}
	its := result.Figure{ID: "E1.1", Path: "direct", Test: "flows-1", Metric: goodput, Value: 4e9, Kind: result.FigureOpen}
	for name, c := range map[string]struct {
		figures []result.Figure
		basis   result.Basis
		ratio   float64
	}{
		"alone":                       {[]result.Figure{other}, result.BasisValue, 0},
		"with that of its study":      {[]result.Figure{other, its}, result.BasisRatio, 0.5},
		"one of the experiment alone": {own[1:], result.BasisRatio, 3.56 / 12},
	} {
		if got := ComparePublished(r, c.figures)[0]; got.Basis != c.basis || !near(got.PublishedRatio, c.ratio, 1e-9) {
			t.Errorf("%s: %s, %v: %s", name, got.Basis, got.PublishedRatio, words.Names{}.Published(got))
		}
	}
}
