package gate

import "github.com/hopbench/hopbench/internal/measurement"

// oneWay compares a rate with what the sending end and the path allow.
func (j *judge) oneWay(rate float64) {
	cap, whose, path := j.limits.SourceEgressBitsPerSecond, measurement.LimitSource, j.limits.PathBitsPerSecond
	if j.spec.Direction == measurement.Receive {
		cap, whose, path = j.limits.DestinationEgressBitsPerSecond, measurement.LimitDestination, j.limits.ReturnBitsPerSecond
	}
	pairs := j.limits.pairs()
	j.possible(rate, cap*float64(pairs), whose, pairs)
	j.possible(rate, path, measurement.LimitHop, 0)
}

// eachWay divides the rate of a test of both directions: by its metrics, or
// else as the flows' bytes divide.
func (j *judge) eachWay(goodput float64) (there, back float64) {
	m := j.outcome.Metrics
	if there, back = m["forward_goodput_bits_per_second"], m["reverse_goodput_bits_per_second"]; there > 0 || back > 0 {
		return there, back
	}
	reverse := measurement.ReverseShare(j.outcome.Flows)
	return goodput * (1 - reverse), goodput * reverse
}

// possible compares a rate with what was declared to be the most, to pairs together.
func (j *judge) possible(received, most float64, whose measurement.Limit, pairs int) {
	if most > 0 && received > most*rateTolerance {
		j.warn("possible", measurement.Finding{Code: measurement.FoundAboveLimit, Received: received, AtMost: most, Limit: whose, LimitPairs: pairs})
	}
}
