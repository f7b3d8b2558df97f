package gate

import (
	"slices"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/testbed"
)

// pairs is how many pairs did the test, at least 1.
func (l Limits) pairs() int { return max(l.Pairs, 1) }

// pairs judges that every one of several pairs brought back what the test asks. One that
// the path failed breaks the trial. Any other that lacks is a hole, which says nothing of
// the path: more of them than the test may have are the instrument's fault. Where it is
// known why no pair could go on, that is judged in their place.
func (j *judge) pairs(testErr error) {
	want := j.limits.pairs()
	if want == 1 || testErr != nil && (len(j.outcome.Pairs) == 0 || j.faultOfPath(testErr)) {
		return
	}
	good := 0
	var failed, holes, empty, short, unsampled []string
	for _, p := range j.outcome.Pairs {
		name := nameOf(p)
		switch {
		case Hole(p):
			holes = append(holes, name+": "+p.Error)
			continue
		case p.Error != "":
			failed = append(failed, name+": "+p.Error)
			continue
		}
		good++
		if j.spec.Kind != measurement.TCP {
			if max(p.Metrics["loss_fraction"], p.Metrics["failed_connections_fraction"]) >= 1 {
				empty = append(empty, name)
			}
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
	if len(failed) > 0 {
		j.broken("pairs", measurement.Finding{Code: measurement.FoundPairsFailed, Count: len(failed), Of: want, Pairs: failed})
	}
	if lacking := want - good - len(failed); lacking > 0 {
		f := measurement.Finding{Code: measurement.FoundPairsMissing, Count: good, Of: want, Pairs: holes}
		if j.spec.MissingPairs > 0 {
			f.Needed = want - j.spec.MissingPairs
		}
		j.missingUnless(lacking <= j.spec.MissingPairs, "pairs", f)
	}
	if len(empty) > 0 {
		j.either(j.spec.Kind != measurement.TCP || j.spare() || j.lostFlow(), "pairs", measurement.Finding{Code: measurement.FoundPairsWithoutBytes, Pairs: empty})
	}
	if len(short) > 0 && j.spec.Tool == measurement.Native {
		j.missing("pairs", measurement.Finding{Code: measurement.FoundPairsCutShort, Pairs: short})
	}
	if len(unsampled) > 0 && j.spec.Tool == measurement.Native {
		j.warn("pairs", measurement.Finding{Code: measurement.FoundPairsWithoutRTT, Pairs: unsampled})
	}
}

// Hole says that a pair brought back nothing, and that the path is not why, as far as is
// known.
func Hole(p measurement.Pair) bool {
	return p.Error != "" && !session.Reason(p.Failure).OfPath()
}

// NoResult says that a trial is missing because its ends brought back nothing, or too many
// of its pairs, that the path did not fail, and that the next attempt may bring more: it
// hides nothing, since no number was discarded.
func NoResult(g measurement.Gate) bool {
	none := false
	for _, f := range g.Findings {
		if f.Fatal && f.PathFailure {
			return false
		}
		switch f.Code {
		case measurement.FoundPairsMissing, measurement.FoundBedBroke:
			none = none || f.Fatal
		case measurement.FoundTestFailed:
			none = none || f.Fatal && session.Reason(f.Failure).Transient()
		}
	}
	return none
}

// pairFailed says whether one of several pairs failed by its path.
func (j *judge) pairFailed(name string) bool {
	return slices.ContainsFunc(j.outcome.Pairs, func(p measurement.Pair) bool {
		return nameOf(p) == name && (p.Error != "" && !Hole(p) || lostEverything(p.Metrics))
	})
}

// lostEverything says that a path lost all that a test sent, of which a test of single packets
// is told by its loss and not by an error.
func lostEverything(m measurement.Metrics) bool { return m["loss_fraction"] >= 1 }

func nameOf(p measurement.Pair) string {
	return testbed.Pair{Source: p.Source, Destination: p.Destination}.String()
}
