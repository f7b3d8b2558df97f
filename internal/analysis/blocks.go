package analysis

import (
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// FewestBlocks is the smallest number of blocks at which an effect can be
// beyond chance in a report, however many comparisons it makes.
func FewestBlocks() int {
	o := DefaultOptions()
	return (&costEstimate{alpha: o.Alpha, minBlocks: o.MinBlocks}).fewestBlocks()
}

// PrimaryComparisons is how many primary costs a report of so many contrasts and
// such tests has.
func PrimaryComparisons(contrasts int, tests []result.TestInfo) int {
	n := 0
	for _, t := range tests {
		for _, m := range measurement.MetricsOf(t.Spec.Kind) {
			if m.Compared && m.PrimaryIn(t.Spec.Kind) {
				n += contrasts
			}
		}
	}
	return n
}
