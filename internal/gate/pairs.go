package gate

import (
	"slices"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/session"
)

// pairs is how many pairs did the test, at least 1.
func (l Limits) pairs() int { return max(l.Pairs, 1) }

// pairs judges that every one of several pairs brought back what the test asks.
func (j *judge) pairs() {
	want := j.limits.pairs()
	if want == 1 {
		return
	}
	good := 0
	var failed, empty, short, unsampled []string
	ofPath := true // why any failed
	for _, p := range j.outcome.Pairs {
		name := p.Source + " to " + p.Destination
		if p.Error != "" {
			failed = append(failed, name+": "+p.Error)
			ofPath = ofPath && session.Reason(p.Failure).OfPath()
			continue
		}
		good++
		if j.spec.Kind != measurement.TCP {
			continue
		}
		if p.Metrics["goodput_bits_per_second"] <= 0 {
			empty = append(empty, name)
		}
		if p.Throughput == nil || p.Throughput.Width*measurement.Seconds(len(p.Throughput.Bytes)) < durationTolerance*j.spec.Duration {
			short = append(short, name)
		}
		if len(p.RTT) == 0 {
			unsampled = append(unsampled, name)
		}
	}
	if good < want {
		j.either(ofPath && len(failed) > 0, "pairs", measurement.Finding{Code: measurement.FoundPairsMissing, Count: good, Of: want, Pairs: failed})
	}
	if len(empty) > 0 {
		j.broken("pairs", measurement.Finding{Code: measurement.FoundPairsWithoutBytes, Pairs: empty})
	}
	if len(short) > 0 && j.spec.Tool == measurement.Native {
		j.missing("pairs", measurement.Finding{Code: measurement.FoundPairsCutShort, Pairs: short})
	}
	if len(unsampled) > 0 && j.spec.Tool == measurement.Native {
		j.warn("pairs", measurement.Finding{Code: measurement.FoundPairsWithoutRTT, Pairs: unsampled})
	}
}

// pairFailed says whether one of several pairs failed by its path.
func (j *judge) pairFailed(name string) bool {
	return slices.ContainsFunc(j.outcome.Pairs, func(p measurement.Pair) bool {
		return p.Source+" to "+p.Destination == name && p.Error != "" && session.Reason(p.Failure).OfPath()
	})
}
