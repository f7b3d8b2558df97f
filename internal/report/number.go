package report

import (
	"math"
	"strconv"
	"strings"

	"github.com/hopbench/hopbench/internal/measurement"
)

// scale is a display unit: a value in base units is divided by Factor.
type scale struct {
	Factor float64
	Name   string
}

var (
	rateScales   = []scale{{1e12, "Tbit/s"}, {1e9, "Gbit/s"}, {1e6, "Mbit/s"}, {1e3, "kbit/s"}, {1, "bit/s"}}
	timeScales   = []scale{{1, "s"}, {1e-3, "ms"}, {1e-6, "µs"}, {1e-9, "ns"}}
	byteScales   = []scale{{1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}, {1, "B"}}
	percentScale = scale{0.01, "%"}
	plainScale   = scale{1, ""}
)

// scaleFor picks the display unit in which a value like reference reads best:
// the largest one that leaves at least 1 before the decimal point.
func scaleFor(u measurement.Unit, reference float64) scale {
	var from []scale
	switch u {
	case measurement.BitsPerSecond:
		from = rateScales
	case measurement.SecondsUnit:
		from = timeScales
	case measurement.Bytes:
		from = byteScales
	case measurement.Fraction:
		return percentScale
	default:
		return plainScale
	}
	reference = math.Abs(reference)
	if reference == 0 || !finite(reference) {
		return middle(u, from)
	}
	for _, s := range from {
		if reference >= s.Factor*0.9995 { // 999.6 kbit/s would read as 1000
			return s
		}
	}
	return from[len(from)-1]
}

// middle is the unit to write a zero in.
func middle(u measurement.Unit, from []scale) scale {
	if u == measurement.SecondsUnit {
		return timeScales[1]
	}
	return from[len(from)-1]
}

// commonScale picks one unit for several values that are read together, from
// their geometric mean, so that a column can be compared digit by digit.
func commonScale(u measurement.Unit, values []float64) scale {
	sum, n := 0.0, 0
	for _, v := range values {
		if v = math.Abs(v); v > 0 && finite(v) {
			sum += math.Log(v)
			n++
		}
	}
	if n == 0 {
		return scaleFor(u, 0)
	}
	return scaleFor(u, math.Exp(sum/float64(n)))
}

// decimalsFor is the number of decimals that give v significant digits.
func decimalsFor(v float64, significant int) int {
	v = math.Abs(v)
	if v == 0 || !finite(v) {
		return 0
	}
	d := significant - 1 - int(math.Floor(math.Log10(v)))
	if d > 0 && d < 300 && math.Round(v*math.Pow(10, float64(d))) >= math.Pow(10, float64(significant)) {
		d-- // 0.9996 reads as 1.00, not as 1.000
	}
	return min(max(d, 0), 6)
}

// number writes v (already in display units) with a typographic minus.
// Magnitudes that decimals cannot show go to exponent notation.
func number(v float64, decimals int) string {
	if !finite(v) {
		return "—"
	}
	if a := math.Abs(v); a >= 1e7 || (a > 0 && a < 1e-6) {
		return minus(strconv.FormatFloat(v, 'g', 3, 64))
	}
	s := strconv.FormatFloat(v, 'f', decimals, 64)
	if strings.Trim(s, "-0.") == "" {
		s = strings.TrimPrefix(s, "-") // no negative zero
	}
	return minus(s)
}

// signed is number with a plus before what is above zero.
func signed(v float64, decimals int) string {
	s := number(v, decimals)
	if v > 0 && strings.Trim(s, "0.") != "" && finite(v) {
		return "+" + s
	}
	return s
}

// minus swaps the hyphen for a true minus sign, which lines up with digits.
func minus(s string) string { return strings.ReplaceAll(s, "-", "−") }

// with appends a unit, with a no-break space so that no line ends between.
func with(s, unit string) string {
	if unit == "" || s == "—" {
		return s
	}
	return s + nbsp + unit
}

const nbsp = "\u00a0"

// quantity writes one value by itself in its best unit with three
// significant digits.
func quantity(v float64, u measurement.Unit) string {
	s := scaleFor(u, v)
	x := v / s.Factor
	significant := 3
	if s == plainScale && x == math.Trunc(x) && math.Abs(x) < 1e7 {
		return number(x, 0) // a whole count
	}
	return with(number(x, decimalsFor(x, significant)), s.Name)
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

// finite says that v is a number that can be shown.
func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// trimmedPercent writes a fraction as a percentage without trailing zeros:
// bounds such as 2 % or 0.5 %.
func trimmedPercent(fraction float64) string {
	x := fraction * 100
	if !finite(x) {
		return "—"
	}
	return with(minus(strconv.FormatFloat(math.Round(x*100)/100, 'f', -1, 64)), "%")
}

// scaleName writes a scale such as 10 or 2.5.
func scaleName(x float64) string {
	return strconv.FormatFloat(x, 'f', -1, 64)
}

// publishedNumber writes a published value with three significant digits, or
// with four where it was published with more than three.
func publishedNumber(x float64) string {
	d := decimalsFor(x, 3)
	p := math.Pow(10, float64(d))
	if math.Abs(math.Round(x*p)/p-x) > 1e-9*math.Abs(x) {
		d = decimalsFor(x, 4)
	}
	return number(x, d)
}
