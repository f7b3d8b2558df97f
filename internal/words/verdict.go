package words

import (
	"fmt"
	"math"
	"strings"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/result"
)

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
	return "needs " + repetitions(e, "≈"+NBSP)
}

// repetitions counts about how many of what an effect is estimated from it needs.
func repetitions(e result.Effect, about string) string {
	n := e.RepetitionsNeeded
	if n >= result.MaxRepetitionsNeeded {
		n, about = result.MaxRepetitionsNeeded, "more than "
	}
	switch {
	case e.Runs > 0:
		return about + quantity.Count(n, "run") + " a side"
	case e.Run != "" && e.Baseline == "":
		return about + quantity.Count(n, "trial") + " in each run"
	case e.Run != "":
		return about + quantity.Count(n, "block") + " in each run"
	case n == result.MaxRepetitionsNeeded || e.NeededLow == e.NeededHigh:
		return about + quantity.Count(n, "block")
	case e.NeededHigh >= result.MaxRepetitionsNeeded:
		return about + quantity.Count(e.NeededLow, "block") + " or more"
	}
	return about + fmt.Sprintf("%d to %s", e.NeededLow, quantity.Count(e.NeededHigh, "block"))
}

// Subject is what an effect is of: a path, named with what it is compared with
// where that is not the run's baseline.
func (n Names) Subject(e result.Effect) string {
	over := func(path, baseline string) string { return n.Path(path) + " over " + n.Path(baseline) }
	switch {
	case e.Against != nil:
		return over(e.Path, e.Baseline) + ", compared with " + over(e.Against.Path, e.Against.Baseline)
	case e.Baseline != "" && (n.several || n.baseline != "" && e.Baseline != n.baseline):
		return over(e.Path, e.Baseline)
	}
	return n.Path(e.Path)
}

// compared are all paths of an effect.
func (n Names) compared(e result.Effect) string {
	if e.Against == nil {
		return "both " + n.Path(e.Path) + " and " + n.Path(e.Baseline)
	}
	return "all of " + List([]string{n.Path(e.Path), n.Path(e.Baseline), n.Path(e.Against.Path), n.Path(e.Against.Baseline)})
}

// judged is the sentence of a verdict.
func (n Names) judged(e result.Effect) string {
	subject, what := n.Subject(e), n.measured(e)
	switch {
	case e.Run != "":
		return n.change(e)
	case e.N == 0:
		return fmt.Sprintf("%s: not resolved on %s: no block has a counted value on %s", subject, what, n.compared(e))
	case e.Metric == measurement.BrokenTrials:
		return n.breaking(e, subject)
	case e.Counted() == 0:
		return fmt.Sprintf("%s: not resolved on %s: %s", subject, what, n.withheld(e))
	case e.Verdict == result.Costs || e.Verdict == result.Gains:
		return n.claim(e, subject, what) + n.unbounded(e) + n.incomplete(e)
	case e.Verdict == result.NoCost:
		return n.noCost(e, subject, what)
	}
	text := fmt.Sprintf("%s: not resolved on %s: %s", subject, what, joined(size(e, true, false)))
	if e.Coverage == 0 {
		text += " from " + quantity.Count(e.Counted(), "block")
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
	case e.NeedsLongerTrials && measurement.MetricOf(e.Metric).Unit == measurement.SecondsUnit: // steps of a clock stay as large
		return "; trials resolve no effect below " + amount(e, e.Resolution, false) + ": neither longer trials nor more blocks help"
	case e.NeedsLongerTrials:
		return "; trials of this length resolve no effect below " + amount(e, e.Resolution, false) + ": use longer trials; more blocks do not help"
	case e.RepetitionsNeeded > 0:
		return "; needs " + repetitions(e, "about ")
	}
	return ""
}

// unbounded says why an interval has no end, or, of a ratio, goes down to nothing.
func (n Names) unbounded(e result.Effect) string {
	text := "; unbounded, since "
	if !e.LeadsWithDifference() && !e.HighUnbounded && !e.EstimateUnbounded {
		text = "; down to nothing, since "
	}
	switch {
	case !e.LowUnbounded && !e.HighUnbounded:
		return ""
	case e.Against == nil && e.Broken+e.ReferenceBroken+e.BaselineBroken+e.ReferenceBaselineBroken > 0:
		return text + n.broke(e)
	}
	return text + "values of some trials are unbounded"
}

// noCost is the sentence of a path that costs nothing that matters.
func (n Names) noCost(e result.Effect, subject, what string) string {
	text := fmt.Sprintf("%s: no cost larger than %s on %s", subject, amount(e, e.Bound, false), what)
	if e.CommonLimit != nil {
		text += ", below " + commonLimit(*e.CommonLimit) + ", which limited both"
	}
	text += where(e)
	if e.BeyondChance {
		text += fmt.Sprintf("; the difference of %s is beyond chance, but too small to matter", joined(size(e, true, false)))
	}
	if e.LookedAt > 0 {
		text += fmt.Sprintf("; neither path had any in %s, among at least %s each", quantity.Count(e.Counted(), "block"), Value(math.Floor(e.LookedAt), measurement.Count))
	}
	return text + n.incomplete(e)
}

// commonLimit is what limited both sides.
func commonLimit(h result.CommonLimit) string {
	return withRate("the "+Cause(h.Cause), " of ", h.RateBitsPerSecond)
}

// claim is the sentence of a cost or a gain.
func (n Names) claim(e result.Effect, subject, what string) string {
	metric := measurement.MetricOf(e.Metric)
	median := func(v float64, broken int) string {
		if e.Unmeasured(v, broken, e.N) {
			if !metric.HigherIsBetter { // no loss would be a good one
				return "no value"
			}
			return "nothing"
		}
		return Value(v, metric.Unit)
	}
	change := median(e.ReferenceMedian, e.ReferenceBroken) + " → " + median(e.Median, e.Broken)
	if r := Ratio(e.Ratio); r != "" && !metric.HigherIsBetter && !isMultiple(e) && !e.EstimateUnbounded {
		change += ", " + r
	}
	if e.Against != nil { // whose paths have other levels
		change = ""
	} else {
		change = " (" + change + ")"
	}
	if e.EstimateUnbounded {
		return fmt.Sprintf("%s: %s %s beyond any bound%s", subject, e.Verdict, what, change)
	}
	v, _, _ := e.Judged()
	much := joined(size(e, false, false))
	switch {
	case isMultiple(e):
		return fmt.Sprintf("%s: multiplies %s by %s%s", subject, what, much, change)
	case metric.HigherIsBetter && metric.ByRatio():
		return fmt.Sprintf("%s: %s %s of %s%s", subject, e.Verdict, much, what, change)
	case v > 0:
		return fmt.Sprintf("%s: adds %s to %s%s", subject, much, what, change)
	}
	return fmt.Sprintf("%s: takes %s off %s%s", subject, much, what, change)
}
