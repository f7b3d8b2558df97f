package tcp

import (
	"math"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/session"
)

// window is the measured part of a series: bins first up to but without last.
type window struct {
	first, last int
	// steady says that the series settled before the longest warm-up was over.
	steady bool
}

const (
	// batchBins smooths the series: MSER-5 averages five values.
	batchBins = 5
	// minWarmupShare of the longest warm-up is always discarded: connections
	// that start together are never steady in their first round trips.
	minWarmupShare = 0.1
	// serTolerance accepts the earliest start whose standard error is not
	// noticeably worse than the best one's, because more data is better and
	// the minimum of a steady series wanders.
	serTolerance = 1.05
)

// chooseWindow decides where the measured window starts, by MSER-5: of all
// allowed truncations of the batched series take that which makes the standard
// error of the mean of what remains least (White, "An effective truncation
// heuristic for bias reduction in simulation output", Simulation 69(6), 1997;
// White, Cobb and Spratt, Winter Simulation Conference 2000). The window is
// always Duration long and starts within MaxWarmup, after the Lead.
func chooseWindow(bins []float64, width time.Duration, spec measurement.Spec) window {
	length, lead := layout(width, spec)
	latest := max(len(bins)-length, 0)
	lead = min(lead, latest)
	return chooseFrom(bins, length, lead+int(math.Ceil(float64(latest-lead)*minWarmupShare)))
}

// layout is how many bins the window and the lead have.
func layout(width time.Duration, spec measurement.Spec) (length, lead int) {
	length = max(int(math.Round(spec.Duration.Duration().Seconds()/width.Seconds())), 1)
	return length, int(math.Ceil(spec.Lead.Duration().Seconds() / width.Seconds()))
}

// chooseFrom chooses a window of length bins that starts at earliest or later.
func chooseFrom(bins []float64, length, earliest int) window {
	length = min(length, len(bins))
	latest := len(bins) - length
	earliest = min(earliest, latest)
	// Batches are counted from the earliest start, so that each candidate
	// start is the edge of a batch.
	var batches []float64
	for i := earliest; i+batchBins <= len(bins); i += batchBins {
		batches = append(batches, session.Sum(bins[i:i+batchBins]))
	}
	candidates := (latest-earliest)/batchBins + 1
	best := math.Inf(1)
	errorsOf := make([]float64, 0, candidates)
	for d := range min(candidates, len(batches)) {
		e := standardError(batches[d:])
		errorsOf = append(errorsOf, e)
		best = min(best, e)
	}
	for d, e := range errorsOf {
		if e <= best*serTolerance {
			if d == len(errorsOf)-1 && latest > 0 {
				break // only the upper bound ended the warm-up
			}
			first := earliest + d*batchBins
			if !level(bins[first : first+length]) {
				break
			}
			return window{first: first, last: first + length, steady: true}
		}
	}
	return window{first: latest, last: latest + length}
}

// MeasuredWindow decides which bins of a tcp test's count are measured, as the
// probe does for one test: from first up to but without last, and never any of
// the first skip. Steady says that the count settled within the warm-up.
func MeasuredWindow(count measurement.Bins, skip int, spec measurement.Spec) (first, last int, steady bool) {
	skip = min(skip, len(count.Bytes))
	w := chooseWindow(count.Bytes[skip:], count.Width.Duration(), spec.Defaults())
	return skip + w.first, skip + w.last, w.steady
}

// levelTolerance is how far apart the two ends of a level series may be, as a
// fraction; correlated noise makes any purely statistical bound too tight.
const levelTolerance = 0.05

// level says that a series goes neither up nor down over its length: its
// beginning (a tenth) and its end (a half) have the same mean, within three
// standard errors or levelTolerance (after Geweke, "Evaluating the accuracy of
// sampling-based approaches to the calculation of posterior moments", 1992).
func level(x []float64) bool {
	begin, end := x[:max(len(x)/10, 1)], x[len(x)/2:]
	meanBegin, varianceBegin := meanVariance(begin)
	meanEnd, varianceEnd := meanVariance(end)
	bound := 3 * math.Sqrt(varianceBegin/float64(len(begin))+varianceEnd/float64(len(end)))
	return math.Abs(meanBegin-meanEnd) <= max(bound, levelTolerance*meanEnd)
}

func meanVariance(x []float64) (mean, variance float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		variance += (v - mean) * (v - mean) / float64(max(len(x)-1, 1))
	}
	return mean, variance
}

// standardError is MSER's criterion, the square root of sum((x-mean)²)/n².
func standardError(x []float64) float64 {
	mean, m2 := 0.0, 0.0
	for i, v := range x {
		delta := v - mean
		mean += delta / float64(i+1)
		m2 += delta * (v - mean)
	}
	return math.Sqrt(m2) / float64(len(x))
}
