package session

import (
	"time"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
)

const (
	// MinBinWidth of the receiver's count, and how many bins it may have: a
	// longer test counts in wider bins.
	MinBinWidth = 10 * time.Millisecond
	MaxBins     = 20_000
	// maxTestBins bounds the bins of all connections of a host's test together, and what the
	// pairs of a test bring together, but each may have leastBins: the hosts of a fleet all
	// write and read theirs at the same moment, when the test ends, and have a few seconds
	// for it.
	maxTestBins = 200_000
	leastBins   = 100
)

// BinsOf is the layout of the receiver's count, from START to the end of the
// latest window. Both ends compute the same from the spec.
func BinsOf(spec measurement.Spec) (n int, width time.Duration) {
	total := Planned(spec)
	most := MinBinWidth * time.Duration(min(MaxBins, BinsOfEach(max(kind.Connections(spec), spec.Pairs))))
	width = MinBinWidth * max((total+most-1)/most, 1)
	return int((total + width - 1) / width), width
}

// BinsOfEach is how many bins each of so many counts may have that are kept together.
func BinsOfEach(counts int) int { return max(maxTestBins/max(counts, 1), leastBins) }

// Planned is the longest a test sends that has a duration: the window always fits.
func Planned(spec measurement.Spec) time.Duration {
	return (spec.Lead + spec.IdleDuration + spec.MaxWarmup + spec.Duration).Duration()
}
