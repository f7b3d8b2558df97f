package stats

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/hopbench/hopbench/internal/measurement"
)

// scale is a unit as people read it.
type scale struct {
	factor float64 // one of it in the base unit
	suffix string  // with its leading space
}

// scaleFor picks the prefix for the largest of the values that a sentence
// shows together.
func scaleFor(unit measurement.Unit, largest float64) scale {
	pick := func(scales ...scale) scale {
		for _, s := range scales {
			// What rounds up to the next prefix is shown with it.
			if largest >= 0.9995*s.factor {
				return s
			}
		}
		return scales[len(scales)-1]
	}
	switch unit {
	case measurement.BitsPerSecond:
		return pick(scale{1e12, " Tbit/s"}, scale{1e9, " Gbit/s"}, scale{1e6, " Mbit/s"}, scale{1e3, " kbit/s"}, scale{1, " bit/s"})
	case measurement.SecondsUnit:
		return pick(scale{1, " s"}, scale{1e-3, " ms"}, scale{1e-6, " µs"}, scale{1e-9, " ns"})
	case measurement.Bytes:
		return pick(scale{1e9, " GB"}, scale{1e6, " MB"}, scale{1e3, " kB"}, scale{1, " B"})
	case measurement.Fraction:
		return scale{0.01, " %"}
	}
	return scale{1, ""}
}

// formatValue writes a value with three significant digits: "358 Mbit/s".
func formatValue(v float64, unit measurement.Unit) string {
	s := scaleFor(unit, math.Abs(v))
	v /= s.factor
	return number(v, significant(v, 3)) + s.suffix
}

// significant is how many decimals show that many digits of v.
func significant(v float64, digits int) int {
	if v == 0 || !finite(v) {
		return 0
	}
	// The exponent after rounding: 0.9997 has two decimals, as 1.00.
	rounded := strconv.FormatFloat(math.Abs(v), 'e', digits-1, 64)
	exponent, err := strconv.Atoi(rounded[strings.IndexByte(rounded, 'e')+1:])
	if err != nil {
		return 0 // FormatFloat always writes a whole exponent
	}
	return min(6, max(0, digits-1-exponent))
}

// number writes v with a proper minus sign.
func number(v float64, decimals int) string {
	text := strconv.FormatFloat(v, 'f', decimals, 64)
	if strings.Trim(text, "-0.") == "" {
		return strings.TrimPrefix(text, "-")
	}
	return strings.Replace(text, "-", "−", 1)
}

// signed writes v with its sign, + included.
func signed(v float64, decimals int) string {
	text := number(v, decimals)
	if v > 0 && strings.Trim(text, "0.") != "" {
		return "+" + text
	}
	return text
}

// formatEffect writes an estimate and its limits in one unit, with as many
// decimals as the width of the interval supports: "70.1 % [69.8, 70.4]". The
// limits may be absent.
func formatEffect(v float64, limits *interval, unit measurement.Unit, withSign bool) string {
	largest := math.Abs(v)
	if limits != nil {
		largest = math.Max(largest, math.Max(math.Abs(limits.Low), math.Abs(limits.High)))
	}
	s := scaleFor(unit, largest)
	write := number
	if withSign {
		write = signed
	}
	v /= s.factor
	// One decimal at least keeps a small estimate beside a wide interval
	// readable: "+2.3 ms [−75.6, +2.4]".
	least := 0
	if unit == measurement.Fraction || (largest < 99.95*s.factor && s.factor != 1e-9) {
		least = 1
	}
	if limits == nil {
		return write(v, max(least, min(3, significant(v, 2)))) + s.suffix
	}
	low, high := limits.Low/s.factor, limits.High/s.factor
	decimals := significant(v, 3)
	if width := high - low; width > 0 {
		decimals = int(math.Ceil(-math.Log10(width / 2)))
	}
	decimals = min(4, max(least, decimals))
	if math.Abs(v) < 0.5*math.Pow(10, -float64(decimals)) && decimals < 4 && v != 0 {
		decimals++
	}
	return fmt.Sprintf("%s%s [%s, %s]", write(v, decimals), s.suffix, write(low, decimals), write(high, decimals))
}

// formatRatio writes "×3.9", with more digits near 1.
func formatRatio(r float64) string {
	digits := 2
	if r > 0.9 && r < 1.1 {
		digits = 3
	}
	return "×" + number(r, significant(r, digits))
}

// formatPercent writes a fraction with two digits: "1.2 %", "0.37 %".
func formatPercent(f float64) string {
	text := number(100*f, significant(100*f, 2))
	if strings.Contains(text, ".") {
		text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	}
	return text + " %"
}

func formatP(p float64) string {
	if p < 0.0001 {
		return "p < 0.0001"
	}
	return "p = " + strconv.FormatFloat(p, 'g', 2, 64)
}

// leadsWithDifference says that people read this cost as an amount in the
// metric's unit, not as a share of the baseline.
func (c *comparison) leadsWithDifference() bool {
	return !c.metric.HigherIsBetter || !c.logarithmic
}

// effectText writes an effect without limits: "−4.1 %".
func (c *comparison) effectText(effect float64) string {
	if !c.logarithmic {
		return formatEffect(effect, nil, c.metric.Unit, true)
	}
	return formatEffect(math.Expm1(effect), nil, measurement.Fraction, true)
}

// size writes the effect with its limits. sign −1 turns a loss into a positive
// number; withSign shows the sign of either.
func (c *comparison) size(sign float64, withSign bool) string {
	v, limits, unit := c.cost.Difference, c.difference, c.metric.Unit
	if !c.leadsWithDifference() {
		v, unit = c.cost.Ratio-1, measurement.Fraction
		limits = nil
		if c.interval != nil {
			limits = &interval{Low: *c.cost.Low - 1, High: *c.cost.High - 1}
		}
	}
	if limits != nil && sign < 0 {
		limits = &interval{Low: -limits.High, High: -limits.Low}
	}
	return formatEffect(sign*v, limits, unit, withSign)
}

// sentence is the readable verdict.
func (c *comparison) sentence() string {
	path, what := c.path, c.metric.Label+" of "+c.test
	switch c.cost.Verdict {
	case measurement.Costs, measurement.Gains:
		return c.claim(path, what)
	case measurement.NoCost:
		text := fmt.Sprintf("%s: no cost larger than %s on %s", path, c.fractionText(c.cost.Bound), what)
		if c.significant {
			text += fmt.Sprintf("; the difference of %s is beyond chance but smaller than the %s that matters",
				c.size(1, true), c.fractionText(c.smallest))
		}
		return text
	}
	if c.cost.N == 0 {
		return fmt.Sprintf("%s: not resolved on %s: no block has a trial that counts of both %s and %s",
			path, what, path, c.baseline)
	}
	text := fmt.Sprintf("%s: not resolved on %s: %s", path, what, c.size(1, true))
	if c.interval == nil {
		text += " from " + plural(c.cost.N, "block")
	}
	if c.cost.BlocksNeeded >= maxBlocksNeeded {
		return text + fmt.Sprintf("; needs more than %d blocks", maxBlocksNeeded)
	}
	return text + fmt.Sprintf("; needs about %s", plural(c.cost.BlocksNeeded, "block"))
}

// claim is the sentence of a cost or a gain.
func (c *comparison) claim(path, what string) string {
	from, to := formatValue(c.medianBase, c.metric.Unit), formatValue(c.medianOther, c.metric.Unit)
	costs := c.cost.Verdict == measurement.Costs
	if c.leadsWithDifference() {
		change := fmt.Sprintf("(%s → %s)", from, to)
		if c.logarithmic {
			change = fmt.Sprintf("(%s → %s, %s)", from, to, formatRatio(c.cost.Ratio))
		}
		if c.cost.Difference > 0 {
			return fmt.Sprintf("%s: adds %s to %s %s", path, c.size(1, false), what, change)
		}
		return fmt.Sprintf("%s: takes %s off %s %s", path, c.size(-1, false), what, change)
	}
	verb, sign := "gains", 1.0
	if costs {
		verb = "costs"
	}
	if c.cost.Ratio < 1 {
		sign = -1
	}
	return fmt.Sprintf("%s: %s %s of %s (%s → %s)", path, verb, c.size(sign, false), what, from, to)
}

// fractionText writes a fraction of the baseline, for times as a time too.
func (c *comparison) fractionText(f float64) string {
	if c.leadsWithDifference() && c.medianBase > 0 {
		// Rounded up, as the fraction is: a bound must not shrink on paper.
		s := scaleFor(c.metric.Unit, f*c.medianBase)
		amount := roundUp(f * c.medianBase / s.factor)
		return fmt.Sprintf("%s%s (%s)", number(amount, significant(amount, 2)), s.suffix, formatPercent(f))
	}
	return formatPercent(f)
}
