// Package quantity reads numbers with units and writes them: for files and flags so
// that reading gives the very same value, for people in the prefix that reads best,
// with as many digits as asked for and a true minus sign. Package words builds what
// people read of a result on it.
package quantity

import (
	"math"
	"strconv"
	"strings"

	"github.com/hopbench/hopbench/internal/measurement"
)

// Scale is a unit with its prefix: a value in base units divided by Factor is
// one in units of Name.
type Scale struct {
	Factor float64
	Name   string
}

var (
	rates   = []Scale{{1e12, "Tbit/s"}, {1e9, "Gbit/s"}, {1e6, "Mbit/s"}, {1e3, "kbit/s"}, {1, "bit/s"}}
	times   = []Scale{{1, "s"}, {1e-3, "ms"}, {1e-6, "µs"}, {1e-9, "ns"}}
	bytes   = []Scale{{1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}, {1, "B"}}
	perByte = []Scale{{1e-3, "ms/B"}, {1e-6, "µs/B"}, {1e-9, "ns/B"}, {1e-12, "ps/B"}}
	// Packets are cheap or slow, never a second long.
	perPacket = []Scale{{1e-3, "ms/packet"}, {1e-6, "µs/packet"}, {1e-9, "ns/packet"}}
	// Large counts, such as packets in a second, read better in thousands; up
	// to five digits they are written whole.
	counts  = []Scale{{1e6, "M"}, {1e3, "k"}}
	percent = Scale{0.01, "%"}
	plain   = Scale{1, ""}
)

// wholeCount is the least count that is written in thousands, wholeBytes the
// least size: 1448 B and 1500 B are known by their names.
const (
	wholeCount = 1e5
	wholeBytes = 1e4
)

// ScaleFor picks the prefix in which a value like reference reads best: the
// largest one that leaves at least 1 before the decimal point. A fraction is
// read in percent, a count below 100 000 and a size below 10 kB as they are.
func ScaleFor(u measurement.Unit, reference float64) Scale {
	var from []Scale
	switch u {
	case measurement.BitsPerSecond:
		from = rates
	case measurement.SecondsUnit:
		from = times
	case measurement.Bytes:
		from = bytes
		if math.Abs(reference) < wholeBytes {
			return bytes[len(bytes)-1]
		}
	case measurement.SecondsPerByte:
		from = perByte
	case measurement.SecondsPerPacket:
		from = perPacket
	case measurement.Fraction:
		return percent
	default:
		if !Finite(reference) || math.Abs(reference) < wholeCount {
			return plain
		}
		from = counts
	}
	reference = math.Abs(reference)
	if reference == 0 || !Finite(reference) {
		if u == measurement.SecondsUnit {
			return times[1] // a zero reads best in ms
		}
		return from[len(from)-1]
	}
	for _, s := range from {
		if reference >= s.Factor*0.9995 { // 999.6 kbit/s would read as 1000
			return s
		}
	}
	return from[len(from)-1]
}

// maxDecimals bounds what Decimals asks for.
const maxDecimals = 6

// Decimals is how many decimals show that many significant digits of v, at
// most 6.
func Decimals(v float64, significant int) int {
	if v == 0 || !Finite(v) {
		return 0
	}
	// The exponent after rounding: 0.9997 reads as 1.00, not as 1.000.
	rounded := strconv.FormatFloat(math.Abs(v), 'e', significant-1, 64)
	exponent, _ := strconv.Atoi(rounded[strings.IndexByte(rounded, 'e')+1:]) // which is always whole
	return min(max(significant-1-exponent, 0), maxDecimals)
}

// DecimalsIn is how many decimals a value in a unit wants: three significant digits, and
// more of a share just below the whole, of which something is missing.
func DecimalsIn(s Scale, x float64) int {
	if s == percent && x >= 99.95 && x < 100 {
		return Decimals(100-x, 1)
	}
	return Decimals(x, 3)
}

// Number writes v with a true minus sign, which lines up with digits, and
// without a negative zero. Magnitudes that decimals cannot show go to exponent
// notation; what is not finite is a dash.
func Number(v float64, decimals int) string {
	if !Finite(v) {
		return "—"
	}
	if a := math.Abs(v); a >= 1e7 || (a > 0 && a < 1e-6) {
		return minus(strconv.FormatFloat(v, 'g', 3, 64))
	}
	s := strconv.FormatFloat(v, 'f', decimals, 64)
	if strings.Trim(s, "-0.") == "" {
		s = strings.TrimPrefix(s, "-")
	}
	return minus(s)
}

// Ratio writes a ratio with RatioDecimals.
func Ratio(x float64) string { return Number(x, RatioDecimals(x)) }

// RatioDecimals is how many decimals a ratio wants: three significant digits,
// and as many decimals on either side of 1.
func RatioDecimals(x float64) int {
	if x > 0.9 && x < 1.1 {
		return 3
	}
	return Decimals(x, 3)
}

// Signed is Number with a plus before what is above zero.
func Signed(v float64, decimals int) string {
	s := Number(v, decimals)
	if v > 0 && Finite(v) && strings.Trim(s, "0.") != "" {
		return "+" + s
	}
	return s
}

// minus swaps hyphens for true minus signs.
func minus(s string) string { return strings.ReplaceAll(s, "-", "−") }

// Format writes a value in base units with three significant digits and its
// best unit: "358 Mbit/s". A whole count below 100 000 is written whole.
func Format(v float64, u measurement.Unit) string {
	number, unit := Split(v, u)
	if unit == "" {
		return number
	}
	return number + " " + unit
}

// Split is Format before number and unit are joined.
func Split(v float64, u measurement.Unit) (number, unit string) {
	s := ScaleFor(u, v)
	x := v / s.Factor
	switch {
	case !Finite(x):
		return Number(x, 0), ""
	case s == plain && x == math.Trunc(x) && math.Abs(x) < 1e7:
		return Number(x, 0), ""
	}
	return Number(x, DecimalsIn(s, x)), s.Name
}

// Count writes a whole count and its noun, with an s unless it is one: "1
// block", "12 blocks".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// Finite says that v is a number that can be shown.
func Finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
