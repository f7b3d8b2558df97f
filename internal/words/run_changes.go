package words

import (
	"fmt"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/result"
)

// change is the sentence of how one run, or several, differ from others: in what a
// path costs, or in its level where there is nothing that it is compared with.
func (n Names) change(e result.Effect) string {
	metric := measurement.MetricOf(e.Metric)
	subject, what := n.Subject(e), n.measured(e)
	of := "the level"
	if e.Baseline != "" {
		of = "the cost"
	}
	from := ""
	switch {
	case e.Runs > 0:
		from = fmt.Sprintf(" over %d and %s", e.ReferenceRuns, quantity.Count(e.Runs, "run"))
	case e.Coverage == 0:
		from = fmt.Sprintf(" from %d and %s", e.ReferenceN-e.ReferenceWithoutValue, quantity.Count(e.Counted(), "trial"))
	}
	change := joined(size(e, true, false)) + from
	switch e.Verdict {
	case result.Costs, result.Gains, result.Breaks:
		verb := verdicts[e.Verdict].run
		if e.EstimateUnbounded {
			return fmt.Sprintf("%s: %s than in %s on %s, beyond any bound%s", subject, verb, e.ReferenceRun, what, n.unbounded(e))
		}
		levels := Value(e.ReferenceMedian, metric.Unit) + " → " + Value(e.Median, metric.Unit)
		if e.Baseline != "" {
			levels += fmt.Sprintf("; %s %s → %s", n.Path(e.Baseline), Value(e.ReferenceBaselineMedian, metric.Unit), Value(e.BaselineMedian, metric.Unit))
		}
		return fmt.Sprintf("%s: %s than in %s on %s: %s changed by %s (%s)%s", subject, verb, e.ReferenceRun, what, of, change, levels, n.unbounded(e))
	case result.NoCost:
		text := fmt.Sprintf("%s: no change larger than %s of %s on %s%s", subject, amount(e, e.Bound, false), of, what, from)
		return text + where(e)
	}
	if e.Counted() == 0 {
		return fmt.Sprintf("%s: not resolved on %s: %s", subject, what, n.withheld(e))
	}
	if e.NoLevels() {
		text := fmt.Sprintf("%s: not resolved on %s: no trial of either run has a value", subject, what)
		if e.Broken+e.ReferenceBroken > 0 { // or they lost the requests that a percentile falls on
			text += ": " + n.broke(e)
		}
		return text
	}
	by := "by " + change
	switch {
	case e.EstimateUnbounded && e.LowUnbounded && e.HighUnbounded:
		by = "by an unknown amount" + from
	case e.EstimateUnbounded:
		by = "beyond any bound" + from
	}
	text := fmt.Sprintf("%s: not resolved on %s: %s changed %s", subject, what, of, by)
	if len(e.Withheld) > 0 {
		return text + ". The verdict is withheld: " + n.withheld(e)
	}
	return text + n.unbounded(e) + needs(e)
}

// ChangesNote says how the changes of a comparison were estimated.
func ChangesNote(changes []result.Effect) string {
	for _, c := range changes {
		switch {
		case c.Runs > 0:
			return "Each run is one reading: the change is that of the mean over runs, its interval is Hartung and Knapp's for runs with a level of their own. p is adjusted for the number of comparisons."
		case c.Baseline != "":
			return "The change is that of a cost: the difference to the baseline within each block of one run against those of the other, so that what a whole run met cancels. The interval inverts the exact rank-sum test; p is adjusted for the number of comparisons. It speaks of these two runs: three or more a side (--reference) say how much runs differ by themselves."
		}
	}
	return "The change is the median over all pairs of a trial of one run and one of the other, its interval inverts the exact rank-sum test. It speaks of the trials of these two runs, not of what else changed between them."
}
