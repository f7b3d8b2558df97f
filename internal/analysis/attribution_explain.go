package analysis

import (
	"slices"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

const (
	// keptTo is the share of a pacing rate that is carried by a flow that can.
	keptTo = 0.95
	// calmer is what remains of losses, or of waiting, once a flow keeps to what the
	// path takes.
	calmer = 0.5
	// noGain is up to what factor more flows bring nothing.
	noGain = 1.1
)

// explain uses the tests that were done again a little slower because nothing else told
// what limited them: where a flow that keeps to nine tenths loses less, or waits less,
// the rate is one that a hop sets; where it cannot keep to them and loses as
// before, losses that do not depend on the rate limit it.
func explain(set *dataset, path string, of []result.Attribution, opts Options) {
	for _, test := range set.tests {
		i := slices.IndexFunc(of, func(a result.Attribution) bool { return test.Explains != "" && a.Test == test.Explains })
		at := slices.IndexFunc(set.tests, func(t result.TestInfo) bool { return t.Name == test.Explains })
		if i < 0 || at < 0 {
			continue
		}
		if cause, ok := Dominant(of[i].Shares); ok && cause != result.CauseUnknown {
			continue
		}
		before, ok := manner(set.cells[cellKey{path, test.Explains}], set.tests[at].Spec, opts)
		after, known := manner(set.cells[cellKey{path, test.Name}], test.Spec, opts)
		pacing := test.Spec.PacingBitsPerSecond * float64(max(test.Spec.Flows, 1))
		if !ok || !known || pacing <= 0 || before.full {
			continue
		}
		kept := after.goodput >= keptTo*pacing
		cause := result.CauseUnknown
		switch {
		case kept && (before.losses > 0 && after.losses <= calmer*before.losses || before.losses == 0 && after.waiting <= calmer*before.waiting):
			cause = result.CauseHopRate
			if gain := of[i].MoreFlowsGain; gain > noGain {
				cause = result.CauseUnknown // of each flow, or the window's
			}
		case !kept && before.losses > 0 && after.losses > calmer*before.losses:
			cause = result.CauseCongestionWindowLoss
		}
		if cause == result.CauseUnknown {
			continue
		}
		giveTo(of[i].Shares, cause)
		if cause == result.CauseHopRate {
			of[i].RateBitsPerSecond = before.wire
		}
	}
}

// mannered is how a test went on the path.
type mannered struct {
	goodput, wire float64 // bit/s
	losses        float64 // retransmitted segments of each that was carried
	waiting       float64 // seconds, of the round trip
	full          bool    // an end may have been the limit
}

// manner is that of the trials of a test of one direction, their medians.
func manner(trials []measurement.Trial, spec measurement.Spec, opts Options) (out mannered, ok bool) {
	var goodput, wire, losses, waiting []float64
	for _, t := range trials {
		w := directionsOf(t, spec.Defaults(), opts)[0]
		if len(w.flows) == 0 || w.goodput <= 0 {
			continue
		}
		d := w.divide()
		sent, again := 0.0, 0.0
		for _, f := range d.flows {
			sent += f.rate * f.elapsed / 8 / max(float64(f.mss), 1)
			again += f.retransmits
		}
		if sent == 0 {
			continue
		}
		goodput, wire, losses = append(goodput, w.goodput), append(wire, d.wire(w.goodput)), append(losses, again/sent)
		waiting = append(waiting, medianOver(d.flows, func(f flowFacts) float64 { return f.rtt - f.minRTT }))
		out.full = out.full || w.endsFull(&d)
	}
	if len(goodput) == 0 {
		return out, false
	}
	out.goodput, out.wire, out.losses, out.waiting = Median(goodput), Median(wire), Median(losses), Median(waiting)
	return out, true
}
