package words

import (
	"fmt"
	"math"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/result"
)

// Size writes an effect the way its metric is spoken of: rates as a share of
// the reference, all else as a difference in the unit; with its interval.
// factor −1 turns a loss into a positive number.
func size(e result.Effect, factor float64, signed bool) (estimate, between string) {
	v, low, high, u := e.Difference, e.DifferenceLow, e.DifferenceHigh, measurement.MetricOf(e.Metric).Unit
	if !e.LeadsWithDifference() {
		v, low, high, u = e.Ratio-1, minusOne(e.Low), minusOne(e.High), measurement.Fraction
	}
	if factor < 0 {
		low, high = negative(high), negative(low)
	}
	return Estimate(factor*v, low, high, u, signed)
}

func minusOne(v *float64) *float64 {
	if v == nil {
		return nil
	}
	x := *v - 1
	return &x
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
	return size(e, 1, true)
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
		text += v.bound + Percent(e.Bound)
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
	case e.Run != "":
		return quantity.Count(n, "trial") + " in each run"
	case n >= result.MaxRepetitionsNeeded || e.NeededLow == e.NeededHigh:
	case e.NeededHigh >= result.MaxRepetitionsNeeded:
		return quantity.Count(e.NeededLow, "block") + " or more"
	default:
		return fmt.Sprintf("%d to %s", e.NeededLow, quantity.Count(e.NeededHigh, "block"))
	}
	return quantity.Count(n, "block")
}

// judged is the sentence of a verdict.
func (n Names) judged(e result.Effect) string {
	path, what := n.Path(e.Path), measurement.MetricOf(e.Metric).Label+", "+n.Test(e.Test)
	switch e.Verdict {
	case result.Costs, result.Gains:
		return claim(e, path, what)
	case result.NoCost:
		text := fmt.Sprintf("%s: no cost larger than %s on %s", path, fraction(e, e.Bound), what)
		if e.BeyondChance {
			text += fmt.Sprintf("; the difference of %s is beyond chance but smaller than the %s that matters", joined(size(e, 1, true)), fraction(e, e.SmallestEffect))
		}
		return text
	}
	if e.N == 0 {
		return fmt.Sprintf("%s: not resolved on %s: no block has a trial that counts of both %s and %s", path, what, path, n.Path(e.Baseline))
	}
	text := fmt.Sprintf("%s: not resolved on %s: %s", path, what, joined(size(e, 1, true)))
	if e.Coverage == 0 {
		text += " from "
		if e.Run != "" {
			text += fmt.Sprintf("%d and %s", e.ReferenceN, quantity.Count(e.N, "trial"))
		} else {
			text += quantity.Count(e.N, "block")
		}
	}
	switch {
	case e.RepetitionsNeeded >= result.MaxRepetitionsNeeded:
		text += "; needs more than " + repetitions(e, result.MaxRepetitionsNeeded)
	case e.RepetitionsNeeded > 0:
		text += "; needs about " + repetitions(e, e.RepetitionsNeeded)
	}
	return text
}

// claim is the sentence of a cost or a gain.
func claim(e result.Effect, path, what string) string {
	u := measurement.MetricOf(e.Metric).Unit
	change := Value(e.ReferenceMedian, u) + " → " + Value(e.Median, u)
	if e.LeadsWithDifference() {
		if r := Ratio(e.Ratio); r != "" {
			change += ", " + r
		}
		if e.Difference > 0 {
			return fmt.Sprintf("%s: adds %s to %s (%s)", path, joined(size(e, 1, false)), what, change)
		}
		return fmt.Sprintf("%s: takes %s off %s (%s)", path, joined(size(e, -1, false)), what, change)
	}
	factor := 1.0
	if e.Ratio < 1 {
		factor = -1
	}
	return fmt.Sprintf("%s: %s %s of %s (%s)", path, e.Verdict, joined(size(e, factor, false)), what, change)
}

// fraction writes a fraction of the reference, for times as a time too.
func fraction(e result.Effect, f float64) string {
	if !e.LeadsWithDifference() || e.ReferenceMedian <= 0 {
		return Percent(f)
	}
	// Rounded up, as the fraction is: a bound must not shrink on paper.
	s := quantity.ScaleFor(measurement.MetricOf(e.Metric).Unit, f*e.ReferenceMedian)
	x := f * e.ReferenceMedian / s.Factor
	steps := math.Pow(10, 1-math.Floor(math.Log10(x)))
	x = math.Ceil(x*steps-1e-6) / steps
	return Unit(quantity.Number(x, quantity.Decimals(x, 2)), s.Name) + " (" + Percent(f) + ")"
}

// Headline is the sentence of the primary cost that a reader must know first:
// the largest that is beyond chance, of throughput before latency. Of paths
// whose costs are about as large, it is the first. When nothing costs, it says
// so.
func (n Names) Headline(costs []result.Effect, paths, trials int) string {
	best, largest, unresolved, few := -1, 0.0, 0, 0
	for i, c := range costs {
		switch c.Verdict {
		case result.TooFewBlocks, result.Indicated:
			few++
			fallthrough
		case result.NotResolved:
			unresolved++
		}
		if c.Verdict != result.Costs || c.Ratio <= 0 {
			continue
		}
		s := math.Abs(math.Log(c.Ratio))
		if measurement.MetricOf(c.Metric).ScalesWithRate {
			s += 1000 // more than any logarithm of a ratio of two floats
		}
		if s > largest+0.1*math.Mod(largest, 1000) {
			best, largest = i, s
		}
	}
	switch {
	case best >= 0:
		return n.Effect(costs[best])
	case len(costs) == 1:
		return n.Effect(costs[0])
	case len(costs) == 0 && trials == 0:
		return "Nothing was measured yet."
	case len(costs) == 0 && paths == 1:
		return "One path was measured; there is nothing to compare it with."
	case len(costs) == 0:
		return "There is nothing to compare with the baseline."
	case few > 0:
		return fmt.Sprintf("Too few blocks to claim anything in %d of %d comparisons.", few, len(costs))
	case unresolved > 0:
		return fmt.Sprintf("No cost was found beyond chance; %d of %d comparisons are not resolved.", unresolved, len(costs))
	}
	return "No path costs more than the stated bounds."
}
