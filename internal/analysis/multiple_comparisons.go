package analysis

import (
	"github.com/hopbench/hopbench/internal/analysis/statistics"
)

// correct adjusts the p values for the number of comparisons: the primary costs
// of the report are one family, and the secondary ones are adjusted as members of
// the family of all. A comparison with too few pairs for a p still counts as a
// member, so that failed trials cannot make the others look better.
func correct(all []*costEstimate) {
	var primary []*costEstimate
	for _, c := range all {
		if c.Primary {
			primary = append(primary, c)
		}
	}
	adjust(all, func(c *costEstimate) bool { return !c.Primary })
	adjust(primary, func(*costEstimate) bool { return true })
}

// adjust fills in the adjusted p of those members of a family that are chosen:
// step-down over flips of blocks, and Holm's next to it. Two runs share no
// blocks, so Holm's is theirs.
func adjust(members []*costEstimate, chosen func(*costEstimate) bool) {
	var p []float64
	var with, paired []*costEstimate
	wanted := false
	for _, c := range members {
		if c.P != nil {
			p = append(p, *c.P)
			with = append(with, c)
		}
		if !c.unpaired {
			paired = append(paired, c)
		}
		if chosen(c) {
			c.familySize = len(members)
			wanted = wanted || c.P != nil
		}
	}
	if !wanted {
		return
	}
	for i, corrected := range statistics.Holm(p, len(members)) {
		if c := with[i]; chosen(c) {
			c.PHolm, c.PAdjusted = &corrected, &corrected
		}
	}
	if len(members) < 2 || len(paired) == 0 {
		return
	}
	for i, adjusted := range stepDown(paired) {
		if c := paired[i]; c.P != nil && chosen(c) {
			// All must agree: the signed ranks, which the interval inverts, the family's, and
			// what the resolution alone would make of so many comparisons (Bonferroni), since
			// no flip of blocks shows what all trials share.
			adjusted = max(adjusted, *c.P, min(1, float64(len(members))*widenedP(0, c.estimate, c.uncertainty())))
			c.PAdjusted = &adjusted
		}
	}
}
