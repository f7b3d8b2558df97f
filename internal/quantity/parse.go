package quantity

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/printable"
)

// Bounds of what the parsers accept. They are far outside of anything that can
// be measured, and close enough to catch a slipped unit or decimal point.
const (
	// MaxRateBitsPerSecond is 1 Tbit/s, the most that a link emulator or an egress
	// meter takes.
	MaxRateBitsPerSecond = 1e12
	// MaxDuration is 48 hours.
	MaxDuration = 48 * time.Hour
	// MaxBytes is 1 PB.
	MaxBytes = 1_000_000_000_000_000

	// maxQuoted bounds text that is quoted in a message, in runes.
	maxQuoted = 60
	// MaxText bounds the text of a quantity, so that arithmetic on it
	// is bounded too.
	MaxText = 40
)

// UnitError is what is wrong with the text of a quantity and, where it can be
// told, what would be right.
type UnitError struct {
	Problem string // `unknown unit "Gbps" in rate "1.2Gbps"`
	Remedy  string // `write 1.2Gbit`
}

func (e *UnitError) Error() string {
	if e.Remedy == "" {
		return e.Problem
	}
	return e.Problem + "; " + e.Remedy
}

// unit is a suffix and what one of it is in base units.
type unit struct {
	suffix string
	factor *big.Rat
}

func factor(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

func rateUnits() []unit {
	return []unit{
		{"bit", factor(1)}, {"kbit", factor(1e3)}, {"Mbit", factor(1e6)},
		{"Gbit", factor(1e9)}, {"Tbit", factor(1e12)},
	}
}

// durationUnits are in nanoseconds. Both code points that look like the Greek
// letter (U+00B5 and U+03BC) are taken, as time.ParseDuration does.
func durationUnits() []unit {
	return []unit{
		{"ns", factor(1)}, {"us", factor(1e3)}, {"µs", factor(1e3)}, {"μs", factor(1e3)},
		{"ms", factor(1e6)}, {"s", factor(1e9)}, {"m", factor(60e9)}, {"h", factor(3600e9)},
	}
}

// byteUnits are decimal (IEC 80000-13 prefixes for the binary ones).
func byteUnits() []unit {
	return []unit{
		{"B", factor(1)}, {"kB", factor(1e3)}, {"MB", factor(1e6)}, {"GB", factor(1e9)}, {"TB", factor(1e12)},
		{"KiB", factor(1 << 10)}, {"MiB", factor(1 << 20)}, {"GiB", factor(1 << 30)}, {"TiB", factor(1 << 40)},
	}
}

// ParseRate reads a rate such as "1.2Gbit" in bits per second. Prefixes are
// decimal, the second is implied and may be written ("1.2Gbit/s"). The error
// is a *UnitError.
func ParseRate(text string) (float64, error) {
	number, suffix, err := splitQuantity("rate", text, "500Mbit")
	if err != nil {
		return 0, withoutSpaces(err, text, ParseRate)
	}
	value, ok := scaled(number, strings.TrimSuffix(suffix, "/s"), rateUnits())
	if !ok {
		return 0, unknownUnit("rate", text, suffix, suggestRate(number, suffix))
	}
	rate, _ := value.Float64()
	if rate > MaxRateBitsPerSecond {
		return 0, &UnitError{fmt.Sprintf("rate %q is too large", text), "write at most 1Tbit"}
	}
	return rate, nil
}

// suggestRate guesses what was meant by a rate's unknown unit.
func suggestRate(number, suffix string) string {
	bare := strings.TrimSuffix(suffix, "/s")
	if perSecond := strings.TrimSuffix(bare, "ps"); perSecond != bare {
		bare = perSecond
	}
	lower := strings.ToLower(bare)
	prefix := ""
	if lower != "" && strings.ContainsRune("kmgt", rune(lower[0])) {
		prefix, lower = lower[:1], lower[1:]
	}
	if prefix != "" && prefix != "k" {
		prefix = strings.ToUpper(prefix)
	}
	switch {
	case strings.HasSuffix(bare, "B") || strings.HasPrefix(lower, "byte"):
		value := rational(number)
		value.Mul(value, factor(8))
		if prefix != "" && strings.HasPrefix(lower, "i") { // MiB: 1024 where MB has 1000
			for range strings.Index("kMGT", prefix) + 1 {
				value.Mul(value, big.NewRat(1024, 1000))
			}
		}
		return fmt.Sprintf("rates count bits, so write %s%sbit", decimalText(value), prefix)
	case lower == "b" || lower == "bit" || lower == "bits" || (lower == "" && prefix != ""):
		return "write " + number + prefix + "bit"
	}
	return "write bit, kbit, Mbit, Gbit or Tbit, as in 500Mbit"
}

// ParseDuration reads a time such as "850us", "0.74ms", "1s", "2m" or
// "1m30s". It must be a whole number of nanoseconds. The error is a
// *UnitError.
func ParseDuration(text string) (time.Duration, error) {
	if _, _, err := splitQuantity("time", text, "850us"); err != nil {
		return 0, withoutSpaces(err, text, ParseDuration)
	}
	total := new(big.Rat)
	for rest := text; rest != ""; {
		number, suffix, err := splitQuantity("time", rest, "850us")
		if err != nil {
			return 0, err
		}
		// A further number ends the unit: 1m30s.
		if i := strings.IndexAny(suffix, "0123456789"); i >= 0 {
			rest, suffix = suffix[i:], suffix[:i]
		} else {
			rest = ""
		}
		value, ok := scaled(number, suffix, durationUnits())
		if !ok {
			return 0, unknownUnit("time", text, suffix, suggestDuration(number, suffix))
		}
		total.Add(total, value)
	}
	if !total.IsInt() {
		return 0, &UnitError{fmt.Sprintf("time %q is finer than a nanosecond", text), "write whole nanoseconds"}
	}
	if total.Cmp(factor(int64(MaxDuration))) > 0 {
		return 0, &UnitError{fmt.Sprintf("time %q is too long", text), "write at most 48h"}
	}
	return time.Duration(total.Num().Int64()), nil
}

// suggestDuration guesses what was meant by a time's unknown unit.
func suggestDuration(number, suffix string) string {
	names := map[string]string{
		"sec": "s", "secs": "s", "second": "s", "seconds": "s",
		"msec": "ms", "msecs": "ms", "millisecond": "ms", "milliseconds": "ms",
		"usec": "us", "usecs": "us", "microsecond": "us", "microseconds": "us",
		"nsec": "ns", "nsecs": "ns", "nanosecond": "ns", "nanoseconds": "ns",
		"min": "m", "mins": "m", "minute": "m", "minutes": "m",
		"hr": "h", "hour": "h", "hours": "h",
		"ns": "ns", "us": "us", "ms": "ms", "s": "s", "h": "h",
	}
	if right, ok := names[strings.ToLower(suffix)]; ok {
		return "write " + number + right
	}
	return "write ns, us, ms, s, m or h, as in 850us"
}

// parseTimePer reads a time per byte or packet, such as "0.45ns/B" or
// "1.2us/packet", in seconds; per is what follows the unit. Unlike a time it
// may be finer than a nanosecond. The error is a *UnitError.
func parseTimePer(per, text string) (float64, error) {
	example := "0.45ns" + per
	number, suffix, err := splitQuantity("time", text, example)
	if err != nil {
		return 0, err
	}
	bare, ok := strings.CutSuffix(suffix, per)
	if !ok {
		return 0, unknownUnit("time", text, suffix, "write it as in "+example)
	}
	value, ok := scaled(number, bare, append(durationUnits(), unit{"ps", big.NewRat(1, 1000)}))
	if !ok {
		return 0, unknownUnit("time", text, suffix, "write ps, ns, us or ms, as in "+example)
	}
	seconds, _ := value.Quo(value, factor(1e9)).Float64()
	return seconds, nil
}

// ParseBytes reads a size such as "64kB", "1.33MB", "128KiB" or "1500B". It
// must be a whole number of bytes. The error is a *UnitError.
func ParseBytes(text string) (int64, error) {
	number, suffix, err := splitQuantity("size", text, "64kB")
	if err != nil {
		return 0, withoutSpaces(err, text, ParseBytes)
	}
	value, ok := scaled(number, suffix, byteUnits())
	if !ok {
		return 0, unknownUnit("size", text, suffix, suggestBytes(number, suffix))
	}
	if !value.IsInt() {
		return 0, &UnitError{fmt.Sprintf("size %q is not a whole number of bytes", text), "write whole bytes"}
	}
	if value.Cmp(factor(MaxBytes)) > 0 {
		return 0, &UnitError{fmt.Sprintf("size %q is too large", text), "write at most 1000TB"}
	}
	return value.Num().Int64(), nil
}

// suggestBytes guesses what was meant by a size's unknown unit.
func suggestBytes(number, suffix string) string {
	lower := strings.ToLower(suffix)
	lower = strings.TrimSuffix(strings.TrimSuffix(lower, "bytes"), "byte")
	lower = strings.TrimSuffix(lower, "b")
	switch lower {
	case "":
		return "write " + number + "B"
	case "k":
		return "write " + number + "kB"
	case "m", "g", "t":
		return "write " + number + strings.ToUpper(lower) + "B"
	case "ki", "mi", "gi", "ti":
		return "write " + number + strings.ToUpper(lower[:1]) + "iB"
	}
	return "write B, kB, MB, GB, KiB, MiB or GiB, as in 64kB"
}

// ParseFraction reads a share, "1%" or "0.01", as a number from 0 to 1. The
// error is a *UnitError.
func ParseFraction(text string) (float64, error) {
	number, suffix, err := splitQuantity("fraction", text, "1%")
	if err != nil && number == "" {
		return 0, err // otherwise it is a number alone, which is a fraction
	}
	value := rational(number)
	switch suffix {
	case "":
	case "%":
		value.Quo(value, factor(100))
	default:
		return 0, unknownUnit("fraction", text, suffix, "write 1% or 0.01")
	}
	if value.Cmp(factor(1)) > 0 {
		return 0, &UnitError{fmt.Sprintf("fraction %q is more than the whole", text), "write 1% or 0.01"}
	}
	fraction, _ := value.Float64()
	return fraction, nil
}

// ParseScale reads a scale, "1:10", as how many times smaller the testbed is:
// 10. The error is a *UnitError.
func ParseScale(text string) (float64, error) {
	const remedy = "write 1:10 for a testbed ten times smaller"
	one, number, ok := strings.Cut(text, ":")
	if !ok || one != "1" || len(number) > MaxText || !IsDecimal(number) {
		return 0, &UnitError{fmt.Sprintf("scale %q is not 1:N", printable.Cut(text, maxQuoted)), remedy}
	}
	value, _ := rational(number).Float64()
	if value < 1 || value > 10_000 {
		return 0, &UnitError{fmt.Sprintf("scale %q is not from 1:1 to 1:10000", text), remedy}
	}
	return value, nil
}

// parseNumber reads a plain decimal number without a unit, at least 0. The
// error is a *UnitError.
func parseNumber(text string) (float64, error) {
	if len(text) > MaxText || !IsDecimal(text) {
		return 0, &UnitError{fmt.Sprintf("%q is not a plain number", printable.Cut(text, maxQuoted)), "write it without a unit, as in 2694"}
	}
	value, _ := rational(text).Float64()
	return value, nil
}

// ParseValue reads a quantity in the base unit of a metric: rates for
// bit/s, times for seconds, sizes for bytes, shares for fractions, times per
// byte or packet for CPU time, plain numbers for counts. The error is a
// *UnitError.
func ParseValue(unit measurement.Unit, text string) (float64, error) {
	switch unit {
	case measurement.BitsPerSecond:
		return ParseRate(text)
	case measurement.SecondsUnit:
		d, err := ParseDuration(text)
		return d.Seconds(), err
	case measurement.Bytes:
		n, err := ParseBytes(text)
		return float64(n), err
	case measurement.Fraction:
		return ParseFraction(text)
	case measurement.SecondsPerByte:
		return parseTimePer("/B", text)
	case measurement.SecondsPerPacket:
		return parseTimePer("/packet", text)
	}
	return parseNumber(text)
}

// FormatRate writes a rate so that ParseRate reads the very same value.
func FormatRate(bitsPerSecond float64) string {
	digits := strconv.FormatFloat(bitsPerSecond, 'f', -1, 64)
	return withPrefix(digits, []string{"bit", "kbit", "Mbit", "Gbit", "Tbit"})
}

// FormatDuration writes a time so that ParseDuration reads the very same
// value: in whole hours or minutes where it is that, otherwise in seconds or
// less.
func FormatDuration(d time.Duration) string {
	switch {
	case d == 0:
		return "0s"
	case d%time.Hour == 0:
		return strconv.FormatInt(int64(d/time.Hour), 10) + "h"
	case d%time.Minute == 0:
		return strconv.FormatInt(int64(d/time.Minute), 10) + "m"
	}
	return withPrefix(strconv.FormatInt(int64(d), 10), []string{"ns", "us", "ms", "s"})
}

// FormatBytes writes a size so that ParseBytes reads the very same value: in
// decimal units, or in binary ones where that is shorter.
func FormatBytes(bytes int64) string {
	plain := strconv.FormatInt(bytes, 10)
	text := withPrefix(plain, []string{"B", "kB", "MB", "GB", "TB"})
	if len(plain)+1 < len(text) {
		text = plain + "B" // 65507B, not 65.507kB
	}
	binary := []string{"KiB", "MiB", "GiB", "TiB"}
	for i := len(binary) - 1; i >= 0; i-- {
		size := int64(1) << (10 * (i + 1))
		if bytes == 0 || bytes%size != 0 {
			continue
		}
		if short := strconv.FormatInt(bytes/size, 10) + binary[i]; len(short) < len(text) {
			return short
		}
		break
	}
	return text
}

// FormatFraction writes a share in percent so that ParseFraction reads the
// very same value.
func FormatFraction(fraction float64) string {
	return shiftPoint(strconv.FormatFloat(fraction, 'f', -1, 64), -2) + "%"
}

// FormatScale writes a scale as ParseScale reads it.
func FormatScale(scale float64) string {
	return "1:" + strconv.FormatFloat(scale, 'f', -1, 64)
}

// splitQuantity splits a number from what follows it. Number is empty when
// there is none; a number without anything after it is an error too, because
// every quantity of a file carries its unit.
func splitQuantity(what, text, example string) (number, suffix string, err error) {
	if len(text) > MaxText {
		return "", "", &UnitError{fmt.Sprintf("%s %q is too long", what, printable.Cut(text, maxQuoted)), "write it as in " + example}
	}
	end := 0
	for end < len(text) && (text[end] >= '0' && text[end] <= '9' || text[end] == '.') {
		end++
	}
	number, suffix = text[:end], text[end:]
	switch {
	case strings.HasPrefix(text, "-"):
		return "", "", &UnitError{fmt.Sprintf("%s %q is negative", what, text), "write it as in " + example}
	case !IsDecimal(number):
		return "", "", &UnitError{fmt.Sprintf("%s %q does not start with a number", what, text), "write it as in " + example}
	case suffix == "":
		return number, "", &UnitError{fmt.Sprintf("%s %q has no unit", what, text), "write it as in " + example}
	case strings.TrimSpace(suffix) != suffix:
		return "", "", &UnitError{fmt.Sprintf("%s %q has a space in it", what, text),
			"write " + number + strings.TrimSpace(suffix)}
	}
	return number, suffix, nil
}

// withoutSpaces has the remedy for a text with spaces be what is right, also where the text
// without them is not.
func withoutSpaces[T any](err error, text string, parse func(string) (T, error)) error {
	bad, _ := errors.AsType[*UnitError](err)
	joined := strings.Join(strings.Fields(text), "")
	if bad == nil || joined == text {
		return err
	}
	_, also := parse(joined)
	if further, _ := errors.AsType[*UnitError](also); further != nil && further.Remedy != "" {
		return &UnitError{bad.Problem, further.Remedy}
	}
	return err
}

func unknownUnit(what, text, suffix, remedy string) *UnitError {
	return &UnitError{fmt.Sprintf("unknown unit %q in %s %q", suffix, what, text), remedy}
}

// IsDecimal reports whether text is digits with at most one point among them.
func IsDecimal(text string) bool {
	whole, part, point := strings.Cut(text, ".")
	return IsWhole(whole) && (!point || IsWhole(part))
}

// IsWhole reports whether text is digits alone.
func IsWhole(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}

// rational is a number that IsDecimal, all of which big.Rat reads.
func rational(number string) *big.Rat {
	value, _ := new(big.Rat).SetString(number)
	return value
}

// scaled is number, which IsDecimal, in base units; false without such a unit.
func scaled(number, suffix string, units []unit) (*big.Rat, bool) {
	for _, u := range units {
		if u.suffix == suffix {
			value := rational(number)
			return value.Mul(value, u.factor), true
		}
	}
	return nil, false
}

// withPrefix writes a decimal number of base units with the largest of the
// units, which are 1000 apart, that leaves at least one digit before the point.
func withPrefix(decimal string, units []string) string {
	whole, _, _ := strings.Cut(decimal, ".")
	step := min((len(whole)-1)/3, len(units)-1)
	return shiftPoint(decimal, 3*step) + units[step]
}

// shiftPoint moves the decimal point of a non-negative decimal number to the
// left by places (to the right where negative). Working on digits keeps the
// value exact, which a division of floats would not.
func shiftPoint(decimal string, places int) string {
	whole, part, _ := strings.Cut(decimal, ".")
	if places >= 0 {
		whole = strings.Repeat("0", max(0, places+1-len(whole))) + whole
		whole, part = whole[:len(whole)-places], whole[len(whole)-places:]+part
	} else {
		part += strings.Repeat("0", max(0, -places-len(part)))
		whole, part = whole+part[:-places], part[-places:]
	}
	whole, part = strings.TrimLeft(whole, "0"), strings.TrimRight(part, "0")
	if whole == "" {
		whole = "0"
	}
	if part == "" {
		return whole
	}
	return whole + "." + part
}

// decimalText writes a rational that is a short decimal number.
func decimalText(value *big.Rat) string {
	return shiftPoint(value.FloatString(9), 0)
}
