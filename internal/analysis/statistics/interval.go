package statistics

// Interval is an estimate with its limits and the coverage they attain.
type Interval struct {
	Low, High float64
	// Coverage is the probability, exact for a continuous distribution, that
	// the limits hold the true value; at least what was asked for.
	Coverage float64
}

// ExcludesZero says that there are limits, both on the same side of zero.
func (i *Interval) ExcludesZero() bool { return i != nil && (i.Low > 0 || i.High < 0) }
