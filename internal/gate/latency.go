package gate

import (
	"slices"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
)

// latency judges the round trips of a part of the test, if it has parts.
func (j *judge) latency(l kind.Latency) {
	part, d := l.Part, l.Of(j.outcome)
	if d == nil || d.Samples == 0 {
		j.broken("receiver-confirmed", measurement.Finding{Code: measurement.FoundNoAnswers, Part: part})
		return
	}
	if d.Samples < kind.FewestRoundTrips {
		f := measurement.Finding{Code: measurement.FoundFewAnswers, Part: part, Count: int(d.Samples), Needed: kind.FewestRoundTrips}
		if j.spec.Kind == measurement.RR && j.spec.RequestsPerSecond == 0 && d.Unanswered > 0 {
			f.Of = int(d.Due()) // each that was lost took the time of many
		}
		if j.limits.FewWarn {
			j.warn("enough-samples", f)
		} else {
			j.either(j.spare() && j.tookTime(d) && j.askedEnough(l), "enough-samples", f)
		}
	}
	j.unanswered(part, d)
	if d.Min <= 0 || d.Min > d.Max {
		j.missing("clock", measurement.Finding{Code: measurement.FoundImpossibleTimes, Part: part, Min: d.Min, Max: d.Max})
	}
}

// askedEnough says that a test asks for as many round trips as a median takes.
func (j *judge) askedEnough(l kind.Latency) bool {
	return l.Asked(j.spec)*float64(j.limits.pairs()) >= kind.FewestRoundTrips
}

// tookTime says that the round trips of an rr test took the time they had, or that
// requests were lost meanwhile: an end that comes late takes a single one.
func (j *judge) tookTime(d *measurement.Distribution) bool {
	if j.outcome.Metrics["loss_fraction"] > mostLost {
		return true
	}
	rate := measurement.Seconds(j.outcome.Metrics["transactions_per_second"])
	return rate <= 0 || measurement.Seconds(d.Samples)/rate >= durationTolerance*j.spec.Duration
}

// mostLost is the share of the requests sent that a path has to lose for the lack of a
// median to be its doing, and not that of a sender that never sent them.
const mostLost = 0.4

// unanswered refuses round trips whose median falls on a request without an answer. Failed
// connections have a judgement of their own.
func (j *judge) unanswered(part string, d *measurement.Distribution) {
	k, _ := kind.Of(j.spec.Kind)
	counted := slices.ContainsFunc(k.Gates, func(g kind.Gate) bool { return g.Judge == kind.JudgeConnections })
	if counted || d.Lacks(50) != measurement.LacksAnswer {
		return
	}
	f := measurement.Finding{Code: measurement.FoundUnanswered, Part: part, Count: int(d.Unanswered), Of: int(d.Due()), Fatal: !j.limits.FewWarn}
	f.PathFailure = f.Fatal && j.outcome.Metrics["loss_fraction"] > mostLost
	j.warn("answered", f)
}
