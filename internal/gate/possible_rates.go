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
	var all, reverse float64
	for _, flow := range j.outcome.Flows {
		all += float64(flow.ReceivedBytes)
		if flow.Reverse {
			reverse += float64(flow.ReceivedBytes)
		}
	}
	if all == 0 {
		return goodput, 0
	}
	return goodput * (1 - reverse/all), goodput * reverse / all
}

// possible compares a rate with what was declared to be the most, to pairs together.
func (j *judge) possible(received, most float64, whose measurement.Limit, pairs int) {
	if most > 0 && received > most*rateTolerance {
		j.warn("possible", measurement.Finding{Code: measurement.FoundAboveLimit, Received: received, AtMost: most, Limit: whose, LimitPairs: pairs})
	}
}
