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
	if fraction > 0 && fraction < 0.005 {
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

// RatioEstimate writes a ratio and its interval: "3.71×" and "[3.69, 3.74]".
// The interval may be absent.
func RatioEstimate(x float64, low, high *float64) (ratio, between string) {
	if low == nil || high == nil {
		return Ratio(x), ""
	}
	decimals := quantity.RatioDecimals(x)
	if *high-*low < 2*math.Pow(10, -float64(decimals)) {
		decimals = min(decimals+1, 4)
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
	decimals = min(4, max(least, decimals))
	if math.Abs(v) < 0.5*math.Pow(10, -float64(decimals)) && decimals < 4 && v != 0 {
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
	return "p = " + strconv.FormatFloat(p, 'g', 2, 64)
}

// Scale writes a scale such as 10 or 2.5.
func Scale(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

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

// Column is how the values of a column are written: in one unit and with as
// many decimals, so that they compare digit by digit, or each in its own where
// they are too far apart.
type Column struct {
	unit     measurement.Unit
	scale    quantity.Scale
	decimals int
	mixed    bool
}

// mixedUnits is how far apart the values of a column may lie to share a unit:
// 42 µs next to 10205.5 µs reads worse than next to 10.2 ms, and 0.1913 Gbit/s next to
// 16.0083 Gbit/s than 191 Mbit/s next to 16.0 Gbit/s.
const mixedUnits = 30

// NewColumn chooses a unit for values, whose intervals have these widths.
// Fractions are far apart in nature: each is written with its own digits.
func NewColumn(u measurement.Unit, values, widths []float64) Column {
	least, most := math.Inf(1), 0.0
	sum, n := 0.0, 0
	for _, v := range values {
		if v = math.Abs(v); v > 0 && quantity.Finite(v) {
			least, most = min(least, v), max(most, v)
			sum, n = sum+math.Log(v), n+1
		}
	}
	c := Column{unit: u, scale: quantity.ScaleFor(u, 0), mixed: most >= mixedUnits*least}
	if n > 0 {
		c.scale = quantity.ScaleFor(u, math.Exp(sum/float64(n))) // their geometric mean
	}
	c.decimals = columnDecimals(values, widths, c.scale)
	return c
}

// Each says that the column's values are written each in a unit of its own.
func (c Column) Each() Column { c.mixed = true; return c }

// Mixed says whether that is so.
func (c Column) Mixed() bool { return c.mixed }

// ScaleOf is the unit in which a value is written.
func (c Column) ScaleOf(v float64) quantity.Scale {
	if c.mixed {
		return quantity.ScaleFor(c.unit, v)
	}
	return c.scale
}

// Split writes a value, and how to write others of its cell, such as its limits.
func (c Column) Split(v float64) (number, unit string, write func(float64) string) {
	s, decimals := c.ScaleOf(v), c.decimals
	if c.mixed {
		decimals = quantity.Decimals(v/s.Factor, 3)
		if whole(s) && v == math.Trunc(v) {
			decimals = 0
		}
	}
	write = func(x float64) string { return quantity.Number(x/s.Factor, decimals) }
	return write(v), s.Name, write
}

// Number writes a value without its unit.
func (c Column) Number(v float64) string {
	number, _, _ := c.Split(v)
	return number
}

// Write writes a value with its unit.
func (c Column) Write(v float64) string {
	number, unit, _ := c.Split(v)
	return Unit(number, unit)
}

// whole says that values of a unit may be whole: hops, packets, bytes.
func whole(s quantity.Scale) bool { return s.Name == "" || s.Name == "B" }

// columnDecimals is how many decimals show three significant digits of the
// smallest value, and one more where the narrowest interval needs it.
func columnDecimals(values, widths []float64, s quantity.Scale) int {
	fractional := false
	for _, list := range [][]float64{values, widths} {
		for _, v := range list {
			fractional = fractional || v != math.Trunc(v)
		}
	}
	if whole(s) && !fractional {
		return 0
	}
	d := 0
	for _, v := range values {
		d = max(d, quantity.Decimals(v/s.Factor, 3))
	}
	for _, w := range widths {
		if w > 0 && quantity.Decimals(w/s.Factor, 1) > d {
			return min(d+1, 6)
		}
	}
	return d
}
