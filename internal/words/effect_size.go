package words

import (
	"math"

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

// size writes an effect on the scale on which it is judged, a share or a multiple of
// the reference or a difference in the metric's unit, with its interval. Without its
// sign a loss is a positive number.
func size(e result.Effect, signed, short bool) (estimate, between string) {
	v, low, high := e.Judged()
	if e.EstimateUnbounded {
		return "unbounded", ""
	}
	if e.LowUnbounded || e.HighUnbounded {
		least := math.Inf(-1)
		if !e.LeadsWithDifference() {
			least = -1 // nothing loses more than all
		}
		low, high = end(low, e.LowUnbounded, least), end(high, e.HighUnbounded, math.Inf(1))
	}
	if !signed && v < 0 {
		v = -v
		low, high = negative(high), negative(low)
	}
	u := measurement.MetricOf(e.Metric).Unit
	switch {
	case isMultiple(e):
		low, high = end(e.Low, e.LowUnbounded, 0), end(e.High, e.HighUnbounded, math.Inf(1)) // no ratio is below nothing
		estimate, between = estimateIn(quantity.Scale{Factor: 1}, e.Ratio, low, high, quantity.RatioDecimals(e.Ratio), false)
		return estimate + "×", between
	case !e.LeadsWithDifference():
		return Estimate(v, low, high, measurement.Fraction, signed)
	case u == measurement.Fraction:
		return estimateIn(points(short), v, low, high, 1, signed)
	}
	return Estimate(v, low, high, u, signed)
}

// CostRatio writes the ratio of a path to its reference, with its interval, which broken
// trials may leave without an end, or the ratio itself without a value.
func CostRatio(e result.Effect) (ratio, between string) {
	switch {
	case e.EstimateUnbounded:
		return "unbounded", ""
	case (e.Low == nil) == (e.High == nil) && !Endless(e):
		return ratioEstimate(e.Ratio, e.Low, e.High)
	}
	write := func(v *float64, without string) string {
		if v == nil {
			return without
		}
		return quantity.Number(*v, quantity.RatioDecimals(e.Ratio))
	}
	return Ratio(e.Ratio), "[" + write(e.Low, "0") + "," + NBSP + write(e.High, "∞") + "]"
}

// Endless says that an effect has an interval which broken trials leave without an end on
// either side: it is not known at all how large the effect is.
func Endless(e result.Effect) bool { return e.LowUnbounded && e.HighUnbounded && !e.EstimateUnbounded }

// manyfold is the ratio from which on an effect is written as a multiple of the reference,
// "16.9×", since nobody reads thousands of per cent.
const manyfold = 10

func isMultiple(e result.Effect) bool {
	return !e.LeadsWithDifference() && e.Ratio >= manyfold && !e.EstimateUnbounded
}

// end is an end of an interval, as far as there is any value where it is unbounded.
func end(v *float64, unbounded bool, farthest float64) *float64 {
	if unbounded {
		return new(farthest)
	}
	return v
}

func negative(v *float64) *float64 {
	if v == nil {
		return nil
	}
	return new(-*v)
}

// Size writes an effect with its sign, and its interval: "−70.2 %" and
// "[−70.3, −70.1]"; a dash where there is nothing to compare.
func Size(e result.Effect) (estimate, between string) {
	if e.Counted() == 0 {
		return None, ""
	}
	return size(e, true, true)
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
