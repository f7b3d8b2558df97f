package words

import (
	"math"
	"strconv"
	"strings"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
)

// NBSP keeps a number and its unit on one line.
const NBSP = "\u00a0"

// None stands where there is no number.
const None = "—"

// Unit appends a unit to a number.
func Unit(number, unit string) string {
	if unit == "" || number == None {
		return number
	}
	return number + NBSP + unit
}

// Value writes a value in its best unit: "358 Mbit/s".
func Value(v float64, u measurement.Unit) string { return Unit(quantity.Split(v, u)) }

// Rate writes a rate.
func Rate(bitsPerSecond float64) string { return Value(bitsPerSecond, measurement.BitsPerSecond) }

// Time writes a length of time.
func Time(s measurement.Seconds) string { return Value(float64(s), measurement.SecondsUnit) }

// Percent writes a fraction that somebody stated, such as a bound or a
// tolerance, without trailing zeros: "2 %", "12.5 %".
func Percent(fraction float64) string {
	return stated(fraction, quantity.Scale{Factor: 0.01, Name: "%"})
}

// Share writes a part of a whole, to the nearest per cent.
func Share(fraction float64) string {
	if fraction > 0 && fraction <= 0.005 {
		return Unit("< 1", "%")
	}
	return Unit(quantity.Number(100*fraction, 0), "%")
}

// Ratio writes a ratio: "3.71×", or nothing where there is none.
func Ratio(x float64) string {
	if !(x > 0) || !quantity.Finite(x) {
		return ""
	}
	return quantity.Ratio(x) + "×"
}

// mostDecimals bounds those of an estimate: one lost packet of millions must not read as none.
const mostDecimals = 6

// ratioEstimate writes a ratio and its interval: "3.71×" and "[3.69, 3.74]".
// The interval may be absent.
func ratioEstimate(x float64, low, high *float64) (ratio, between string) {
	if low == nil || high == nil {
		return Ratio(x), ""
	}
	decimals := quantity.RatioDecimals(x)
	if *high-*low < 2*math.Pow(10, -float64(decimals)) {
		decimals = min(decimals+1, mostDecimals)
	}
	write := func(v float64) string { return quantity.Number(v, decimals) }
	return write(x) + "×", Interval(*low, *high, write)
}

// Interval writes [low, high] with the given writer of numbers.
func Interval(low, high float64, write func(float64) string) string {
	return "[" + write(low) + "," + NBSP + write(high) + "]"
}

// Estimate writes an estimate and its limits in one unit, with as many decimals
// as the width of the interval supports: "70.1 %" and "[69.8, 70.4]". The limits
// may be absent. signed shows a plus.
func Estimate(v float64, low, high *float64, u measurement.Unit, signed bool) (estimate, between string) {
	if low == nil || high == nil {
		low, high = nil, nil
	}
	largest := math.Abs(v)
	for _, limit := range []*float64{low, high} {
		if limit != nil && !math.IsInf(*limit, 0) {
			largest = max(largest, math.Abs(*limit))
		}
	}
	s := quantity.ScaleFor(u, largest)
	// One decimal at least keeps a small estimate readable with a wide
	// interval: "+2.3 ms [−75.6, +2.4]".
	least := 0
	if u == measurement.Fraction || (largest < 99.95*s.Factor && s.Factor != 1e-9) {
		least = 1
	}
	return estimateIn(s, v, low, high, least, signed)
}

// withSign writes a difference without limits, with its sign: "−50.1 %".
func withSign(v float64, u measurement.Unit) string {
	text, _ := Estimate(v, nil, nil, u, true)
	return text
}

// changeOf writes a change as a share where its ratio is known, else by its difference.
func changeOf(ratio, difference float64, u measurement.Unit) string {
	switch {
	case ratio > 0:
		return withSign(ratio-1, measurement.Fraction)
	case u == measurement.Fraction:
		text, _ := estimateIn(points(false), difference, nil, nil, 1, true)
		return text
	}
	return withSign(difference, u)
}

// estimateIn writes an estimate and its limits in a unit, with so many decimals at
// least. A limit may be infinite.
func estimateIn(s quantity.Scale, v float64, low, high *float64, least int, signed bool) (estimate, between string) {
	write := quantity.Number
	if signed {
		write = quantity.Signed
	}
	v /= s.Factor
	if low == nil || high == nil {
		return Unit(write(v, max(least, min(3, quantity.Decimals(v, 2)))), s.Name), ""
	}
	l, h := *low/s.Factor, *high/s.Factor
	width := h - l
	if math.IsInf(width, 0) { // then that of the bounded half
		width = 2 * min(h-v, v-l)
	}
	decimals := quantity.Decimals(v, 3)
	if width > 0 && !math.IsInf(width, 0) {
		decimals = int(math.Ceil(-math.Log10(width / 2)))
	}
	// Two digits of the farther limit, as the bound has that excludes it.
	least = max(least, quantity.Decimals(max(math.Abs(l), math.Abs(h)), 2))
	decimals = min(mostDecimals, max(least, decimals))
	vanishes := func(x float64) bool { return x != 0 && math.Abs(x) < 0.5*math.Pow(10, -float64(decimals)) }
	if vanishes(v) && decimals < 4 {
		decimals++
	}
	// Nor does an interval without 0 reach it by rounding.
	for l*h > 0 && vanishes(min(math.Abs(l), math.Abs(h))) && decimals < mostDecimals {
		decimals++
	}
	return Unit(write(v, decimals), s.Name), Interval(l, h, func(x float64) string {
		switch {
		case math.IsInf(x, -1):
			return "−∞"
		case math.IsInf(x, 1) && signed:
			return "+∞"
		case math.IsInf(x, 1):
			return "∞"
		}
		return write(x, decimals)
	})
}

// stated writes a value that somebody stated, without trailing zeros.
func stated(v float64, s quantity.Scale) string {
	x := v / s.Factor
	text := quantity.Number(x, quantity.Decimals(x, 3))
	if strings.Contains(text, ".") {
		text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	}
	return Unit(text, s.Name)
}

// joined puts an interval after what it belongs to.
func joined(estimate, between string) string { return strings.TrimSpace(estimate + " " + between) }

// P writes a p value.
func P(p float64) string {
	if p < 0.0001 {
		return "p < 0.0001"
	}
	text := strconv.FormatFloat(p, 'g', 2, 64)
	for digits := 3; text == "0.05" && p != 0.05 && digits < 6; digits++ { // the level that a verdict follows from
		text = strconv.FormatFloat(p, 'g', digits, 64)
	}
	return "p = " + text
}

// Scale writes a scale such as 10 or 2.5.
func Scale(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// ScaledBy is the scale of what is scaled down, empty of what is not.
func ScaledBy(x float64) string {
	if !(x > 0) || x == 1 {
		return ""
	}
	return Scale(x)
}

// Printed writes a published value with three significant digits, or with four
// where it was published with more than three.
func Printed(v float64, s quantity.Scale) string {
	x := v / s.Factor
	d := quantity.Decimals(x, 3)
	p := math.Pow(10, float64(d))
	if math.Abs(math.Round(x*p)/p-x) > 1e-9*math.Abs(x) {
		d = quantity.Decimals(x, 4)
	}
	return Unit(quantity.Number(x, d), s.Name)
}
