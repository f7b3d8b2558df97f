package words

import (
	"fmt"
	"math"
	"strings"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/result"
)

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
	case trials == 0:
		return "Nothing has been measured yet."
	case best >= 0:
		return n.BriefEffect(costs[best]) + n.otherPaths(costs, costs[best])
	case len(costs) == 1:
		return n.BriefEffect(costs[0])
	case len(costs) == 0 && paths == 1:
		return "One path was measured; there is nothing to compare it with."
	case len(costs) == 0:
		return "There is nothing to compare with the baseline."
	case few > 0:
		return fmt.Sprintf("Too few blocks to claim anything in %d of %s. The largest effect of these: %s.", few, quantity.Count(len(costs), "comparison"), n.BriefEffect(costs[open]))
	case open >= 0:
		count := 0
		for _, c := range costs {
			if unresolved(c.Verdict) {
				count++
			}
		}
		text := fmt.Sprintf("None of %[2]s shows a cost, but %[1]d of them %[3]s not resolved", count, quantity.Count(len(costs), "comparison"), agree(count, "is", "are"))
		if costs[open].Counted() == 0 {
			return text + ", for want of values."
		}
		return text + ". The largest of these: " + n.BriefEffect(costs[open]) + "."
	}
	return "No path costs more than the stated bounds."
}

// mostOtherPaths is how many other paths a headline names; of more it tells the verdicts alone.
const mostOtherPaths = 3

// otherPaths is what the test of an effect found on the other paths.
func (n Names) otherPaths(costs []result.Effect, of result.Effect) string {
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
	case len(each) <= mostOtherPaths:
		return "; " + strings.Join(each, "; ")
	}
	return fmt.Sprintf("; of %d other paths: %d costs, %d do not, %d not resolved", len(each), cost, no, len(each)-cost-no)
}

// agree is the form of a verb that agrees with so many.
func agree(n int, one, several string) string {
	if n == 1 {
		return one
	}
	return several
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
		if !of(c.Verdict) || c.Counted() == 0 && best >= 0 {
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
	case e.Counted() == 0:
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
