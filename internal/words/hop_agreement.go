package words

import (
	"fmt"
	"slices"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
)

// HopCheck is how much more a hop counted in one direction than the receivers
// confirmed.
type HopCheck struct {
	Hop         string
	Reverse     bool
	Differences []float64 // trial by trial, as a fraction of what was confirmed
	// Apart is in how many trials that is more than what counts as agreement, and
	// Queued in how many of those a queue that grew or shrank explains it.
	Apart, Queued int
	// Within is what counts as agreement, as a fraction, if that is more than of other hops:
	// Grain is how far apart the moments are at which this one's source counts, in seconds,
	// and TooShort how many trials were not compared because of it.
	Within, Grain float64
	TooShort      int
}

// HopAgreement says it in sentences: one for all hops that agree in a direction
// within the fraction, one for each that does not.
func HopAgreement(checks []HopCheck, within float64) []string {
	var out []string
	for _, reverse := range []bool{false, true} {
		direction := "Towards the destination"
		if reverse {
			direction = "Towards the source"
		}
		var agreeing []string
		var all []float64
		trials := 0
		for _, c := range checks {
			if c.Reverse != reverse {
				continue
			}
			if c.TooShort > 0 {
				out = append(out, fmt.Sprintf("%s, the count of %s is not compared with what the receivers confirmed in %s: its source counts every %s, and the measured time is less than three times that.",
					direction, c.Hop, quantity.Count(c.TooShort, "trial"), Time(measurement.Seconds(c.Grain))))
			}
			switch n, within := len(c.Differences), max(c.Within, within); {
			case n == 0:
			case c.Apart > 0:
				out = append(out, fmt.Sprintf("%s, the count of %s does not agree with what the receivers confirmed: in %d of %s it differs by more than %s (%s)%s.",
					direction, c.Hop, c.Apart, quantity.Count(n, "trial"), Percent(within), signedRange(c.Differences), queueReason(c)))
			case c.Grain > 0:
				out = append(out, fmt.Sprintf("%s, the count of %s agrees with what the receivers confirmed, within %s in each of %s (%s): its source counts every %s, which limits the precision.",
					direction, c.Hop, Percent(within), quantity.Count(n, "trial"), signedRange(c.Differences), Time(measurement.Seconds(c.Grain))))
			default:
				agreeing, all, trials = append(agreeing, c.Hop), append(all, c.Differences...), max(trials, n)
			}
		}
		if len(agreeing) > 0 {
			out = append(out, fmt.Sprintf("%s, the count of %s agrees with what the receivers confirmed, within %s in each of %s (%s).",
				direction, List(agreeing), Percent(within), quantity.Count(trials, "trial"), signedRange(all)))
		}
	}
	return out
}

// queueReason says in how many of the trials in which a hop does not agree the
// queues may be why.
func queueReason(c HopCheck) string {
	const reason = "the senders' data in flight changed by as much during the window: it waits in a queue after or before the hop"
	switch c.Queued {
	case 0:
		return ""
	case c.Apart:
		return "; " + reason
	}
	return fmt.Sprintf("; in %d of them %s", c.Queued, reason)
}

// signedRange is the least and the largest of some fractions, in percent.
func signedRange(v []float64) string {
	write := func(x float64) string { return Unit(quantity.Signed(x*100, 1), "%") }
	low, high := write(slices.Min(v)), write(slices.Max(v))
	if low == high {
		return low
	}
	return low + " to " + high
}
