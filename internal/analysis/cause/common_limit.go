package cause

import (
	"math"
	"slices"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

// endCauses are those of an end, which say nothing of the path between.
var endCauses = []result.Cause{
	result.CauseSenderApplication, result.CauseReceiverApplication, result.CausePacing, result.CauseSourceThread,
	result.CauseDestinationThread, result.CauseSourceCPU, result.CauseDestinationCPU, result.CauseSourceCap, result.CauseDestinationCap,
	result.CauseSourceLink, result.CauseDestinationLink, result.CauseGenerator,
}

// FindCommonLimits finds for each comparison of a throughput what limited both sides alike: an
// end, so that nothing is known of the path beyond that rate.
func FindCommonLimits(run Run, effects []result.Effect, attributions []result.Attribution, opts Options) {
	for i := range effects {
		e := &effects[i]
		if measurement.MetricOf(e.Metric).Unit == measurement.BitsPerSecond {
			e.CommonLimit = commonLimit(e, run.Test(e.Test).Spec.Defaults(), pairsOf(run.Trials(e.Path, e.Test)), attributions, opts)
		}
	}
}

// pairsOf is how many pairs of ends did the trials at the same time: a trial has the sum of
// them, a spec what each is asked for.
func pairsOf(trials []measurement.Trial) float64 {
	pairs := 1
	for _, t := range trials {
		pairs = max(pairs, len(t.Pairs))
	}
	return float64(pairs)
}

func commonLimit(e *result.Effect, spec measurement.Spec, pairs float64, attributions []result.Attribution, opts Options) *result.CommonLimit {
	offered := spec.RateBitsPerSecond * pairs
	if offered > 0 && spec.LossBound == 0 && math.Min(e.Median, e.ReferenceMedian) >= capReached*offered {
		return &result.CommonLimit{Cause: result.CausePacing, RateBitsPerSecond: offered}
	}
	of := func(path string) (result.Cause, bool) {
		i := slices.IndexFunc(attributions, func(a result.Attribution) bool { return a.Path == path && a.Test == e.Test })
		if i < 0 {
			return "", false
		}
		return dominant(attributions[i].Shares)
	}
	one, ok := of(e.Path)
	other, known := of(e.Baseline)
	if !ok || !known || one != other || !slices.Contains(endCauses, one) {
		return nil
	}
	limit := &result.CommonLimit{Cause: one, RateBitsPerSecond: math.Min(e.Median, e.ReferenceMedian)}
	switch {
	case one == result.CauseSourceCap && opts.SourceEgressBitsPerSecond > 0:
		limit.RateBitsPerSecond = opts.SourceEgressBitsPerSecond
	case one == result.CauseDestinationCap && opts.DestinationEgressBitsPerSecond > 0:
		limit.RateBitsPerSecond = math.Min(opts.destinationEgress(e.Path), opts.destinationEgress(e.Baseline))
	case one == result.CausePacing && spec.PacingBitsPerSecond > 0:
		limit.RateBitsPerSecond = spec.PacingBitsPerSecond * float64(max(spec.Flows, 1)) * pairs
		if spec.Direction == measurement.Both { // so many flows in each, and the sum is compared
			limit.RateBitsPerSecond *= 2
		}
	}
	return limit
}
