package analysis

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hopbench/hopbench/internal/analysis/cause"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// broken marks the first of the trials as broken by their path.
func broken(trials []measurement.Trial, n int) []measurement.Trial {
	for i := range trials[:n] {
		trials[i].Metrics = nil
		trials[i].Gate = measurement.Gate{Broken: true, Findings: []measurement.Finding{{Name: "test", Code: measurement.FoundText, Text: "reset", Fatal: true, PathFailure: true}}}
	}
	return trials
}

// missing takes the gate from the first of the trials.
func missing(trials []measurement.Trial, n int) []measurement.Trial {
	for i := range trials[:n] {
		trials[i].Gate = measurement.Gate{Findings: []measurement.Finding{{Name: "cpu", Code: measurement.FoundBusyCPUs, Fatal: true}}}
	}
	return trials
}

// What a path does to its trials is an outcome: no path that breaks some, or of
// which more are missing, is without a cost.
func TestOutcomes(t *testing.T) {
	quiet := func(path string, n, shift int) []measurement.Trial {
		return trialsOf(path, flows1.Name, goodput, around(1e9, 0.002, n, shift)...)
	}
	for _, c := range []struct {
		name        string
		base, other []measurement.Trial
		verdict     result.Verdict
		withheld    []result.Withheld
		breaks      result.Verdict // "" for no comparison
		sentences   []string
	}{
		{"quiet", quiet("direct", 20, 0), quiet("hop", 20, 4), result.NoCost, nil, "", nil},
		{"13 of 20 broken", quiet("direct", 20, 0), broken(quiet("hop", 20, 4), 13), result.Costs, nil, result.Breaks, []string{
			"hop: costs goodput, flows-1 beyond any bound (1.00 Gbit/s → 1.00 Gbit/s); unbounded, since it broke 13 of 20 trials, direct none",
			"hop: breaks 13 of 20 trials of flows-1, direct none"}},
		{"all broken", quiet("direct", 10, 0), broken(quiet("hop", 10, 4), 10), result.Costs, nil, result.Breaks, []string{
			"hop: costs goodput, flows-1 beyond any bound (1.00 Gbit/s → nothing); unbounded, since it broke 10 of 10 trials, direct none"}},
		{"a fifth broken", quiet("direct", 10, 0), broken(quiet("hop", 10, 4), 2), result.NotResolved, nil, result.NotResolved, []string{
			"hop: not resolved on goodput, flows-1: −0.1 % [−100.0, +0.1], where 5 % matters; down to nothing, since it broke 2 of 10 trials, direct none",
			"hop: broke 2 of 10 trials of flows-1, direct none: not resolved; needs about "}},
		{"one of twenty broken", quiet("direct", 20, 0), broken(quiet("hop", 20, 4), 1), result.NotResolved, []result.Withheld{result.WithheldBroken}, result.NotResolved, []string{
			"where 5 % matters. The verdict is withheld: it broke 1 of 20 trials, direct none"}},
		{"broken where the baseline is missing", missing(quiet("direct", 20, 0), 1), broken(quiet("hop", 20, 4), 1), result.NotResolved, []result.Withheld{result.WithheldBroken}, result.NotResolved, []string{
			"The verdict is withheld: it broke none of 19 trials, direct none, and 1 where direct has none",
			"hop: broke none of 19 trials of flows-1, direct none, and 1 where direct has none: not resolved"}},
		{"the baseline broken where the path is missing", broken(quiet("direct", 20, 0), 1), missing(quiet("hop", 20, 4), 1), result.NoCost, nil, result.NotResolved, nil},
		{"the baseline broken", broken(quiet("direct", 20, 0), 13), quiet("hop", 20, 4), result.Gains, nil, result.Gains, []string{
			"hop: gains goodput, flows-1 beyond any bound (1.00 Gbit/s → 1.00 Gbit/s); unbounded, since it broke none of 20 trials, direct 13",
			"hop: breaks none of 20 trials of flows-1, direct 13"}},
		{"both broken alike", broken(quiet("direct", 10, 0), 1), broken(quiet("hop", 10, 4), 1), result.NoCost, nil, result.NotResolved, nil},
		{"both broken in all blocks", broken(quiet("direct", 10, 0), 10), broken(quiet("hop", 10, 4), 10), result.NotResolved, []result.Withheld{result.WithheldBothBroken}, result.NotResolved, []string{
			"both paths broke more trials (10 and 10 of 10) than can be left aside"}},
		{"both broken in three of ten blocks", broken(quiet("direct", 10, 0), 3), broken(quiet("hop", 10, 4), 3), result.NotResolved, []result.Withheld{result.WithheldBothBroken}, result.NotResolved, nil},
		{"missing on one side", quiet("direct", 40, 0), missing(quiet("hop", 40, 4), 6), result.NotResolved, []result.Withheld{result.WithheldMissingDiffer}, "", []string{
			"withheld: one of the two paths lacks more trials than the other (hop lacks 6, direct 0)"}},
		{"missing on both sides", missing(quiet("direct", 10, 0), 3), missing(quiet("hop", 10, 4), 3), result.NotResolved, []result.Withheld{result.WithheldMissingMany}, "", []string{
			"withheld: only 7 of 10 blocks have a trial on both (hop lacks 3, direct 3)"}},
		{"few missing", missing(quiet("direct", 10, 0), 1), missing(quiet("hop", 10, 4), 2), result.NoCost, nil, "", []string{
			"where 5 % matters; of 10 blocks hop lacks 2 and direct lacks 1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := analysed(flows1, c.base, c.other)
			if text, err := json.Marshal(a); err != nil || strings.Contains(string(text), "Inf") {
				t.Errorf("%s %v", text, err)
			}
			got := costOf(t, a, goodput)
			if got.Verdict != c.verdict || len(got.Withheld) != len(c.withheld) || (len(c.withheld) > 0 && got.Withheld[0] != c.withheld[0]) {
				t.Errorf("%s, withheld %v: %s", got.Verdict, got.Withheld, said(got))
			}
			said0 := said(got)
			if c.breaks == "" {
				if len(a.Costs) != 1 {
					t.Errorf("%d comparisons", len(a.Costs))
				}
			} else if b := costOf(t, a, measurement.BrokenTrials); b.Verdict != c.breaks || !b.Primary {
				t.Errorf("%s: %s", b.Verdict, said(b))
			} else {
				said0 += "\n" + said(b)
			}
			for _, want := range c.sentences {
				if !strings.Contains(said0, want) {
					t.Errorf("%q lacks %q", said0, want)
				}
			}
		})
	}
	notes := analysed(flows1, broken(quiet("direct", 10, 0), 2)).Notes
	if text := notesText(notes); !strings.HasPrefix(text, "2 of 10 trials broken by their paths; each counts as worse than any value (test 2). b01-direct-flows-1: reset; ") {
		t.Errorf("notes %q", text)
	}
}

// A chance gain of half a microsecond next to a broken trial is no gain: what is
// too small to matter would be no cost, and that is withheld.
func TestSmallGainBesideBrokenTrialIsNone(t *testing.T) {
	base, other := around(1e-3, 0.0002, 29, 0), around(0.9995e-3, 0.0002, 29, 4)
	a := analysed(latency, trialsOf("direct", latency.Name, rttP50, base...), broken(trialsOf("hop", latency.Name, rttP50, other...), 1))
	if c := costOf(t, a, rttP50); !c.BeyondChance || c.Verdict != result.NotResolved || len(c.Withheld) != 1 || c.Withheld[0] != result.WithheldBroken {
		t.Errorf("%+v: %s", c, said(c))
	}
}

// However few trials break, and whatever the noise, the path has a cost or is not
// resolved, and its share of broken trials is counted.
func TestBrokenTrialsAreNeverNoCost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(6, 40).Draw(t, "blocks")
		k := rapid.IntRange(1, n).Draw(t, "broken")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 5))
		metric, test := goodput, flows1
		if rapid.Bool().Draw(t, "time") {
			metric, test = rttP50, latency
		}
		values := func() []float64 {
			out := make([]float64, n)
			for i := range out {
				out[i] = 1e-3 * math.Exp(0.001*r.NormFloat64())
			}
			return out
		}
		a := analysed(test, trialsOf("direct", test.Name, metric, values()...), broken(trialsOf("hop", test.Name, metric, values()...), k))
		for _, c := range a.Costs {
			if c.Broken != k || c.N != n || c.Verdict == result.NoCost || c.Verdict == result.Gains {
				t.Fatalf("%d of %d broken: %+v", k, n, c)
			}
		}
	})
}

// The margins of the catalogue and of the user.
func TestMargins(t *testing.T) {
	of := func(metric, amount string) map[string]measurement.Margin {
		return map[string]map[string]measurement.Margin{"": nil,
			"2ms": {metric: {Amount: 2e-3}}, "1%": {metric: {Fraction: 0.01}}}[amount]
	}
	for _, c := range []struct {
		name        string
		test        result.TestInfo
		metric      string
		base, other float64
		noise       float64
		lab         bool
		matters     string
		want        result.Verdict
	}{
		{"1 ms on 30 ms", latency, rttP50, 30e-3, 31e-3, 0.001, false, "", result.Costs},
		{"4 ms on 100 ms", latency, rttP50, 100e-3, 104e-3, 0.001, false, "", result.Costs},
		{"1 ms where 2 ms matter", latency, rttP50, 30e-3, 31e-3, 0.001, false, "2ms", result.NoCost},
		{"six routers in a lab", latency, rttP50, 12e-6, 19e-6, 0.03, true, "", result.Costs},
		{"a veth in a lab", latency, rttP50, 12e-6, 13e-6, 0.03, true, "", result.NoCost},
		{"6 µs between hosts", latency, rttP50, 200e-6, 206e-6, 0.003, false, "", result.NoCost},
		{"3 % of a rate", flows1, goodput, 1e9, 0.97e9, 0.001, false, "", result.NoCost},
		{"3 % of a rate where 1 % matters", flows1, goodput, 1e9, 0.97e9, 0.001, false, "1%", result.Costs},
		{"a margin of the wrong scale", flows1, goodput, 1e9, 0.97e9, 0.001, false, "2ms", result.NoCost},
	} {
		a := onTwoPaths(c.test, c.metric, around(c.base, c.noise, 10, 0), around(c.other, c.noise, 10, 4), Options{Options: cause.Options{Lab: c.lab}, Matters: of(c.metric, c.matters)})
		if got := only(t, a); got.Verdict != c.want {
			t.Errorf("%s: %s", c.name, said(got))
		}
	}
}

// A delay just as large as what matters, on paths of any length and in lab and
// outside, is called no cost in at most 5 % of reports, and its intervals hold it.
func TestPlantedDelay(t *testing.T) {
	runs := repetitions(1000)
	for name, noise := range noises {
		for _, lab := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", name, lab), func(t *testing.T) {
				t.Parallel()
				r := rand.New(rand.NewPCG(61, 62))
				delay := measurement.MetricOf(rttP50).MarginIn(lab).Amount
				none, held := 0, 0
				for range runs {
					level, base, other := 30e-3, make([]float64, 10), make([]float64, 10)
					for i := range base {
						level += delay * r.NormFloat64()
						base[i], other[i] = level+delay/4*noise(r), level+delay+delay/4*noise(r)
					}
					c := only(t, onTwoPaths(latency, rttP50, base, other, Options{Options: cause.Options{Lab: lab}}))
					if c.Verdict == result.NoCost {
						none++
					}
					if *c.DifferenceLow <= delay*(1+1e-9) && delay*(1-1e-9) <= *c.DifferenceHigh {
						held++
					}
				}
				if !atMost(none, runs, 0.05) || !atMost(runs-held, runs, 0.05) {
					t.Errorf("%d of %d reports call the delay no cost, %d intervals lack it", none, runs, runs-held)
				}
			})
		}
	}
}

// A verdict, the number that its sentence leads with and the interval say one
// thing.
func TestVerdictAgreesWithItsNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 6))
		n := rapid.IntRange(6, 30).Draw(t, "blocks")
		spread := rapid.SampledFrom([]float64{0.0001, 0.01, 0.3}).Draw(t, "spread")
		shift := rapid.SampledFrom([]float64{0, 0.01, 0.06, -0.01, -0.06, 1}).Draw(t, "shift")
		test, metric, level := flows1, goodput, 1e9
		switch rapid.IntRange(0, 2).Draw(t, "metric") {
		case 1:
			test, metric, level = latency, rttP50, 2e-3
		case 2:
			test, metric, level = result.TestInfo{Name: "udp", Spec: measurement.Spec{Kind: measurement.UDP}}, "loss_fraction", 0.02
		}
		values := func(shift float64) []float64 {
			out := make([]float64, n)
			for i := range out {
				out[i] = level * (1 + shift) * math.Exp(spread*r.NormFloat64())
				if rapid.IntRange(0, 9).Draw(t, "regime") == 0 {
					out[i] *= 40
				}
			}
			return out
		}
		c := costOf(t, onTwoPaths(test, metric, values(0), values(shift), Options{}), metric)
		v, low, high := c.Judged()
		m := measurement.MetricOf(metric)
		worse, text := (v < 0) == m.HigherIsBetter, said(c)
		switch c.Verdict {
		case result.Costs, result.Gains:
			if worse != (c.Verdict == result.Costs) || *low <= 0 && *high >= 0 {
				t.Fatalf("%s of %v [%v, %v]", c.Verdict, v, *low, *high)
			}
			many := m.ByRatio() && v >= 9 // ten times as much or more
			for word, is := range map[string]bool{": costs ": m.ByRatio() && worse, ": gains ": m.ByRatio() && !worse && !many, ": multiplies ": many, ": adds ": !m.ByRatio() && v > 0, ": takes ": !m.ByRatio() && v < 0} {
				if strings.Contains(text, word) != is {
					t.Fatalf("%s of %v: %s", c.Verdict, v, text)
				}
			}
		case result.NoCost:
			margin := c.Margin.Amount + c.Margin.Fraction
			// A gain of a rate is bounded in the logarithm.
			if -*low > c.Bound*(1+1e-9) || *high > c.Bound/(1-c.Bound)*(1+1e-9) || c.Bound > margin {
				t.Fatalf("no cost larger than %v of [%v, %v], where %v matters", c.Bound, *low, *high, margin)
			}
			if !strings.Contains(text, " matters") {
				t.Fatalf("the margin is not in %q", text)
			}
			checkPrinted(t, text, m.HigherIsBetter)
		}
	})
}

// checkPrinted holds that an interval printed next to a bound is inside of it where
// it speaks of a cost.
func checkPrinted(t *rapid.T, text string, higherIsBetter bool) {
	found := regexp.MustCompile(`larger than ([0-9.]+) (\S+) .*the difference of \S+ (\S+) \[(\S+), (\S+)\]`).FindStringSubmatch(strings.ReplaceAll(text, "percentage points", "pp"))
	if found == nil || found[2] != found[3] {
		return // no interval, or in another unit
	}
	number := func(s string) float64 {
		v, err := strconv.ParseFloat(strings.Replace(s, "−", "-", 1), 64)
		if err != nil {
			t.Fatalf("%q in %q: %v", s, text, err)
		}
		return v
	}
	end := number(found[5])
	if higherIsBetter {
		end = -number(found[4])
	}
	if end > number(found[1])*(1+1e-9) {
		t.Fatalf("the interval reaches beyond the bound: %s", text)
	}
}

// A loss has a verdict of its own besides goodput, of zero counts too.
func TestLoss(t *testing.T) {
	trials := func(path string, loss, packets float64, shift int) []measurement.Trial {
		out := trialsOf(path, "udp", "loss_fraction", around(loss, 0.3, 8, shift)...)
		for i := range out {
			out[i].Metrics[goodput] = 50e6 * (1 - out[i].Metrics["loss_fraction"])
			out[i].Metrics["received_packets_per_second"] = packets
		}
		return out
	}
	for _, c := range []struct {
		loss, packets float64
		want          result.Verdict
		sentence      string
	}{
		{0.005, 4000, result.Costs, "hop: adds 0.5"},
		{0.03, 4000, result.Costs, "hop: adds 3."},
		{0, 40000, result.NoCost, "hop: no cost larger than 0.0034 percentage points on loss, udp, where 0.1 matters; neither path had any in 8 blocks, among at least 40000 each"},
		{0, 500, result.NotResolved, "hop: not resolved on loss, udp: 0.00 percentage points [−0.27, +0.27], where 0.1 matters; needs about 17 blocks"},
	} {
		a := analysed(udp, trials("direct", 0, c.packets, 0), trials("hop", c.loss, c.packets, 4))
		got := costOf(t, a, "loss_fraction")
		if got.Verdict != c.want || !got.Primary || !strings.HasPrefix(said(got), c.sentence) {
			t.Errorf("%v of %v packets: %s: %s", c.loss, c.packets, got.Verdict, said(got))
		}
		if rate := costOf(t, a, goodput); rate.Verdict != result.NoCost {
			t.Errorf("goodput: %s", said(rate))
		}
	}
}

// Much lost in few trials is not seen by ranks.
func TestLossInFewTrials(t *testing.T) {
	lossy := make([]float64, 30)
	copy(lossy, []float64{0.05, 0.05, 0.05, 0.05})
	c := costOf(t, analysed(udp, trialsOfTwo("udp", "loss_fraction", make([]float64, 30), lossy)), "loss_fraction")
	if c.Verdict != result.NotResolved || len(c.Withheld) != 1 || c.Withheld[0] != result.WithheldMean || !strings.Contains(said(c), "withheld: the mean of all trials is beyond what matters: a few trials cause most of it") {
		t.Errorf("%+v: %s", c, said(c))
	}
}

// The bound of a zero count is where so many trials would all see nothing with a
// chance of alpha/2, if half of them had that share and half had none.
func TestZeroBound(t *testing.T) {
	for _, n := range []int{6, 10, 30} {
		p := zeroBound(n, 2000, 0.05)
		if chance := math.Pow((1+math.Exp(-p*2000))/2, float64(n)); !near(chance, 0.025, 1e-9) {
			t.Errorf("%d trials: all see nothing at %v with a chance of %v", n, p, chance)
		}
		if got := zeroBlocks(p, 2000, 0.05); !near(got, float64(n), 1e-6) {
			t.Errorf("%v blocks for a bound of %v, want %d", got, p, n)
		}
	}
	if !math.IsInf(zeroBound(5, 1e9, 0.05), 1) || !math.IsInf(zeroBound(10, 0, 0.05), 1) {
		t.Error("a bound from too little")
	}
	for _, m := range measurement.Catalogue() {
		if m.Compared && m.Unit == measurement.Fraction && m.HigherIsBetter {
			t.Errorf("%s is not nothing where nothing happened", m.Name)
		}
	}
}

// As many blocks as are asked for, where nothing was lost, are enough; one less is not.
func TestBlocksForZeroCounts(t *testing.T) {
	within := result.Contrast{Path: "both", Baseline: "tunnel", Against: &result.Contrast{Path: "fw", Baseline: "direct"}}
	for name, contrast := range map[string]result.Contrast{"a cost": {Path: "fw", Baseline: "direct"}, "a difference of costs": within} {
		analyse := func(blocks int) result.Effect {
			var trials []measurement.Trial
			for _, path := range []string{"direct", "fw", "tunnel", "both"} {
				trials = append(trials, trialsOf(path, "udp", "loss_fraction", make([]float64, blocks)...)...)
			}
			for i := range trials {
				trials[i].Metrics["received_packets_per_second"] = 1000
			}
			return costOf(t, Analyse(trials, []result.TestInfo{udp}, pathsNamed("direct", "fw", "tunnel", "both"), Options{Contrasts: []result.Contrast{contrast}}), "loss_fraction")
		}
		few := analyse(6)
		if few.Verdict != result.NotResolved || analyse(few.RepetitionsNeeded-1).Verdict != result.NotResolved || analyse(few.RepetitionsNeeded).Verdict != result.NoCost {
			t.Errorf("%s: %d blocks are asked for: %s", name, few.RepetitionsNeeded, said(few))
		}
	}
}

// What a hop costs inside a tunnel less what it costs outside.
func TestDifferenceOfDifferences(t *testing.T) {
	trials := func(inside float64) []measurement.Trial {
		return slices.Concat(trialsOf("direct", flows1.Name, goodput, around(10e9, 0.01, 10, 0)...), trialsOf("fw", flows1.Name, goodput, around(8e9, 0.01, 10, 3)...),
			trialsOf("tunnel", flows1.Name, goodput, around(5e9, 0.01, 10, 5)...), trialsOf("both", flows1.Name, goodput, around(inside, 0.01, 10, 7)...))
	}
	contrast := result.Contrast{Path: "both", Baseline: "tunnel", Against: &result.Contrast{Path: "fw", Baseline: "direct"}}
	for _, c := range []struct {
		inside float64
		want   result.Verdict
		says   string
	}{
		{4e9, result.NoCost, "both over tunnel, compared with fw over direct: no cost larger than "},
		{2e9, result.Costs, "both over tunnel, compared with fw over direct: costs 50."},
		{5e9, result.Gains, "both over tunnel, compared with fw over direct: gains 24.9 % ["},
	} {
		a := Analyse(trials(c.inside), []result.TestInfo{flows1}, pathsNamed("direct", "fw", "tunnel", "both"), Options{Contrasts: []result.Contrast{contrast, {Path: "fw", Baseline: "gone"}}})
		got := only(t, a)
		if got.Verdict != c.want || got.Against == nil || !strings.HasPrefix(said(got), c.says) {
			t.Errorf("%s: %s", got.Verdict, said(got))
		}
	}
	holed := missing(trials(2e9), 2) // of direct
	a := Analyse(holed, []result.TestInfo{flows1}, pathsNamed("direct", "fw", "tunnel", "both"), Options{Contrasts: []result.Contrast{contrast}})
	if got := only(t, a); got.N != 8 || got.Blocks != 10 {
		t.Errorf("%+v", got)
	}
	const lack = "both over tunnel, compared with fw over direct, flows-1: 2 of 10 blocks lack goodput on one of these paths and do not count."
	if text := notesText(a.Notes); !strings.HasSuffix(text, lack) {
		t.Errorf("notes:\n%s", text)
	}
}

// What a path broke is not forgotten where a trial of the cost that is subtracted is missing.
func TestBrokenWithoutASubtractedCost(t *testing.T) {
	contrast := result.Contrast{Path: "both", Baseline: "tunnel", Against: &result.Contrast{Path: "fw", Baseline: "direct"}}
	const n = 20
	trials := slices.Concat(missing(trialsOf("direct", flows1.Name, goodput, around(10e9, 0.001, n, 0)...), 1), trialsOf("fw", flows1.Name, goodput, around(8e9, 0.001, n, 3)...),
		trialsOf("tunnel", flows1.Name, goodput, around(5e9, 0.001, n, 5)...), broken(trialsOf("both", flows1.Name, goodput, around(4e9, 0.001, n, 7)...), 1))
	got := only(t, Analyse(trials, []result.TestInfo{flows1}, pathsNamed("direct", "fw", "tunnel", "both"), Options{Contrasts: []result.Contrast{contrast}}))
	const says = "it broke none of 19 trials, tunnel none, and 1 where another path has none"
	if got.Verdict != result.NotResolved || got.BrokenAlone != 1 || !strings.HasSuffix(said(got), says) {
		t.Errorf("%s", said(got))
	}
}

// Losses that are planted packet by packet are a cost, or not resolved where few
// packets were sent; a loss as large as what matters is hardly ever called none,
// though most trials see nothing of it.
func TestPlantedLoss(t *testing.T) {
	r := rand.New(rand.NewPCG(51, 52))
	trials := func(path string, loss float64, packets, n int) []measurement.Trial {
		values := make([]float64, n)
		for i := range values {
			for range packets {
				if r.Float64() < loss {
					values[i] += 1 / float64(packets)
				}
			}
		}
		out := trialsOf(path, "udp", "loss_fraction", values...)
		for i := range out {
			out[i].Metrics["received_packets_per_second"] = float64(packets)
		}
		return out
	}
	for _, c := range []struct {
		loss    float64
		packets int
		runs    int
		most    float64 // share of no cost
	}{{0.03, 500, 20, 0}, {0.005, 500, 20, 0}, {0.005, 4000, 20, 0}, {0.001, 1000, repetitions(600), 0.05}, {0.001, 200, repetitions(600), 0.05}} {
		for _, n := range []int{6, 8} {
			none := 0
			for range c.runs {
				a := analysed(udp, trials("direct", 0, c.packets, n), trials("hop", c.loss, c.packets, n))
				if costOf(t, a, "loss_fraction").Verdict == result.NoCost {
					none++
				}
			}
			if !atMost(none, c.runs, c.most) {
				t.Errorf("a loss of %v among %d packets, %d blocks: no cost in %d of %d", c.loss, c.packets, n, none, c.runs)
			}
		}
	}
}

// A percentile that falls on a lost request is infinitely late, not missing.
func TestLostPercentile(t *testing.T) {
	trials := trialsOfTwo(latency.Name, rttP50, around(1e-3, 0.01, 10, 0), around(1e-3, 0.01, 10, 4))
	for i := range trials {
		trials[i].Metrics["rtt_p99_seconds"], trials[i].Metrics["loss_fraction"] = 2e-3, 0
		if i >= 12 { // eight of the hop's
			delete(trials[i].Metrics, "rtt_p99_seconds")
			trials[i].Metrics["loss_fraction"] = 0.02
		}
	}
	a := analysed(latency, trials)
	c := costOf(t, a, "rtt_p99_seconds")
	if c.N != 10 || !c.EstimateUnbounded || c.Verdict != result.Costs || c.Broken != 0 || !strings.HasPrefix(said(c), "hop: costs RTT p99, latency beyond any bound (2.00 ms → 2.00 ms); unbounded, since values of some trials are unbounded") {
		t.Errorf("%+v %s", c, said(c))
	}
}
