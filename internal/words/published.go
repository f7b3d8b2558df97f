package words

import (
	"fmt"
	"math"
	"strings"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/result"
)

// PublishedTitle heads the table of published figures.
const PublishedTitle = "Published and measured"

// Measured writes what was measured of a figure, and its interval, in a unit.
func Measured(v float64, low, high *float64, s quantity.Scale) (measured, between string) {
	digits := v
	if v == 0 && high != nil { // a median of zero has no digits, its interval may
		digits = *high
	}
	d := quantity.Decimals(digits/s.Factor, 3)
	if whole(s) && v == math.Trunc(v) {
		d = 0 // whole counts, such as hops
	}
	write := func(x float64) string { return quantity.Number(x/s.Factor, d) }
	if low != nil && high != nil {
		between = Interval(*low, *high, write)
	}
	return Unit(write(v), s.Name), between
}

// missing says why a published figure was not measured.
var missing = map[result.Missing]func(p result.PublishedComparison) string{
	result.MissingTrial: func(result.PublishedComparison) string { return "it has no trial" },
	result.MissingAllExcluded: func(p result.PublishedComparison) string {
		return fmt.Sprintf("none of its trials counts: gates excluded, or the path broke, all %d", p.ExcludedTrials)
	},
	result.MissingMetric: func(result.PublishedComparison) string {
		return "none of its counted trials has this metric"
	},
}

// Judgement is a judgement in two words: "inside 5 %".
func Judgement(p result.PublishedComparison) string {
	switch p.Judgement {
	case result.NotMeasured:
		return "not measured"
	case result.Inside, result.Outside:
		return string(p.Judgement) + NBSP + tolerance(p)
	case result.Undecided:
		return "undecided at" + NBSP + tolerance(p)
	}
	return "not judged"
}

// tolerance is what a figure is judged by.
func tolerance(p result.PublishedComparison) string {
	if p.Tolerance != nil {
		return Percent(*p.Tolerance)
	}
	return "a factor of" + NBSP + Scale(p.ToleranceFactor)
}

// conditions says with what else than the test the figure was published, empty
// where with the same.
func conditions(p result.PublishedComparison) string {
	var parts []string
	if p.OtherDuration > 0 {
		parts = append(parts, fmt.Sprintf("over %s, published over %s", Time(p.OtherDuration), Time(p.Duration)))
	}
	if p.OtherFlows > 0 {
		parts = append(parts, fmt.Sprintf("with %s, published with %d", quantity.Count(p.OtherFlows, "flow"), p.Flows))
	}
	if len(parts) == 0 {
		return ""
	}
	text := "measured " + strings.Join(parts, " and ")
	if p.Kind == result.FigurePredicted && p.Judgement != result.NotJudged {
		text += ": not counted"
	}
	return text
}

// JudgementReason says what a judgement compares and how far apart the two are,
// without naming the figure; why there is none, where there is none.
func JudgementReason(p result.PublishedComparison) string {
	if p.Judgement == result.NotMeasured {
		if why, known := missing[p.Missing]; known {
			return why(p)
		}
		return ""
	}
	var parts []string
	baseline := p.Basis != result.BasisRatio || p.MeasuredRatio > 0 // has the value that it needs
	switch {
	case !baseline:
		parts = append(parts, "the baseline, whose value it is divided by, has none", "published "+Ratio(p.PublishedRatio)+" the baseline")
	case p.Basis == result.BasisRatio:
		ratio, between := ratioEstimate(p.MeasuredRatio, p.RatioLow, p.RatioHigh)
		parts = append(parts, joined(ratio+" the baseline", between), "published "+Ratio(p.PublishedRatio))
	}
	switch {
	case !baseline:
	case p.Off != nil:
		parts = append(parts, off(p))
	case p.Measured == p.Value:
		parts = append(parts, "as published")
	default:
		parts = append(parts, "a published 0 needs a measured 0")
	}
	low, high := p.Low, p.High
	if p.Basis == result.BasisRatio {
		low, high = p.RatioLow, p.RatioHigh
	}
	switch {
	case p.Judgement == result.NotJudged && p.Kind == result.FigureOpen:
		parts = append(parts, "the model leaves it out")
	case p.Judgement == result.NotJudged:
		parts = append(parts, "no tolerance is stated")
	case !baseline:
	case p.Judgement == result.Undecided && (low == nil || high == nil):
		parts = append(parts, "too few trials for an interval")
	case p.Judgement == result.Undecided:
		parts = append(parts, "the interval is on both sides of the tolerance")
	}
	if text := conditions(p); text != "" {
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

func off(p result.PublishedComparison) string {
	v := *p.Off
	if math.Abs(v) < 1e-9 {
		v = 0 // the rounding of two equal values
	}
	return withSign(v, measurement.Fraction) + " off"
}

// Published is a published figure and what was measured in a sentence.
func (n Names) Published(p result.PublishedComparison) string {
	metric := measurement.MetricOf(p.Metric)
	what := fmt.Sprintf("%s (%s), %s, %s: %s", p.ID, p.Kind, n.Path(p.Path), n.Test(p.Test), metric.Label)
	if p.Judgement == result.NotMeasured {
		return what + " was not measured: " + JudgementReason(p)
	}
	text := fmt.Sprintf("%s is %s, published %s", what, Value(p.Measured, metric.Unit), Value(p.Value, metric.Unit))
	switch {
	case p.Basis == result.BasisRatio && p.MeasuredRatio > 0:
		text = fmt.Sprintf("%s is %s the baseline's, published %s", what, Ratio(p.MeasuredRatio), Ratio(p.PublishedRatio))
	case p.Basis == result.BasisRatio:
		text = fmt.Sprintf("%s was published as %s the baseline's, which has no value here", what, Ratio(p.PublishedRatio))
	}
	if p.Off != nil {
		text += ": " + off(p)
	}
	if p.Judgement != result.NotJudged {
		text += ", " + Judgement(p)
	}
	if other := conditions(p); other != "" {
		text += "; " + other
	}
	return text
}

// Predictions counts the predictions of a model that came true, and besides them
// what was planted; empty where there is neither.
func Predictions(c result.PublishedCount) string {
	var parts []string
	if n := c.Predictions(); n > 0 {
		text := fmt.Sprintf("%d of %s inside", c.Inside, quantity.Count(n, "prediction"))
		if c.Undecided > 0 {
			text += fmt.Sprintf(", %d undecided", c.Undecided)
		}
		parts = append(parts, text)
	}
	if c.Uncounted > 0 {
		parts = append(parts, quantity.Count(c.Uncounted, "prediction")+" not counted")
	}
	if c.Planted > 0 {
		parts = append(parts, quantity.Count(c.Planted, "figure")+" "+agree(c.Planted, "is", "are")+" planted")
	}
	return strings.Join(parts, "; ")
}

// Tally counts predictions by their judgement, the figures that are none, and
// published values within intervals.
func Tally(all []result.PublishedComparison) (out []string) {
	c := result.CountPublished(all)
	if text := Predictions(c); text != "" {
		out = append(out, text+".")
	}
	if c.Uncounted > 0 {
		out = append(out, "Figures measured with another duration or number of flows than published are not counted.")
	}
	if c.Planted > 0 {
		out = append(out, "A planted figure is one from which a parameter of the model was derived: that it comes back shows only that the testbed applies its parameters.")
	}
	inside, intervals := 0, 0
	for _, p := range all {
		if p.InInterval != nil {
			intervals++
			if *p.InInterval {
				inside++
			}
		}
	}
	if intervals > 0 {
		out = append(out, fmt.Sprintf("%d of %s lie within the measured 95"+NBSP+"%% interval. A published value has an error of its own, which one run cannot show: a value outside does not prove that either is wrong.", inside, quantity.Count(intervals, "published value")))
	}
	return out
}
