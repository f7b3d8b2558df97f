package analysis

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/result"
)

// formatEffect writes an estimate and its limits in one unit, with as many
// decimals as the width of the interval supports: "70.1 % [69.8, 70.4]". The
// limits may be absent.
func formatEffect(v float64, limits *interval, unit measurement.Unit, withSign bool) string {
	largest := math.Abs(v)
	if limits != nil {
		largest = math.Max(largest, math.Max(math.Abs(limits.Low), math.Abs(limits.High)))
	}
	s := quantity.ScaleFor(unit, largest)
	write := quantity.Number
	if withSign {
		write = quantity.Signed
	}
	v /= s.Factor
	// One decimal at least keeps a small estimate beside a wide interval
	// readable: "+2.3 ms [−75.6, +2.4]".
	least := 0
	if unit == measurement.Fraction || (largest < 99.95*s.Factor && s.Factor != 1e-9) {
		least = 1
	}
	if limits == nil {
		return write(v, max(least, min(3, quantity.Decimals(v, 2)))) + s.Space()
	}
	low, high := limits.Low/s.Factor, limits.High/s.Factor
	decimals := quantity.Decimals(v, 3)
	if width := high - low; width > 0 {
		decimals = int(math.Ceil(-math.Log10(width / 2)))
	}
	decimals = min(4, max(least, decimals))
	if math.Abs(v) < 0.5*math.Pow(10, -float64(decimals)) && decimals < 4 && v != 0 {
		decimals++
	}
	return fmt.Sprintf("%s%s [%s, %s]", write(v, decimals), s.Space(), write(low, decimals), write(high, decimals))
}

// formatRatio writes "×3.9", with more digits near 1.
func formatRatio(r float64) string {
	digits := 2
	if r > 0.9 && r < 1.1 {
		digits = 3
	}
	return "×" + quantity.Number(r, quantity.Decimals(r, digits))
}

// formatPercent writes a fraction with two digits: "1.2 %", "0.37 %".
func formatPercent(f float64) string {
	text := quantity.Number(100*f, quantity.Decimals(100*f, 2))
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
	path, what := c.path, c.metric.Label+", "+c.test
	switch c.cost.Verdict {
	case result.Costs, result.Gains:
		return c.claim(path, what)
	case result.NoCost:
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
		text += " from " + quantity.Count(c.cost.N, "block")
	}
	if c.cost.BlocksNeeded >= maxBlocksNeeded {
		return text + fmt.Sprintf("; needs more than %d blocks", maxBlocksNeeded)
	}
	return text + fmt.Sprintf("; needs about %s", quantity.Count(c.cost.BlocksNeeded, "block"))
}

// claim is the sentence of a cost or a gain.
func (c *comparison) claim(path, what string) string {
	from, to := quantity.Format(c.medianBase, c.metric.Unit), quantity.Format(c.medianOther, c.metric.Unit)
	costs := c.cost.Verdict == result.Costs
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
		s := quantity.ScaleFor(c.metric.Unit, f*c.medianBase)
		amount := roundUp(f * c.medianBase / s.Factor)
		return fmt.Sprintf("%s%s (%s)", quantity.Number(amount, quantity.Decimals(amount, 2)), s.Space(), formatPercent(f))
	}
	return formatPercent(f)
}
