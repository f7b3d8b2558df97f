package trial

import (
	"context"
	"fmt"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/testbed"
)

// mostLearned is how often a path of unknown hops is traced: at its first trial to find
// the steps at which its flows part (equal-cost multipath), later until one trace shows
// what the first trial did.
const mostLearned = 4

// Learn traces a path of unknown hops, of which first are known, unless there are none,
// from earlier traces. Every trace is another flow.
func Learn(ctx context.Context, source testbed.Agent, first []measurement.TraceHop, request probe.Request) ([]measurement.TraceHop, error) {
	var seen []measurement.TraceHop
	for n := range mostLearned {
		outcome, err := source.Run(ctx, request, nil)
		if err != nil {
			return seen, err
		}
		hops := answered(outcome.Hops)
		switch {
		case len(first) > 0:
			if seen = hops; sameWay(first, seen) {
				return seen, nil
			}
		case n == 0:
			seen = hops
		default:
			seen = merged(seen, hops)
		}
	}
	return seen, nil
}

// traceBack has the destination of a pair trace the way back, and learns from it.
func (t *trial) traceBack(ctx context.Context, pair testbed.Pair) ([]measurement.TraceHop, error) {
	destination, err := t.bed.Agent(pair.Destination)
	if err != nil {
		return nil, err
	}
	request := *pair.Back
	request.ID, request.Spec = t.ID+"-back-fingerprint", testbed.TraceSpec()
	hops, err := Learn(ctx, destination, t.First.Hops, request)
	if err != nil {
		return nil, fmt.Errorf("%s traces back to %s: %w", pair.Destination, pair.Source, err)
	}
	return hops, nil
}

// answered leaves out the silent steps behind the last answer.
func answered(hops []measurement.TraceHop) []measurement.TraceHop {
	n := len(hops)
	for n > 0 && hops[n-1].Address == "" {
		n--
	}
	return hops[:n]
}

// merged is what two traces of a path saw: where they saw different hops, its flows part.
func merged(a, b []measurement.TraceHop) []measurement.TraceHop {
	if len(b) > len(a) {
		a, b = b, a
	}
	out := append([]measurement.TraceHop{}, a...)
	for i, hop := range b {
		switch {
		case out[i].Address == "":
			out[i] = hop
		case hop.Address != "" && hop.Address != out[i].Address:
			out[i].Varies = true
		}
	}
	return out
}

// sameWay says that nothing in a trace speaks against the way that was learned. A hop
// that did not answer in either says nothing.
func sameWay(first, seen []measurement.TraceHop) bool {
	common := min(len(first), len(seen))
	for i := range common {
		switch a, b := first[i], seen[i]; {
		case a.Varies, a.Address == "", b.Address == "":
		case a.Address != b.Address:
			return false
		}
	}
	if common > 0 && first[common-1].Varies {
		return true // some flows arrive a hop earlier than others
	}
	return !differ(length(first), length(seen))
}

// length is how many hops a trace saw, the destination included; 0 where it did not
// reach it.
func length(hops []measurement.TraceHop) int {
	for _, h := range hops {
		if h.Reached {
			return h.TTL
		}
	}
	return 0
}

// learned compares a fingerprint with that of the path's first trial. Hops prove where
// packets went, and where nobody can trace, the time to live that they left. Otherwise that
// is only a sign, as the path MTU always is, which TCP may find late.
func learned(want testbed.Expectation, first, f measurement.Fingerprint) measurement.Fingerprint {
	f.Learned = true
	switch {
	case !sameWay(first.Hops, f.Hops):
		f.Matches, f.Why = false, &measurement.Finding{Code: measurement.FoundOtherHops, Hops: shownHops(f.Hops), ExpectedHops: shownHops(first.Hops), Back: f.TracedBack}
	case differ(f.ReceivedTTL, first.ReceivedTTL) && want.Learned && !want.Traced:
		f.Matches, f.Why = false, &measurement.Finding{Code: measurement.FoundOtherTTL, TTL: f.ReceivedTTL, ExpectedTTL: first.ReceivedTTL}
	case differ(f.ReceivedTTL, first.ReceivedTTL):
		f.Matches, f.Why = false, &measurement.Finding{Code: measurement.FoundTTLChanged, TTL: f.ReceivedTTL, ExpectedTTL: first.ReceivedTTL}
	case differ(f.PathMTU, first.PathMTU):
		f.Matches, f.Why = false, &measurement.Finding{Code: measurement.FoundMTUChanged, MTU: f.PathMTU, ExpectedMTU: first.PathMTU}
	}
	return f
}
