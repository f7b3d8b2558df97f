package words

import (
	"math"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
)

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
		decimals = quantity.DecimalsIn(s, v/s.Factor)
		if whole(s) && v == math.Trunc(v) {
			decimals = 0
		}
	}
	write = func(x float64) string { return quantity.Number(x/s.Factor, decimals) }
	return write(v), s.Name, write
}

// Write writes a value with its unit: one that the column's would show as nothing, such as
// that of a single trial which collapsed, in its own.
func (c Column) Write(v float64) string {
	if !c.mixed && v != 0 && math.Abs(v/c.scale.Factor) < 0.5*math.Pow(10, -float64(c.decimals)) {
		return Value(v, c.unit)
	}
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
		d = max(d, quantity.DecimalsIn(s, v/s.Factor))
	}
	for _, w := range widths {
		if w > 0 && quantity.Decimals(w/s.Factor, 1) > d {
			return min(d+1, 6)
		}
	}
	return d
}
