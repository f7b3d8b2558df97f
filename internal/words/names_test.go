package words

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/result"
)

func plain(s string) string { return strings.ReplaceAll(s, NBSP, " ") }

func TestNumbers(t *testing.T) {
	estimate := func(v, low, high float64, u measurement.Unit, signed bool) string {
		return joined(Estimate(v, &low, &high, u, signed))
	}
	ratio := func(x, low, high float64) string { return joined(ratioEstimate(x, &low, &high)) }
	for _, c := range []struct{ got, want string }{
		{Rate(1.19e9), "1.19 Gbit/s"}, {Rate(999.96e6), "1.00 Gbit/s"}, {Rate(355.4e6), "355 Mbit/s"}, {Rate(12), "12.0 bit/s"}, {Rate(0), "0 bit/s"},
		{Time(0.000801), "801 µs"}, {Time(-0.0005), "−500 µs"}, {Time(0), "0 ms"}, {Time(12e-9), "12.0 ns"}, {Time(0.0029944), "2.99 ms"},
		{Value(1330000, measurement.Bytes), "1.33 MB"}, {Value(0.0123, measurement.Fraction), "1.23 %"}, {Value(2694, measurement.Count), "2694"},
		{Value(math.NaN(), measurement.SecondsUnit), None}, {Value(math.Inf(1), measurement.Count), None},
		{Percent(0.02), "2 %"}, {Percent(0.005), "0.5 %"}, {Percent(0.125), "12.5 %"}, {Percent(0.0037), "0.37 %"}, {Percent(0.2), "20 %"}, {Percent(0), "0 %"},
		{Share(0.974), "97 %"}, {Share(0.001), "< 1 %"}, {Share(0.005), "< 1 %"}, {Share(0), "0 %"},
		{Ratio(3.7449), "3.74×"}, {Ratio(1.031), "1.031×"}, {Ratio(123.4), "123×"}, {Ratio(0), ""}, {Ratio(math.Inf(1)), ""},
		{ratio(3.71, 3.69, 3.74), "3.71× [3.69, 3.74]"}, {ratio(0.298, 0.2975, 0.2985), "0.2980× [0.2975, 0.2985]"},
		{ratio(0.00123, 0.001225, 0.001235), "0.001230× [0.001225, 0.001235]"}, {ratio(0.0001, 0.00009, 0.00011), "0.000100× [0.000090, 0.000110]"},
		{estimate(2e-7, 3.5e-8, 1.1e-6, measurement.Fraction, false), "0.000020 % [0.000004, 0.000110]"}, {estimate(0, 0, 7.7e-7, measurement.Fraction, false), "0.000000 % [0.000000, 0.000077]"},
		{Loss(1e-7, 1e7), "0.000010 % [0.000002, 0.000057]"}, {Loss(0, 1e7), "0.000000 % [0.000000, 0.000038]"}, {Loss(0, 1e5), "0.0000 % [0.0000, 0.0038]"},
		{estimate(0.701, 0.698, 0.704, measurement.Fraction, false), "70.1 % [69.8, 70.4]"},
		{estimate(2.26e-3, 2.25e-3, 2.27e-3, measurement.SecondsUnit, false), "2.26 ms [2.25, 2.27]"},
		{estimate(-0.004, -0.031, 0.025, measurement.Fraction, true), "−0.4 % [−3.1, +2.5]"},
		{estimate(-0.0001, -0.031, 0.025, measurement.Fraction, true), "−0.01 % [−3.10, +2.50]"},
		{estimate(2.28e-3, -75.6e-3, 2.4e-3, measurement.SecondsUnit, true), "+2.3 ms [−75.6, +2.4]"},
		{estimate(2.3e-3, -315e-3, 12e-3, measurement.SecondsUnit, true), "+2 ms [−315, +12]"},
		// A claim is never of an interval that reads as if 0 were in it.
		{estimate(0.035, 0.0003, 0.069, measurement.Fraction, false), "3.50 % [0.03, 6.90]"},
		{estimate(-12e-6, -30e-6, -0.01e-6, measurement.SecondsUnit, true), "−12.00 µs [−30.00, −0.01]"},
		{estimate(0.035, 0, 0.069, measurement.Fraction, false), "3.5 % [0.0, 6.9]"},
		{withSign(-0.501, measurement.Fraction), "−50.1 %"}, {withSign(0, measurement.Fraction), "0.0 %"},
		{P(0.00001), "p < 0.0001"}, {P(0.0123), "p = 0.012"}, {P(0.05), "p = 0.05"}, {P(0.04998), "p = 0.04998"}, {P(0.0504), "p = 0.0504"}, {P(0.0506), "p = 0.051"}, {Scale(2.5), "2.5"},
		{Printed(2.783e-3, quantity.Scale{Factor: 1e-3, Name: "ms"}), "2.783 ms"}, {Printed(12e9, quantity.Scale{Factor: 1e9, Name: "Gbit/s"}), "12.0 Gbit/s"},
		{List(nil), ""}, {List([]string{"a"}), "a"}, {List([]string{"a", "b", "c"}), "a, b and c"},
	} {
		if plain(c.got) != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

// A value far below those of its column is not nothing.
func TestColumnOfALowValue(t *testing.T) {
	column := NewColumn(measurement.BitsPerSecond, []float64{1.19e9, 1.18e9}, nil)
	for v, want := range map[float64]string{1e5: "100 kbit/s", 6e6: "0.01 Gbit/s", 0: "0.00 Gbit/s", 1.19e9: "1.19 Gbit/s"} {
		if got := plain(column.Write(v)); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
}

// A name from right to left does not take what follows with it; any other is as it is given.
func TestNamesFromRightToLeft(t *testing.T) {
	for name, want := range map[string]string{"שלום": "שלום\u200e", "مسار 2": "مسار 2\u200e", "מסלול (a)": "מסלול (a)", "two appliances": "two appliances", "路径": "路径", "": ""} {
		if got := NamesOf([]result.Title{{Name: "p", Title: name}}, nil).Path("p"); name != "" && got != want {
			t.Errorf("%q is written %q, want %q", name, got, want)
		}
		if got := LeftToRight(name); got != want {
			t.Errorf("%q becomes %q, want %q", name, got, want)
		}
	}
}

// A measured share of zero has the interval that it has.
func TestMeasuredZero(t *testing.T) {
	low, high, percent := 0.0, 0.00384, quantity.ScaleFor(measurement.Fraction, 0)
	for want, write := range map[string]func() (string, string){
		"0.000 % [0.000, 0.384]": func() (string, string) { return Measured(0, &low, &high, percent) },
		"0 %":                    func() (string, string) { return Measured(0, nil, nil, percent) },
	} {
		if got := plain(joined(write())); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A column has one unit and one number of decimals, unless its values are too
// far apart. A trace's hops are counts: nobody reads of 2.00 hops.
func TestColumn(t *testing.T) {
	for _, c := range []struct {
		unit           measurement.Unit
		values, widths []float64
		want           string
	}{
		{measurement.BitsPerSecond, []float64{1.19e9, 355e6, 348e6}, nil, "1190 Mbit/s, 355 Mbit/s, 348 Mbit/s"},
		{measurement.BitsPerSecond, []float64{1.19e9, 1.18e9}, []float64{0.002e9}, "1.190 Gbit/s, 1.180 Gbit/s"},
		{measurement.SecondsUnit, []float64{42e-6, 10.2055e-3}, nil, "42.0 µs, 10.2 ms"},
		{measurement.BitsPerSecond, []float64{16.0083e9, 0.1913e9}, []float64{0.1e9, 0.0001e9}, "16.0 Gbit/s, 191 Mbit/s"},
		{measurement.Fraction, []float64{0.9999, 0.01}, nil, "99.99 %, 1.00 %"},
		{measurement.Count, []float64{1, 2}, []float64{0, 1}, "1, 2"},
		{measurement.Count, []float64{1, 2.5}, []float64{0, 1}, "1.00, 2.50"},
		{measurement.BitsPerSecond, []float64{0, math.NaN()}, nil, "0 bit/s, —"},
	} {
		column := NewColumn(c.unit, c.values, c.widths)
		var got []string
		for _, v := range c.values {
			got = append(got, plain(column.Write(v)))
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%v: %s, want %s", c.values, text, c.want)
		}
	}
}

// Each table has a row for each code or kind that it is keyed by, and no other.
func TestTablesAreWhole(t *testing.T) {
	for _, code := range result.NoteCodes() {
		row, known := notes[code]
		if !known {
			t.Errorf("no words for the note %s", code)
			continue
		}
		x := result.Note{Code: code, Text: "text", Run: "B", ReferenceRun: "A", Path: "p", Baseline: "b", Test: "t", Metric: "rtt_p50_seconds", Count: 3, Of: 4, Needed: 9,
			Level: 0.01, Drift: &result.Drift{HalvesP: 0.001, FirstRatio: 1.1, SecondRatio: 1.2}, Name: "kernel", Was: "1", Is: "2", Scale: 1, ReferenceScale: 10, Started: time.Unix(0, 0)}
		if text := (Names{}).Note(x); text == "" || strings.Contains(text, "%!") {
			t.Errorf("%s: %q", code, text)
		}
		if row.more != nil && strings.Contains(row.more(2), "%!") {
			t.Errorf("%s: %q", code, row.more(2))
		}
	}
	codes := append(measurement.GateCodes(), measurement.PathCodes()...)
	for _, code := range codes {
		if findings[code] == nil {
			t.Errorf("no words for the finding %s", code)
		}
	}
	for _, key := range measurement.Instrument() {
		if remedy(key) == remedy("") && key != "receive_time" {
			t.Errorf("no remedy for the setting %s", key)
		}
	}
	for _, c := range result.Causes() {
		for _, d := range []measurement.Direction{measurement.Send, measurement.Receive, measurement.Both} {
			a := result.Attribution{Shares: map[result.Cause]float64{c: 1}, InFlightBytes: 1e5, RTT: 1e-3, SourceEgressBitsPerSecond: 1e9}
			if text := Attribution(a, measurement.Spec{Direction: d}); causes[c].name == "" || text == "" || strings.Contains(text, "%!") {
				t.Errorf("%s is called %q: %q", c, causes[c].name, text)
			}
		}
	}
	titles := map[string]bool{}
	for _, kind := range measurement.Kinds() {
		titles[Title(measurement.Spec{Kind: kind}.Defaults())] = true
	}
	if len(titles) != len(measurement.Kinds()) {
		t.Errorf("two kinds of test have one title: %v", titles)
	}
	for metric, p := range metricPhrases {
		if _, known := measurement.MetricNamed(metric); !known || p.whole != nil && (p.before+p.after != "" || p.write != nil) {
			t.Errorf("the words for the metric %s are of nothing", metric)
		}
	}
	for _, v := range []result.Verdict{result.Costs, result.Gains, result.Breaks, result.NoCost, result.NotResolved, result.TooFewBlocks, result.Indicated} {
		if verdicts[v].path == "" || verdicts[v].run == "" {
			t.Errorf("no words for the verdict %s", v)
		}
	}
	for _, a := range result.Assumptions() {
		if text := (Names{}).violation(result.Effect{N: 10}, result.Violation{Assumption: a}); text == string(a) {
			t.Errorf("no words for the assumption %s", a)
		}
	}
	for _, m := range []result.Missing{result.MissingTrial, result.MissingAllExcluded, result.MissingMetric} {
		if missing[m] == nil {
			t.Errorf("no words for a figure that is missing: %s", m)
		}
	}
	if len(notes) != len(result.NoteCodes()) || len(findings) != len(codes) || len(causes) != len(result.Causes()) || len(verdicts) != 7 || len(withheld) != len(result.WithheldReasons()) || len(missing) != 3 {
		t.Error("a table has a row of nothing")
	}
}

// What is advised, a test of the kind can have: a file is larger, not longer, and comes in
// segments, but is stored in one piece.
func TestAdviceOfCauses(t *testing.T) {
	upload := measurement.Spec{Kind: measurement.FTP, Direction: measurement.Send}
	download := measurement.Spec{Kind: measurement.FTP, Direction: measurement.Receive}
	for _, c := range []struct {
		cause     result.Cause
		test      measurement.Spec
		moreFlows float64
		want      string
	}{
		{result.CauseCongestionWindowGrowth, measurement.Spec{Kind: measurement.TCP}, 0, "; a longer test would show more"},
		{result.CauseCongestionWindowGrowth, download, 0, "; a larger file would show more"},
		{result.CauseCongestionWindowDelay, measurement.Spec{Kind: measurement.Load}, 0, "; more flows or a longer test or another congestion control would raise it"},
		{result.CauseCongestionWindowDelay, upload, 0, "; a larger file or another congestion control would raise it"},
		{result.CauseReceiveWindow, download, 0, "; more segments or a larger receive window would raise it"},
		{result.CauseReceiveWindow, download, 1, "; a larger receive window would raise it, more segments do not"},
		{result.CauseReceiveWindow, upload, 0, "; a larger receive window would raise it"},
	} {
		a := result.Attribution{Shares: map[result.Cause]float64{c.cause: 1}, InFlightBytes: 1e5, RTT: 1e-3, MoreFlowsGain: c.moreFlows}
		if text := Attribution(a, c.test); !strings.HasSuffix(text, c.want) {
			t.Errorf("%s of %s %s: %q, want …%q", c.cause, c.test.Kind, c.test.Direction, text, c.want)
		}
	}
}

// Of a path that broke all trials nothing came, but its loss is not nothing.
func TestLevelOfAllBroken(t *testing.T) {
	for metric, want := range map[string]string{
		"goodput_bits_per_second": "p: costs goodput, t beyond any bound (1.00 bit/s → nothing)",
		"loss_fraction":           "p: costs loss, t beyond any bound (100 % → no value)",
		"rtt_p50_seconds":         "p: costs RTT p50, t beyond any bound (1.00 s → no value)",
	} {
		e := result.Effect{Path: "p", Baseline: "b", Test: "t", Metric: metric, N: 6, Broken: 6, ReferenceMedian: 1, Verdict: result.Costs, EstimateUnbounded: true}
		if got := plain((Names{}).claim(e, (Names{}).Subject(e), (Names{}).measured(e))); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The sentence has the verdict that stands beside it in a report.
func TestBrokenInTooFewBlocks(t *testing.T) {
	e := result.Effect{Path: "p", Baseline: "b", Test: "t", Metric: measurement.BrokenTrials, N: 5, Broken: 5, FewestBlocks: 6, RepetitionsNeeded: 6, NeededLow: 6, NeededHigh: 6}
	for verdict, want := range map[result.Verdict]string{
		result.TooFewBlocks: "p: broke 5 of 5 trials of t, b none: too few blocks: 5 of 6; needs about 6 blocks",
		result.NotResolved:  "p: broke 5 of 5 trials of t, b none: not resolved; needs about 6 blocks",
	} {
		if e.Verdict = verdict; verdict == result.NotResolved {
			e.FewestBlocks = 0
		} else {
			e.FewestBlocks = 6
		}
		if got := plain((Names{}).Effect(e)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Where all trials of both runs broke, there is no change to be told.
func TestChangeOfNoValues(t *testing.T) {
	e := result.Effect{Run: "B", ReferenceRun: "A", Path: "p", Baseline: "b", Test: "t", Metric: "rtt_p50_seconds", N: 6, ReferenceN: 1, Broken: 6, ReferenceBroken: 1, Ratio: 1, Verdict: result.NotResolved}
	if got, want := plain((Names{}).Effect(e)), "p: not resolved on RTT p50, t: no trial of either run has a value: it broke 6 of 6 trials, and in A 1 of 1"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// One of something is not several.
func TestOneOfSomething(t *testing.T) {
	of := func(code measurement.FindingCode) string {
		return Finding(measurement.Finding{Code: code, Count: 1, Of: 1, Dropped: 1, Needed: 10})
	}
	few := Finding(measurement.Finding{Code: measurement.FoundFewPackets, Count: 1, Needed: 100})
	for got, want := range map[string]string{
		few:                                    "1 packet in the measured time is too few for a loss rate (at least 100)",
		of(measurement.FoundFewAnswers):        "1 answer is too few for a median (at least 10); 0 of 1 request",
		of(measurement.FoundUnanswered):        "1 of 1 request had no answer, so there is no median",
		of(measurement.FoundFailedConnections): "1 of 1 connection failed",
		of(measurement.FoundDropsOfAll):        "the hosts themselves dropped 1 packet (",
		(Names{}).Note(result.Note{Code: result.NoteNotFinite, Count: 1}):                                                                       "1 value of this run was not a finite number and is left out.",
		(Names{}).Note(result.Note{Code: result.NoteLostBlocks, Path: "p", Baseline: "b", Test: "t", Count: 1, Of: 6, Metric: "loss_fraction"}): "p, t: 1 of 6 blocks lacks loss on p or b and does not count.",
		lostEvents(1): "1 event came too fast for this view and is missing here; the run has all of them",
	} {
		if !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Longer trials count more segments or packets, but the steps of a clock stay as large.
func TestAdviceWhereTrialsHideAnEffect(t *testing.T) {
	for metric, want := range map[string]string{
		"goodput_bits_per_second": "; trials of this length resolve no effect below 1 %: use longer trials; more blocks do not help",
		"rtt_p50_seconds":         "; trials resolve no effect below 10 ms: neither longer trials nor more blocks help",
	} {
		if text := plain(needs(result.Effect{Metric: metric, NeedsLongerTrials: true, Resolution: 0.01})); text != want {
			t.Errorf("%s: %q, want %q", metric, text, want)
		}
	}
}

// What a newer hopbench wrote keeps its own name.
func TestUnknownCodes(t *testing.T) {
	if text := (Names{}).Note(result.Note{Code: "sunspots"}); text != "sunspots" {
		t.Errorf("note: %q", text)
	}
	if text := Finding(measurement.Finding{Code: "sunspots"}); text != "sunspots" {
		t.Errorf("finding: %q", text)
	}
	if text := Attribution(result.Attribution{Shares: map[result.Cause]float64{"sunspots": 1}}, measurement.Spec{}); text != "no single cause: sunspots 100"+NBSP+"% of the time" {
		t.Errorf("cause: %q", text)
	}
	if text := Verdict(result.Effect{Verdict: "sunny"}); text != "sunny" {
		t.Errorf("verdict: %q", text)
	}
}

// Besides broken trials an effect may have no bound; without any pair of trials
// there is nothing to say.
func TestSizeWithoutBound(t *testing.T) {
	if size, _ := Size(result.Effect{N: 7, Metric: "goodput_bits_per_second", EstimateUnbounded: true}); plain(size) != "unbounded" {
		t.Errorf("without a bound: %q", size)
	}
	if size, _ := Size(result.Effect{}); size != None {
		t.Errorf("without pairs: %q", size)
	}
}

// From ten times as much on an effect is a multiple.
func TestMultiples(t *testing.T) {
	of := func(ratio, low, high float64) result.Effect {
		return result.Effect{
			Path: "hop", Baseline: "direct", Test: "t", Metric: "cpu_seconds_per_byte", N: 8, Blocks: 8, Verdict: result.Costs,
			Ratio: ratio, Low: &low, High: &high, ReferenceMedian: 1e-9, Median: ratio * 1e-9,
		}
	}
	for _, c := range []struct {
		effect       result.Effect
		size, inText string
	}{
		{of(9.5, 9.1, 9.9), "+850.0 % [+810.0, +890.0]", "hop: adds 850.0 % [810.0, 890.0] to CPU per byte, t (1.00 ns/B → 9.50 ns/B, 9.50×)"},
		{of(12.5, 0.5, 31), "12.5× [0.5, 31.0]", ""},
		{of(1693.89, 1512.1, 1790), "1694× [1512, 1790]", "hop: multiplies CPU per byte, t by 1694× [1512, 1790] (1.00 ns/B → 1.69 µs/B)"},
	} {
		if got := plain(joined(Size(c.effect))); got != c.size {
			t.Errorf("size of %g: %q, want %q", c.effect.Ratio, got, c.size)
		}
		if got := plain((Names{}).judged(c.effect)); c.inText != "" && got != c.inText {
			t.Errorf("sentence of %g: %q, want %q", c.effect.Ratio, got, c.inText)
		}
	}
	unbounded := of(20, 12, 0)
	unbounded.High, unbounded.HighUnbounded = nil, true
	if got := plain(joined(Size(unbounded))); got != "20.0× [12.0, ∞]" {
		t.Errorf("without an upper end: %q", got)
	}
	unbounded = of(20, 0, 30)
	unbounded.Low, unbounded.LowUnbounded = nil, true
	if got := plain(joined(Size(unbounded))); got != "20.0× [0.0, 30.0]" {
		t.Errorf("got %q", got)
	}
	// No rate loses more than all of it, however many trials broke.
	rate := of(0.625, 0, 0.631)
	rate.Metric, rate.ReferenceMedian, rate.Median = "goodput_bits_per_second", 1e9, 0.625e9
	rate.Low, rate.LowUnbounded, rate.Broken = nil, true, 2
	if got := plain(joined(Size(rate))); got != "−37.5 % [−100.0, −36.9]" {
		t.Errorf("got %q", got)
	}
	if got, want := plain((Names{}).judged(rate)), "hop: costs 37.5 % [36.9, 100.0] of goodput, t (1.00 Gbit/s → 625 Mbit/s); down to nothing, since it broke 2 of 8 trials, direct none"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	rate.High, rate.HighUnbounded, rate.ReferenceBroken = nil, true, 2
	if got := plain(joined(Size(rate))); got != "−37.5 % [−100.0, +∞]" {
		t.Errorf("without ends: %q", got)
	}
}

// A share that changed did so by points, not by per cent of itself.
func TestChangesOfAShareAreInPoints(t *testing.T) {
	drift := result.Note{Code: result.NoteDrift, Path: "hop", Test: "udp", Metric: "loss_fraction", Level: 0.01, Drift: &result.Drift{HalvesP: 0.001, FirstDifference: 0.01, SecondDifference: 0.025}}
	if text := plain(Names{}.Note(drift)); !strings.Contains(text, "from +1.0 percentage points in the first half of the blocks to +2.5 percentage points in the second") {
		t.Error(text)
	}
	carried := result.Violation{Assumption: result.NoCarryOver, After: "hop", Difference: -0.002}
	if text := plain(Names{}.violation(result.Effect{Metric: "loss_fraction"}, carried)); text != "trials depend on the one before: −0.20 percentage points after hop" {
		t.Error(text)
	}
}

// A number of blocks that is no more than a bound reads as one, in a sentence and in a table,
// also where the blocks are too few for a claim.
func TestBlocksBeyondTheBound(t *testing.T) {
	for _, c := range []struct {
		e          result.Effect
		cell, ends string
	}{
		{result.Effect{RepetitionsNeeded: 12}, "needs ≈ 12 blocks", "; needs about 12 blocks"},
		{result.Effect{RepetitionsNeeded: 12, NeededLow: 9, NeededHigh: 20}, "needs ≈ 9 to 20 blocks", "; needs about 9 to 20 blocks"},
		{result.Effect{RepetitionsNeeded: 12, NeededLow: 9, NeededHigh: 1000}, "needs ≈ 9 blocks or more", "; needs about 9 blocks or more"},
		{result.Effect{RepetitionsNeeded: 1000, NeededLow: 80, NeededHigh: 1000}, "needs more than 1000 blocks", "; needs more than 1000 blocks"},
		{result.Effect{RepetitionsNeeded: 1000, FewestBlocks: 6, Verdict: result.TooFewBlocks}, "needs more than 1000 blocks", " so far; needs more than 1000 blocks"},
		{result.Effect{RepetitionsNeeded: 1000, Run: "B", ReferenceRun: "A", Baseline: "b", Runs: 3}, "needs more than 1000 runs a side", "; needs more than 1000 runs a side"},
		{result.Effect{RepetitionsNeeded: 1000, Run: "B", ReferenceRun: "A", Baseline: "b"}, "needs more than 1000 blocks in each run", "; needs more than 1000 blocks in each run"},
	} {
		c.e.Path, c.e.Test, c.e.Metric, c.e.N, c.e.Ratio = "p", "t", "goodput_bits_per_second", 3, 1.01
		if cell, text := plain(Needed(c.e)), plain(Names{}.Effect(c.e)); cell != c.cell || !strings.HasSuffix(text, c.ends) {
			t.Errorf("%q and %q, want %q and %q", cell, text, c.cell, c.ends)
		}
	}
}

// One trial is, several are.
func TestRepeatedBlocks(t *testing.T) {
	for trials, want := range map[int][2]string{
		1: {"1 trial is discarded.", "1 trial from before does not count, but is kept."},
		2: {"2 trials are discarded.", "2 trials from before do not count, but are kept."},
	} {
		note := Names{}.Note(result.Note{Code: result.NoteRepeatedBlock, Block: 3, Count: trials})
		if said := BlockAgain(3, trials); !strings.HasSuffix(said, want[0]) || !strings.HasSuffix(note, want[1]) {
			t.Errorf("%q and %q, want %q", said, note, want)
		}
	}
}

// Many notes of a kind are counted, not listed.
func TestManyNotes(t *testing.T) {
	var list []result.Note
	for range 9 {
		list = append(list, result.Note{Code: result.NoteLostBlocks, Path: "p", Baseline: "b", Count: 1, Of: 6})
	}
	got := Names{}.Notes(append(list, result.TextNote("last")))
	if len(got) != maxNotes+2 || got[maxNotes] != "4 more comparisons lost blocks in the same way." || got[maxNotes+1] != "last" {
		t.Errorf("%q", got)
	}
}

// The headline is what a reader must know first; it never hides an open question
// behind what was found.
func TestHeadline(t *testing.T) {
	goodput := func(path string, v result.Verdict, ratio float64) result.Effect {
		return result.Effect{Path: path, Baseline: "direct", Test: "t", Metric: "goodput_bits_per_second", N: 8, Blocks: 8, Ratio: ratio, Verdict: v}
	}
	loss := result.Effect{Path: "lossy", Baseline: "direct", Test: "t", Metric: "loss_fraction", N: 8, Difference: 0.03, Median: 0.03, Verdict: result.Costs}
	late := result.Effect{Path: "late", Baseline: "direct", Test: "t", Metric: "rtt_p50_seconds", N: 8, Difference: 1e-3, Ratio: 1.5, ReferenceMedian: 2e-3, Median: 3e-3, Verdict: result.Costs}
	breaks := result.Effect{Path: "flaky", Baseline: "direct", Test: "t", Metric: measurement.BrokenTrials, N: 20, Broken: 13, Difference: 0.65, Verdict: result.Breaks}
	fine, open := goodput("fine", result.NoCost, 1), goodput("open", result.NotResolved, 0.01)
	doubtful := goodput("doubtful", result.Costs, 0.5)
	doubtful.Violations = []result.Violation{{Assumption: result.IndependentBlocks, Autocorrelation: 0.5, EffectiveBlocks: 3}}
	for _, c := range []struct {
		costs []result.Effect
		want  string
	}{
		{[]result.Effect{fine, fine}, "No path costs more than the stated bounds."},
		{[]result.Effect{fine, goodput("ajar", result.NotResolved, 0.97), open}, "None of 3 comparisons shows a cost, but 2 of them are not resolved. The largest of these: open: not resolved on goodput, t: −99.0 % from 8 blocks."},
		{[]result.Effect{fine, open}, "None of 2 comparisons shows a cost, but 1 of them is not resolved. The largest of these: open: not resolved on goodput, t: −99.0 % from 8 blocks."},
		{[]result.Effect{fine, {Path: "hole", Verdict: result.NotResolved}}, "None of 2 comparisons shows a cost, but 1 of them is not resolved, for want of values."},
		{[]result.Effect{fine, late, open}, "late: adds 1.0 ms to RTT p50, t (2.00 ms → 3.00 ms, 1.50×)"},
		{[]result.Effect{doubtful}, "doubtful: costs 50.0 % of goodput, t (0 bit/s → 0 bit/s); rests on independent blocks"},
		{[]result.Effect{late, loss, fine}, "lossy: adds 3.0 percentage points to loss, t (0 % → 3.00 %)"},
		{[]result.Effect{late, loss, goodput("slow", result.Costs, 0.5)}, "slow: costs 50.0 % of goodput, t (0 bit/s → 0 bit/s)"},
		{[]result.Effect{late, goodput("slow", result.Costs, 0.5), breaks}, "flaky: breaks 13 of 20 trials of t, direct none"},
		{[]result.Effect{goodput("slow", result.Costs, 0.5), goodput("as slow", result.Costs, 0.49), goodput("slower", result.Costs, 0.2)}, "slower: costs 80.0 % of goodput, t (0 bit/s → 0 bit/s); slow: −50.0 %; as slow: −51.0 %"},
		{[]result.Effect{goodput("slow", result.Costs, 0.5), fine, open, goodput("a", result.Gains, 1.2), goodput("b", result.Costs, 0.9)}, "slow: costs 50.0 % of goodput, t (0 bit/s → 0 bit/s); of 4 other paths: 1 costs, 2 do not, 1 not resolved"},
	} {
		if got := plain((Names{}).Headline(c.costs, 3, 24)); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	if got := (Names{}).Headline([]result.Effect{open, open}, 2, 0); got != "Nothing has been measured yet." {
		t.Errorf("%q", got)
	}
}

// What held both paths is said, and what an effect is compared with where that is
// not the baseline.
func TestWhatAnEffectIsOf(t *testing.T) {
	e := result.Effect{Path: "hop", Baseline: "direct", Test: "t", Metric: "goodput_bits_per_second", N: 8, Ratio: 1, Verdict: result.NoCost, Bound: 0.005,
		Margin: measurement.Margin{Fraction: 0.02}, CommonLimit: &result.CommonLimit{Cause: result.CauseSourceCap, RateBitsPerSecond: 12.5e9}}
	names := Names{baseline: "direct"}
	if got := plain(names.Effect(e)); got != "hop: no cost larger than 0.5 % on goodput, t, below the source's egress cap of 12.5 Gbit/s, which limited both, where 2 % matters" {
		t.Errorf("%q", got)
	}
	// Of a comparison of comparisons any path may lack a value.
	against := &result.Contrast{Path: "a", Baseline: "direct"}
	none := result.Effect{Path: "c", Baseline: "b", Against: against, Test: "t", Metric: "goodput_bits_per_second", Verdict: result.NotResolved}
	if got := plain(names.Effect(none)); got != "c over b, compared with a over direct: not resolved on goodput, t: no block has a counted value on all of c, b, a and direct" {
		t.Errorf("%q", got)
	}
	// Its sentence has no levels: those of the two paths alone may say the opposite.
	beyond := result.Effect{Path: "c", Baseline: "b", Against: against, Test: "t", Metric: "rtt_p50_seconds", N: 8, Median: 4e-3, ReferenceMedian: 3e-3,
		EstimateUnbounded: true, LowUnbounded: true, Verdict: result.Gains}
	if got := plain(names.Effect(beyond)); got != "c over b, compared with a over direct: gains RTT p50, t beyond any bound; unbounded, since values of some trials are unbounded" {
		t.Errorf("%q", got)
	}
	note := result.Note{Code: result.NoteNothingToCompare, Run: "B", ReferenceRun: "A", Path: "c", Baseline: "b", Test: "t", Metric: "goodput_bits_per_second"}
	for want, against := range map[string]*result.Contrast{
		"c over b, t: goodput is not compared, since in one of the runs (A and B) no block has a counted value on both c and b.":                                           nil,
		"c over b, compared with a over direct, t: goodput is not compared, since in one of the runs (A and B) no block has a counted value on all of c, b, a and direct.": against,
	} {
		note.Against = against
		if got := plain(names.Note(note)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	names.baseline = "other"
	if got := plain(names.Effect(e)); !strings.HasPrefix(got, "hop over direct: ") {
		t.Errorf("%q", got)
	}
}

// However many machines stopped, the sentence stays one.
func TestManyStoppedMachines(t *testing.T) {
	if got, want := Stopped([]string{"a"}), "1 machine stopped during the run, or could not be reached for too long: a. Trials without them say so, or were done again."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	many := make([]string, 5000)
	for i := range many {
		many[i] = fmt.Sprint("vm-", i)
	}
	if got := Stopped(many); !strings.HasPrefix(got, "5000 machines stopped") || !strings.Contains(got, ", vm-19 and 4980 more. ") {
		t.Error(got)
	}
}

// The index of several runs may say that a verdict is withheld because of trials that collapsed,
// and not have them.
func TestCollapseThatIsNotTold(t *testing.T) {
	e := result.Effect{Path: "hop", Baseline: "direct", Test: "bulk", Metric: "goodput_bits_per_second", N: 8, Verdict: result.NotResolved, Withheld: []result.Withheld{result.WithheldCollapsed}}
	if got := NamesOf(nil, nil).Effect(e); !strings.HasSuffix(got, "The verdict is withheld: it collapsed in some trials") {
		t.Errorf("%q", got)
	}
}
