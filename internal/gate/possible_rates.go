package gate

import "github.com/hopbench/hopbench/internal/measurement"

// oneWay compares a rate with what the sending end and the path allow.
func (j *judge) oneWay(rate float64) {
	cap, whose := j.limits.SourceEgressBitsPerSecond, measurement.LimitSource
	if j.spec.Direction == measurement.Receive {
		cap, whose = j.limits.DestinationEgressBitsPerSecond, measurement.LimitDestination
	}
	pairs := j.limits.pairs()
	j.possible(rate, cap*float64(pairs), whose, pairs)
	j.possible(rate, j.pathRate(), measurement.LimitHop, 0)
}

// pathRate is the declared rate of the slowest hop in the direction of the test, 0 where there
// is none.
func (j *judge) pathRate() float64 {
	if j.spec.Direction == measurement.Receive {
		return j.limits.ReturnBitsPerSecond
	}
	return j.limits.PathBitsPerSecond
}

// filled says that a rate is what the path was declared to carry, less the headers of tunnels.
func (j *judge) filled(rate float64) bool {
	most := j.pathRate()
	return most > 0 && rate >= most*pathFilled
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
