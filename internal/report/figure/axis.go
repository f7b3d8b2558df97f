package figure

import (
	"math"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
)

// axis maps values to positions.
type axis struct {
	low, high float64 // values at the ends, low < high
	log       bool
	from, to  float64 // positions of low and high
}

// at is the position of a value; values outside the axis stay at its ends.
func (a axis) at(v float64) float64 {
	low, high := a.low, a.high
	if a.log {
		low, high, v = math.Log(low), math.Log(high), math.Log(max(v, math.SmallestNonzeroFloat64))
	}
	f := (v - low) / (high - low)
	if math.IsNaN(f) {
		f = 0
	}
	return a.from + min(max(f, 0), 1)*(a.to-a.from)
}

// tick is a labelled value of an axis.
type tick struct {
	value float64
	label string
}

// linearAxis spans 0 (or the least value, when fromZero is not set) to the
// largest value, rounded outwards to whole steps.
func linearAxis(values []float64, fromZero bool, from, to float64, steps int) axis {
	low, high := span(values)
	if fromZero {
		low, high = min(low, 0), max(high, 0)
	}
	if high-low <= math.Abs(high)*1e-9 {
		pad := max(math.Abs(high)*0.1, 1e-12)
		if high == 0 {
			pad = 1 // nothing says how fine it should be
		}
		low, high = low-pad, high+pad
		if fromZero {
			low = max(low, 0)
		}
	}
	step := niceStep((high - low) / float64(steps))
	a := axis{low: math.Floor(low/step+1e-9) * step, high: math.Ceil(high/step-1e-9) * step, from: from, to: to}
	if !quantity.Finite(a.low) || !quantity.Finite(a.high) || a.low >= a.high {
		a.low, a.high = 0, 1
	}
	return a
}

// logAxis spans the positive values with a little room.
func logAxis(values []float64, from, to float64) axis {
	var positive []float64
	for _, v := range values {
		if v > 0 && quantity.Finite(v) {
			positive = append(positive, v)
		}
	}
	low, high := span(positive)
	if low <= 0 {
		low, high = 1, 10
	}
	low, high = max(low/1.08, math.SmallestNonzeroFloat64*1e9), min(high*1.08, math.MaxFloat64/1e9)
	return axis{low: low, high: high, log: true, from: from, to: to}
}

// span is the least and the largest finite value, 0 and 1 of none.
func span(values []float64) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if quantity.Finite(v) {
			low, high = min(low, v), max(high, v)
		}
	}
	if low > high {
		return 0, 1
	}
	return low, high
}

// niceStep rounds a step up to 1, 2 or 5 times a power of ten.
func niceStep(x float64) float64 {
	if x <= 0 || !quantity.Finite(x) {
		return 1
	}
	p := math.Pow(10, math.Floor(math.Log10(x)))
	for _, f := range []float64{1, 2, 5, 10} {
		if x <= f*p*(1+1e-9) {
			return f * p
		}
	}
	return 10 * p
}

// ticks lists round values of the axis, at most about n, labelled in s.
func (a axis) ticks(n int, s quantity.Scale) []tick {
	var values []float64
	if a.log {
		values = logTicks(a.low, a.high, n)
	} else {
		values = linearTicks(a.low, a.high, n)
	}
	d := 0
	for _, v := range values {
		d = max(d, tickDecimals(v/s.Factor))
	}
	var out []tick
	for _, v := range values {
		label := quantity.Number(v/s.Factor, d)
		if a.log { // a log axis spans decades: each label has its own decimals
			label = quantity.Number(v/s.Factor, tickDecimals(v/s.Factor))
		}
		out = append(out, tick{v, label})
	}
	return out
}

// tickDecimals is how many decimals a round value needs, at most 6.
func tickDecimals(v float64) int {
	for d := range 6 {
		p := math.Pow(10, float64(d))
		if math.Abs(math.Round(v*p)/p-v) <= 1e-6*math.Abs(v) {
			return d
		}
	}
	return 6
}

// linearTicks lists the multiples of a round step between low and high.
func linearTicks(low, high float64, n int) []float64 {
	var out []float64
	step := niceStep((high - low) / float64(n))
	for i := math.Ceil(low/step - 1e-9); i*step <= high+step*1e-9 && len(out) < 50; i++ {
		out = append(out, i*step)
	}
	return out
}

// logTicks picks the finest of several sets of round values that has at most
// n of them between low and high. Over less than a factor of 1.6 a logarithm
// is nearly straight and even steps read better.
func logTicks(low, high float64, n int) []float64 {
	if high/low < 1.6 {
		return linearTicks(low, high, max(n/2, 3)) // their labels are longer
	}
	sets := [][]float64{
		{1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, 2, 2.2, 2.4, 2.6, 2.8, 3, 3.5, 4, 4.5, 5, 5.5, 6, 6.5, 7, 7.5, 8, 8.5, 9, 9.5},
		{1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9}, {1, 1.5, 2, 3, 4, 5, 7}, {1, 2, 5}, {1, 3}, {1}}
	decades := []int{int(math.Floor(math.Log10(low))), int(math.Floor(math.Log10(high)))}
	stride := 1
	for ; ; stride *= 2 {
		for i, set := range sets {
			if stride > 1 && i < len(sets)-1 {
				continue
			}
			var out []float64
			for e := decades[0]; e <= decades[1] && len(out) <= n; e++ {
				if e%stride != 0 {
					continue
				}
				for _, f := range set {
					if v := f * math.Pow(10, float64(e)); v >= low*(1-1e-9) && v <= high*(1+1e-9) {
						out = append(out, v)
					}
				}
			}
			if len(out) <= n && (len(out) >= 2 || i == 0) {
				return out
			}
		}
		if stride > 1024 {
			return nil
		}
	}
}

// unitOf picks the unit to label an axis in, by its upper end.
func (a axis) unitOf(u measurement.Unit) quantity.Scale { return quantity.ScaleFor(u, a.high) }
