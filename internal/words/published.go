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
	d := quantity.Decimals(v/s.Factor, 3)
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
	result.MissingTrial: func(result.PublishedComparison) string { return "no trial of it was done" },
	result.MissingAllExcluded: func(p result.PublishedComparison) string {
		return fmt.Sprintf("no trial of it counts: gates excluded all %d", p.ExcludedTrials)
	},
	result.MissingMetric: func(result.PublishedComparison) string {
		return "no trial of it that counts brought this metric back"
	},
}

// Judgement is a judgement in two words: "within 5 %".
func Judgement(p result.PublishedComparison) string {
	switch {
	case p.Judgement == result.NotMeasured:
		return "not measured"
	case p.Tolerance == nil:
	case p.Judgement == result.Within:
		return "within" + NBSP + Percent(*p.Tolerance)
	case p.Judgement == result.Outside:
		return "not within" + NBSP + Percent(*p.Tolerance)
	}
	return "not judged"
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
	if p.Basis == result.BasisRatio {
		ratio, between := RatioEstimate(p.MeasuredRatio, p.RatioLow, p.RatioHigh)
		parts = append(parts, joined(ratio+" the baseline", between), "published "+Ratio(p.PublishedRatio))
	}
	switch {
	case p.Off != nil:
		parts = append(parts, off(p))
	case p.Measured == p.Value:
		parts = append(parts, "as published")
	default:
		parts = append(parts, "no share of what was published can be given")
	}
	if p.Tolerance == nil {
		parts = append(parts, "no tolerance is stated")
	}
	return strings.Join(parts, ", ")
}

func off(p result.PublishedComparison) string {
	v := *p.Off
	if math.Abs(v) < 1e-9 {
		v = 0 // the rounding of two equal values
	}
	text, _ := Estimate(v, nil, nil, measurement.Fraction, true)
	return text + " off"
}

// Published is a published figure and what was measured in a sentence.
func (n Names) Published(p result.PublishedComparison) string {
	metric := measurement.MetricOf(p.Metric)
	what := fmt.Sprintf("%s, %s, %s: %s", p.ID, n.Path(p.Path), n.Test(p.Test), metric.Label)
	if p.Judgement == result.NotMeasured {
		return what + " was not measured: " + JudgementReason(p)
	}
	text := fmt.Sprintf("%s is %s, published %s", what, Value(p.Measured, metric.Unit), Value(p.Value, metric.Unit))
	if p.Basis == result.BasisRatio {
		text = fmt.Sprintf("%s is %s the baseline's, published %s", what, Ratio(p.MeasuredRatio), Ratio(p.PublishedRatio))
	}
	if p.Off != nil {
		text += ": " + off(p)
	}
	if p.Judgement != result.NotJudged {
		text += ", " + Judgement(p)
	}
	return text
}

// Tally counts judged figures and published values within intervals.
func Tally(all []result.PublishedComparison) (out []string) {
	within, judged := result.Judged(all)
	if judged > 0 {
		out = append(out, fmt.Sprintf("%d of %s within their tolerance.", within, quantity.Count(judged, "judged figure")))
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
		out = append(out, fmt.Sprintf("%d of %s lie within the measured 95"+NBSP+"%% interval. A published value has an error of its own, which one run cannot tell: lying outside is no proof that either is wrong.", inside, quantity.Count(intervals, "published value")))
	}
	return out
}
