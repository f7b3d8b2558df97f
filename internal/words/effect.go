package words

import (
	"fmt"
	"math"
	"strings"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/result"
)

// points is what differences of shares are written in: not per cent, which would
// read as a part of the share.
func points(short bool) quantity.Scale {
	name := "percentage points"
	if short {
		name = "pp"
	}
	return quantity.Scale{Factor: 0.01, Name: name}
}

// size writes an effect on the scale on which it is judged, a share of the
// reference or a difference in the metric's unit, with its interval. factor −1
// turns a loss into a positive number.
func size(e result.Effect, factor float64, signed, short bool) (estimate, between string) {
	v, low, high := e.Judged()
	if e.EstimateUnbounded {
		return "unbounded", ""
	}
	if e.LowUnbounded || e.HighUnbounded {
		low, high = end(low, e.LowUnbounded, -1), end(high, e.HighUnbounded, 1)
	}
	if factor < 0 {
		v = -v
		low, high = negative(high), negative(low)
	}
	u := measurement.MetricOf(e.Metric).Unit
	switch {
	case !e.LeadsWithDifference():
		return Estimate(v, low, high, measurement.Fraction, signed)
	case u == measurement.Fraction:
		return estimateIn(points(short), v, low, high, 1, signed)
	}
	return Estimate(v, low, high, u, signed)
}

// end is an end of an interval, infinite where it is unbounded.
func end(v *float64, unbounded bool, sign int) *float64 {
	if unbounded {
		x := math.Inf(sign)
		return &x
	}
	return v
}

func negative(v *float64) *float64 {
	if v == nil {
		return nil
	}
	x := -*v
	return &x
}

// Size writes an effect with its sign, and its interval: "−70.2 %" and
// "[−70.3, −70.1]"; a dash where there is nothing to compare.
func Size(e result.Effect) (estimate, between string) {
	if e.N == 0 {
		return None, ""
	}
	return size(e, 1, true, true)
}

// verdict is what a verdict is called: of a path against the baseline, and of a
// run against another.
type verdict struct {
	path, run string
	bound     string // before the bound that it states
}

var verdicts = map[result.Verdict]verdict{
	result.Costs:       {path: "costs", run: "worse"},
	result.Gains:       {path: "gains", run: "better"},
	result.Breaks:      {path: "breaks", run: "breaks"},
	result.NoCost:      {path: "no cost", run: "no change", bound: " > "},
	result.NotResolved: {path: "not resolved", run: "not resolved"},

	result.TooFewBlocks: {path: "too few blocks", run: "too few trials"},
	result.Indicated:    {path: "indicated", run: "indicated"},
}

// Verdict is the verdict in a few words: "no cost > 2 %".
func Verdict(e result.Effect) string {
	v, known := verdicts[e.Verdict]
	if !known {
		return string(e.Verdict)
	}
	text := v.path
	if e.Run != "" {
		text = v.run
	}
	if v.bound != "" && e.Bound > 0 {
		text += v.bound + amount(e, e.Bound, true)
	}
	return text + tooFew(e)
}

// Needed is what an effect that is not resolved needs: "needs ≈ 12 blocks", or
// nothing.
func Needed(e result.Effect) string {
	if e.RepetitionsNeeded == 0 {
		return ""
	}
	return "needs ≈" + NBSP + repetitions(e, e.RepetitionsNeeded)
}

// repetitions counts what an effect is estimated from.
func repetitions(e result.Effect, n int) string {
	switch {
	case e.Runs > 0:
		return quantity.Count(n, "run") + " a side"
	case e.Run != "" && e.Baseline == "":
		return quantity.Count(n, "trial") + " in each run"
	case e.Run != "":
		return quantity.Count(n, "block") + " in each run"
	case n >= result.MaxRepetitionsNeeded || e.NeededLow == e.NeededHigh:
	case e.NeededHigh >= result.MaxRepetitionsNeeded:
		return quantity.Count(e.NeededLow, "block") + " or more"
	default:
		return fmt.Sprintf("%d to %s", e.NeededLow, quantity.Count(e.NeededHigh, "block"))
	}
	return quantity.Count(n, "block")
}

// withheld says why a verdict is not given.
var withheld = map[result.Withheld]func(n Names, e result.Effect) string{
	result.WithheldBroken: Names.broke,
	result.WithheldMissingDiffer: func(n Names, e result.Effect) string {
		return "one of the two paths lacks more trials than the other (" + n.lacking(e) + "), and the missing ones may be the bad ones"
	},
	result.WithheldCollapsed: Names.collapse,
	result.WithheldMean: func(Names, result.Effect) string {
		return "the mean of all trials is beyond what matters: a few trials cause most of it"
	},
	result.WithheldRunLevel: func(Names, result.Effect) string {
		return "the levels of runs differ by themselves, and one run on each side does not show by how much: compare three or more with --reference, or runs with a baseline"
	},
	result.WithheldBothBroken: func(_ Names, e result.Effect) string {
		return fmt.Sprintf("both paths broke more trials (%d and %d of %d) than can be left aside, and those show no cost", e.ReferenceBroken, e.Broken, e.N)
	},
	result.WithheldMissingMany: func(n Names, e result.Effect) string {
		return fmt.Sprintf("only %d of %s have a trial on both (%s)", e.N, quantity.Count(e.Blocks, "block"), n.lacking(e))
	},
}

// withheld says why a verdict is not given.
func (n Names) withheld(e result.Effect) string {
	var why []string
	for _, w := range e.Withheld {
		if say := withheld[w]; say != nil {
			why = append(why, say(n, e))
		}
	}
	return List(why)
}

// lacking says how many trials of each side are missing.
func (n Names) lacking(e result.Effect) string {
	return fmt.Sprintf("%s lacks %d, %s %d", n.Path(e.Path), e.Missing, n.Path(e.Baseline), e.ReferenceMissing)
}

// incomplete says so where blocks do not count.
func (n Names) incomplete(e result.Effect) string {
	var lack []string
	for _, side := range []struct {
		path    string
		missing int
	}{{e.Path, e.Missing}, {e.Baseline, e.ReferenceMissing}} {
		if side.missing > 0 {
			lack = append(lack, fmt.Sprintf("%s lacks %d", n.Path(side.path), side.missing))
		}
	}
	if len(lack) == 0 || e.Against != nil {
		return ""
	}
	return "; of " + quantity.Count(e.Blocks, "block") + " " + List(lack)
}

// broke says how many trials each side broke.
func (n Names) broke(e result.Effect) string {
	return fmt.Sprintf("it broke %s of %s, %s %s", none(e.Broken), quantity.Count(e.N, "trial"), n.Path(e.Baseline), none(e.ReferenceBroken))
}

func none(n int) string {
	if n == 0 {
		return "none"
	}
	return fmt.Sprint(n)
}

// subject is what an effect is of: a path, named with what it is compared with
// where that is not the run's baseline.
func (n Names) subject(e result.Effect) string {
	over := func(path, baseline string) string { return n.Path(path) + " over " + n.Path(baseline) }
	switch {
	case e.Against != nil:
		return over(e.Path, e.Baseline) + ", compared with " + over(e.Against.Path, e.Against.Baseline)
	case e.Baseline != "" && n.baseline != "" && e.Baseline != n.baseline:
		return over(e.Path, e.Baseline)
	}
	return n.Path(e.Path)
}

// judged is the sentence of a verdict.
func (n Names) judged(e result.Effect) string {
	subject, what := n.subject(e), measurement.MetricOf(e.Metric).Label+", "+n.Test(e.Test)
	switch {
	case e.Run != "":
		return n.change(e)
	case e.N == 0:
		return fmt.Sprintf("%s: not resolved on %s: no block has a counted trial on both %s and %s", subject, what, n.Path(e.Path), n.Path(e.Baseline))
	case e.Metric == measurement.BrokenTrials:
		return n.breaking(e, subject)
	case e.Verdict == result.Costs || e.Verdict == result.Gains:
		return n.claim(e, subject, what) + n.unbounded(e) + n.incomplete(e)
	case e.Verdict == result.NoCost:
		return n.noCost(e, subject, what)
	}
	text := fmt.Sprintf("%s: not resolved on %s: %s", subject, what, joined(size(e, 1, true, false)))
	if e.Coverage == 0 {
		text += " from " + quantity.Count(e.N, "block")
	} else {
		text += where(e)
	}
	if len(e.Withheld) > 0 {
		return text + ". The verdict is withheld: " + n.withheld(e)
	}
	return text + n.unbounded(e) + n.incomplete(e) + needs(e)
}

// where says what matters; of points, whose name goes before, the number alone.
func where(e result.Effect) string {
	matters := Margin(measurement.MetricOf(e.Metric), e.Margin)
	if matters == "" {
		return ""
	}
	return ", where " + strings.TrimSuffix(matters, NBSP+points(false).Name) + " matters"
}

func needs(e result.Effect) string {
	switch {
	case e.NeedsLongerTrials:
		return "; trials of this length resolve no effect below " + amount(e, e.Resolution, false) + ": use longer trials; more blocks do not help"
	case e.RepetitionsNeeded >= result.MaxRepetitionsNeeded:
		return "; needs more than " + repetitions(e, result.MaxRepetitionsNeeded)
	case e.RepetitionsNeeded > 0:
		return "; needs about " + repetitions(e, e.RepetitionsNeeded)
	}
	return ""
}

// breaking is the sentence of how often a path breaks trials.
func (n Names) breaking(e result.Effect, subject string) string {
	trials := fmt.Sprintf("%s of %s of %s", none(e.Broken), quantity.Count(e.N, "trial"), n.Test(e.Test))
	reference := n.Path(e.Baseline) + " " + none(e.ReferenceBroken)
	if unresolved(e.Verdict) {
		return fmt.Sprintf("%s: broke %s, %s: not resolved%s", subject, trials, reference, needs(e))
	}
	return fmt.Sprintf("%s: breaks %s, %s", subject, trials, reference)
}

// unbounded says why an interval has no end.
func (n Names) unbounded(e result.Effect) string {
	switch {
	case !e.LowUnbounded && !e.HighUnbounded:
		return ""
	case e.Against == nil && e.Broken+e.ReferenceBroken > 0:
		return "; unbounded, since " + n.broke(e)
	}
	return "; unbounded, since values of some trials are unbounded"
}

// noCost is the sentence of a path that costs nothing that matters.
func (n Names) noCost(e result.Effect, subject, what string) string {
	text := fmt.Sprintf("%s: no cost larger than %s on %s", subject, amount(e, e.Bound, false), what)
	if e.HeldBy != nil {
		text += " below " + held(*e.HeldBy) + ", which limited both"
	}
	text += where(e)
	if e.BeyondChance {
		text += fmt.Sprintf("; the difference of %s is beyond chance, but too small to matter", joined(size(e, 1, true, false)))
	}
	if e.LookedAt > 0 {
		text += fmt.Sprintf("; neither path had any in %s, among at least %s each", quantity.Count(e.N, "block"), Value(math.Floor(e.LookedAt), measurement.Count))
	}
	return text + n.incomplete(e)
}

// held is what limited both sides.
func held(h result.Held) string {
	text := "the " + Cause(h.Cause)
	if h.RateBitsPerSecond > 0 {
		text += " of " + Rate(h.RateBitsPerSecond)
	}
	return text
}

// claim is the sentence of a cost or a gain.
func (n Names) claim(e result.Effect, subject, what string) string {
	metric := measurement.MetricOf(e.Metric)
	median := func(v float64, broken int) string {
		if broken >= e.N {
			return "nothing"
		}
		return Value(v, metric.Unit)
	}
	change := median(e.ReferenceMedian, e.ReferenceBroken) + " → " + median(e.Median, e.Broken)
	if e.EstimateUnbounded {
		return fmt.Sprintf("%s: %s %s beyond any bound (%s)", subject, e.Verdict, what, change)
	}
	if r := Ratio(e.Ratio); r != "" && !metric.HigherIsBetter {
		change += ", " + r
	}
	if e.Against != nil {
		change = ""
	} else {
		change = " (" + change + ")"
	}
	v, _, _ := e.Judged()
	factor := 1.0
	if v < 0 {
		factor = -1
	}
	much := joined(size(e, factor, false, false))
	switch {
	case metric.HigherIsBetter && metric.ByRatio():
		return fmt.Sprintf("%s: %s %s of %s%s", subject, e.Verdict, much, what, change)
	case v > 0:
		return fmt.Sprintf("%s: adds %s to %s%s", subject, much, what, change)
	}
	return fmt.Sprintf("%s: takes %s off %s%s", subject, much, what, change)
}

// amount writes a size that somebody stated, a bound or a margin, on the scale on
// which an effect is judged.
func amount(e result.Effect, v float64, short bool) string {
	m := measurement.MetricOf(e.Metric)
	switch {
	case m.ByRatio():
		return Percent(v)
	case m.Unit == measurement.Fraction:
		return stated(v, points(short))
	}
	return stated(v, quantity.ScaleFor(m.Unit, v))
}

// Margin writes what matters on a metric, nothing where nothing is known of it.
func Margin(m measurement.Metric, x measurement.Margin) string {
	v := x.Amount
	if m.ByRatio() {
		v = x.Fraction
	}
	if v <= 0 {
		return ""
	}
	return amount(result.Effect{Metric: m.Name}, v, false)
}

// Headline is the sentence of the primary cost that a reader must know first:
// trials that break, then the largest cost beyond chance, of throughput before
// loss before latency, and what the same test found on the other paths. Of paths whose
// costs are about as large, it is the first. When nothing costs, it says so, with the largest effect that is not resolved.
func (n Names) Headline(costs []result.Effect, paths, trials int) string {
	best, open := largest(costs, func(v result.Verdict) bool { return v == result.Costs || v == result.Breaks }),
		largest(costs, unresolved)
	few := 0
	for _, c := range costs {
		if c.FewestBlocks > 0 {
			few++
		}
	}
	switch {
	case best >= 0:
		return n.Effect(costs[best]) + n.beside(costs, costs[best])
	case len(costs) == 1:
		return n.Effect(costs[0])
	case len(costs) == 0 && trials == 0:
		return "Nothing has been measured yet."
	case len(costs) == 0 && paths == 1:
		return "One path was measured; there is nothing to compare it with."
	case len(costs) == 0:
		return "There is nothing to compare with the baseline."
	case few > 0:
		return fmt.Sprintf("Too few blocks to claim anything in %d of %s. The largest effect of these: %s.", few, quantity.Count(len(costs), "comparison"), n.Effect(costs[open]))
	case open >= 0:
		count := 0
		for _, c := range costs {
			if unresolved(c.Verdict) {
				count++
			}
		}
		return fmt.Sprintf("None of %[2]s shows a cost, but %[1]d of them %[3]s not resolved. The largest of these: %[4]s.", count, quantity.Count(len(costs), "comparison"), isAre(count), n.Effect(costs[open]))
	}
	return "No path costs more than the stated bounds."
}

// mostBeside is how many other paths a headline names; of more it tells the verdicts alone.
const mostBeside = 3

// beside is what the test of an effect found on the other paths.
func (n Names) beside(costs []result.Effect, of result.Effect) string {
	var each []string
	cost, no := 0, 0
	for _, c := range costs {
		if c.Path == of.Path || c.Test != of.Test || c.Metric != of.Metric || c.Baseline != of.Baseline || c.Against != nil || of.Against != nil {
			continue
		}
		found, _ := Size(c)
		switch {
		case unresolved(c.Verdict):
			found = Verdict(c)
		case c.Verdict == result.NoCost || c.Verdict == result.Gains:
			no++
			found = Verdict(c)
		default:
			cost++
		}
		each = append(each, n.Path(c.Path)+": "+found)
	}
	switch {
	case len(each) == 0:
		return ""
	case len(each) <= mostBeside:
		return "; " + strings.Join(each, "; ")
	}
	return fmt.Sprintf("; of %d other paths: %d costs, %d do not, %d not resolved", len(each), cost, no, len(each)-cost-no)
}

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// unresolved says that a verdict leaves open whether there is a cost.
func unresolved(v result.Verdict) bool {
	return v != result.Costs && v != result.Breaks && v != result.Gains && v != result.NoCost
}

// largest is the index of the largest of the effects with such a verdict, −1
// without any. An effect has to be a tenth larger than one before it.
func largest(costs []result.Effect, of func(result.Verdict) bool) int {
	best, most, first := -1, 0.0, 0
	for i, c := range costs {
		if !of(c.Verdict) || c.N == 0 && best >= 0 {
			continue
		}
		class, s := importance(c), magnitude(c)
		if best < 0 || class > first || class == first && s > 1.1*most {
			best, most, first = i, s, class
		}
	}
	return best
}

// importance orders metrics by what a reader must know first.
func importance(e result.Effect) int {
	m := measurement.MetricOf(e.Metric)
	switch {
	case e.N == 0:
		return 0
	case m.Name == measurement.BrokenTrials:
		return 4
	case m.ByRatio():
		return 3
	case m.Unit == measurement.Fraction:
		return 2
	}
	return 1
}

// magnitude is how large an effect is among those of its importance: of a ratio,
// or a time that has one, its logarithm.
func magnitude(e result.Effect) float64 {
	if e.EstimateUnbounded {
		return math.Inf(1)
	}
	if m := measurement.MetricOf(e.Metric); m.Unit != measurement.Fraction && e.Ratio > 0 {
		return math.Abs(math.Log(e.Ratio))
	}
	return math.Abs(e.Difference)
}
