package analysis

import (
	"math"
	"slices"

	"github.com/hopbench/hopbench/internal/analysis/statistics"
)

// FewestRuns is how many runs a side must have for their level to be told from
// an effect.
const FewestRuns = 3

// runEstimate is what one run says of an effect, and how uncertain it is by the n
// trials within the run.
type runEstimate struct {
	value, variance float64
	n               int
}

// withVariance gives each run at least the variance that the spread of trials in the median
// run gives as many: by its own few trials a run that shows no spread, since it has a single
// one, or its trials agree by luck or in the steps of what they count, would outweigh the
// others. Where most runs show none, as of a share that is mostly 0, it is that of the mean run;
// where no run shows any, all are as uncertain as they differ.
func withVariance(runs, others []runEstimate) []runEstimate {
	var ofTrials []float64
	for _, r := range slices.Concat(runs, others) {
		if r.n > 1 {
			degrees := float64(r.n - 1)
			ofTrials = append(ofTrials, r.variance*float64(r.n)*degrees/statistics.ChiSquareQuantile(0.5, degrees))
		}
	}
	least := statistics.Median(ofTrials)
	if least == 0 {
		least = statistics.Mean(ofTrials)
	}
	out := slices.Clone(runs)
	for i, r := range out {
		out[i].variance = math.Max(r.variance, least/float64(max(r.n, 1)))
	}
	return out
}

// groupDifference is by how much two groups of runs differ.
type groupDifference struct {
	estimate, p float64
	interval    statistics.Interval
	// tau is the standard deviation between runs of one side that their trials
	// do not explain.
	tau float64
}

// compareGroups estimates by how much the runs differ from the reference runs,
// where each run has a level of its own: random effects with one variance τ² on
// both sides, estimated by Paule & Mandel (1982), and the interval of Hartung &
// Knapp (2001) with k − 2 degrees of freedom, of k runs in all. Its variance is
// never taken below that of the model (Röver, Knapp & Friede 2015), so that runs
// that agree by luck do not make it narrow. ok is false with too few runs.
func compareGroups(reference, runs []runEstimate, confidence float64) (groupDifference, bool) {
	if len(reference) < FewestRuns || len(runs) < FewestRuns {
		return groupDifference{}, false
	}
	reference, runs = withVariance(reference, runs), withVariance(runs, reference)
	df := float64(len(reference) + len(runs) - 2)
	excess := func(tau2 float64) float64 {
		_, _, a := pooled(reference, tau2)
		_, _, b := pooled(runs, tau2)
		return a + b - df
	}
	low, high := 0.0, 0.0
	if excess(0) > 0 {
		high = 1e-30
		for excess(high) > 0 {
			low, high = high, 4*high
		}
		for range 100 {
			if middle := (low + high) / 2; excess(middle) > 0 {
				low = middle
			} else {
				high = middle
			}
		}
	}
	meanA, weightA, a := pooled(reference, high)
	meanB, weightB, b := pooled(runs, high)
	spread := math.Sqrt((1/weightA + 1/weightB) * math.Max(1, (a+b)/df))
	d := groupDifference{estimate: meanB - meanA, tau: math.Sqrt(high)}
	d.p = statistics.StudentTwoSided(d.estimate/spread, int(df))
	reach := statistics.StudentQuantile((1+confidence)/2, int(df)) * spread
	d.interval = statistics.Interval{Low: d.estimate - reach, High: d.estimate + reach, Coverage: confidence}
	return d, true
}

// pooled is the weighted mean of runs, the sum of the weights, and the weighted
// sum of squares about the mean.
func pooled(runs []runEstimate, tau2 float64) (mean, weight, squares float64) {
	w := func(r runEstimate) float64 { return 1 / math.Max(r.variance+tau2, 1e-60) }
	for _, r := range runs {
		weight += w(r)
		mean += w(r) * r.value
	}
	mean /= weight
	for _, r := range runs {
		squares += w(r) * statistics.Square(r.value-mean)
	}
	return mean, weight, squares
}
