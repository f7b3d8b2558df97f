package analysis

import (
	"math"
	"slices"

	"github.com/hopbench/hopbench/internal/analysis/statistics"
	"github.com/hopbench/hopbench/internal/measurement"
)

// logOf is a value's place on the scale of ratios. Nothing at all is the end of
// that scale, and what a broken trial stands for is beyond either end.
func logOf(v float64) float64 {
	switch {
	case math.IsInf(v, 0):
		return v
	case v <= 0:
		return math.Inf(-1)
	}
	return math.Log(v)
}

// logRatio is the logarithm of a/b. Nothing is infinitely less than something.
func logRatio(a, b float64) float64 {
	if a > 0 && b > 0 && !math.IsInf(a, 0) && !math.IsInf(b, 0) {
		return math.Log(a / b)
	}
	return statistics.Minus(logOf(a), logOf(b))
}

// bounded are the values of trials that did not break.
func bounded(values []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(values), func(v float64) bool { return math.IsInf(v, 0) })
}

// limits are the effects, on the scale of effects, between which a path counts as
// equal to the reference. For a rate they are a loss of the margin and the gain that undoes
// it, for other ratios the other way about: symmetric in the logarithm.
func limits(m measurement.Metric, margin measurement.Margin) (lower, upper float64) {
	switch {
	case !m.ByRatio():
		upper = margin.Amount
	case m.HigherIsBetter:
		upper = -math.Log1p(-margin.Fraction)
	default:
		upper = math.Log1p(margin.Fraction)
	}
	return -upper, upper
}

// fill takes the estimates and their intervals from all candidates for them in
// ascending order, Walsh averages or shifts of two samples: of the logarithms, nil
// where there is no ratio, and of the differences. invert finds the limits.
func (c *costEstimate) fill(logs, differences []float64, invert func([]float64) (statistics.Interval, bool)) {
	judged := differences
	if c.logarithmic {
		judged = logs
	}
	estimate, known := statistics.Centre(judged)
	c.estimate = estimate
	c.EstimateUnbounded = !known || math.IsInf(estimate, 0)
	c.LowUnbounded, c.HighUnbounded = !known || math.IsInf(estimate, -1), !known || math.IsInf(estimate, 1)
	if d, known := statistics.Centre(differences); known && !math.IsInf(d, 0) {
		c.Difference = d
	}
	if logs != nil {
		if m, known := statistics.Centre(logs); known && !math.IsInf(math.Exp(m), 0) {
			c.Ratio = math.Exp(m)
		}
	}
	i, ok := invert(judged)
	if !ok {
		return
	}
	spreading := i
	i = widened(i, c.estimate, c.reach())
	c.interval, c.spreading = &i, &spreading
	c.Coverage = i.Coverage
	c.LowUnbounded = c.LowUnbounded || math.IsInf(i.Low, -1)
	c.HighUnbounded = c.HighUnbounded || math.IsInf(i.High, 1)
	c.writeInterval(logs, differences, invert)
}

// writeInterval writes the limits of both scales, those that are bounded. What
// stands next to the judged scale has none without its estimate.
func (c *costEstimate) writeInterval(logs, differences []float64, invert func([]float64) (statistics.Interval, bool)) {
	write := func(to **float64, v float64, scale func(float64) float64) {
		if !math.IsInf(v, 0) {
			v = scale(v)
			*to = &v
		}
	}
	whole := func(candidates []float64) bool {
		centre, known := statistics.Centre(candidates)
		return known && !math.IsInf(centre, 0)
	}
	known := func(candidates []float64, uncertainty float64) (statistics.Interval, bool) {
		i, ok := invert(candidates)
		return widened(i, statistics.MedianOfSorted(candidates), expanded(uncertainty, 1-c.alpha)), ok
	}
	if i, ok := known(differences, c.resolution.amount); ok && (!c.logarithmic || whole(differences)) {
		same := func(v float64) float64 { return v }
		write(&c.DifferenceLow, i.Low, same)
		write(&c.DifferenceHigh, i.High, same)
	}
	if logs == nil {
		return
	}
	if i, ok := known(logs, c.resolution.share); ok && (c.logarithmic || whole(logs)) {
		write(&c.Low, i.Low, math.Exp)
		write(&c.High, i.High, math.Exp)
	}
}
