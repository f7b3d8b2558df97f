package report

import (
	"math"
	"strconv"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
)

// commonScale picks one unit for several values that are read together, from
// their geometric mean, so that a column can be compared digit by digit.
func commonScale(u measurement.Unit, values []float64) quantity.Scale {
	sum, n := 0.0, 0
	for _, v := range values {
		if v = math.Abs(v); v > 0 && quantity.Finite(v) {
			sum += math.Log(v)
			n++
		}
	}
	if n == 0 {
		return quantity.ScaleFor(u, 0)
	}
	return quantity.ScaleFor(u, math.Exp(sum/float64(n)))
}

// with appends a unit, with a no-break space so that no line ends between.
func with(s, unit string) string {
	if unit == "" || s == "—" {
		return s
	}
	return s + nbsp + unit
}

const nbsp = "\u00a0"

// inBestUnit writes one value by itself with three significant digits.
func inBestUnit(v float64, u measurement.Unit) string {
	return with(quantity.Split(v, u))
}

// interval writes [low, high] with the given writer of numbers.
func interval(low, high float64, f func(float64) string) string {
	return "[" + f(low) + "," + nbsp + f(high) + "]"
}

// percentDecimals is how many decimals a percentage with this interval wants.
func percentDecimals(v, width float64) int {
	switch {
	case math.Abs(v) >= 1000:
		return 0
	case width > 0 && width < 0.2:
		return 2
	}
	return 1
}

// trimmedPercent writes a fraction as a percentage without trailing zeros:
// bounds such as 2 % or 0.5 %.
func trimmedPercent(fraction float64) string {
	x := fraction * 100
	if !quantity.Finite(x) {
		return "—"
	}
	return with(quantity.Minus(strconv.FormatFloat(math.Round(x*100)/100, 'f', -1, 64)), "%")
}

// scaleName writes a scale such as 10 or 2.5.
func scaleName(x float64) string {
	return strconv.FormatFloat(x, 'f', -1, 64)
}

// publishedNumber writes a published value with three significant digits, or
// with four where it was published with more than three.
func publishedNumber(x float64) string {
	d := quantity.Decimals(x, 3)
	p := math.Pow(10, float64(d))
	if math.Abs(math.Round(x*p)/p-x) > 1e-9*math.Abs(x) {
		d = quantity.Decimals(x, 4)
	}
	return quantity.Number(x, d)
}
