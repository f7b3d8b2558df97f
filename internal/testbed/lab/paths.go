package lab

import (
	"net/netip"
	"time"

	"github.com/hopbench/hopbench/internal/experiment"
	"github.com/hopbench/hopbench/internal/lab"
	"github.com/hopbench/hopbench/internal/lab/layout"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/testbed"
)

// agentAt is where an agent listens at an address; a lab's addresses are its
// own, so no other program can be there.
func agentAt(a netip.Addr) netip.AddrPort {
	return netip.AddrPortFrom(a, measurement.DefaultPort)
}

// asTestbed is a path as a trial takes it.
func (l *Lab) asTestbed(p lab.Path) testbed.Path {
	out := testbed.Path{Name: p.Name, Limits: limits(l.e, p.Name)}
	roundTrip := roundTrip(l.e, p.Name)
	for k := range max(len(p.Pairs), 1) {
		one := p.Of(k)
		pair := testbed.Pair{
			Source: one.SourceNode, Destination: one.DestinationNode,
			Request: probe.Request{Source: one.Source, Target: agentAt(one.Destination), Token: l.token},
			Expect:  testbed.Expectation{Hops: answers(one), ReceivedTTL: one.ReceivedTTL, ReturnedTTL: one.ReturnedTTL, RoundTrip: roundTrip},
		}
		if o := one.Outer; o != nil {
			pair.Outer = &testbed.Outer{
				Source: o.Source, Destination: agentAt(o.Destination), MTU: o.MTU,
				Expect: testbed.Expectation{Hops: answers(lab.Path{Hops: o.Hops, Others: o.Others}), RoundTrip: roundTrip},
			}
		}
		out.Pairs = append(out.Pairs, pair)
	}
	return out
}

// answers are the addresses of which each hop of a path may answer with one,
// none of a silent hop.
func answers(p lab.Path) [][]netip.Addr {
	out := make([][]netip.Addr, len(p.Hops))
	for i, a := range p.Hops {
		if a.IsValid() {
			out[i] = p.Answers(i)
		}
	}
	return out
}

// settleTime is how long nothing is measured after a path was switched to: its
// own time, or when its hops are switched on again, the longest of those paths
// that switch them off.
func settleTime(e *experiment.Experiment, path string) time.Duration {
	var longest time.Duration
	for _, p := range e.Paths {
		switch {
		case p.Name == path && p.VariantOf != "":
			return p.Settle
		case p.VariantOf == path:
			longest = max(longest, p.Settle)
		}
	}
	return longest
}

// roundTrip is how long what is planted on a path keeps an answer: its delays, with nearly all of
// their jitter, and its queues, which the trial before may have left full.
func roundTrip(e *experiment.Experiment, path string) (sum time.Duration) {
	for _, p := range e.Paths {
		for _, h := range p.Hops {
			if p.Name == path && !p.Bypasses(h) {
				sum += layout.FullRoundTrip(h)
			}
		}
	}
	return sum
}

// limits are what a trial on a path of a scaled experiment cannot exceed.
func limits(e *experiment.Experiment, path string) testbed.Limits {
	source, destination := e.Ends()
	l := testbed.Limits{SourceEgressBitsPerSecond: source.EgressBitsPerSecond, DestinationEgressBitsPerSecond: destination.EgressBitsPerSecond}
	for _, p := range e.Paths {
		if p.Name != path {
			continue
		}
		backends := 1
		for _, h := range p.Hops {
			if p.Bypasses(h) {
				continue
			}
			if h.Backends > 0 {
				// Each has an egress of its own, and from here on links may be
				// each one's own, too.
				backends = h.Parallel()
				l.DestinationEgressBitsPerSecond *= float64(backends)
			}
			rate := h.RateBitsPerSecond * float64(max(h.Parallel(), backends))
			lower(&l.PathBitsPerSecond, rate)
			if !h.OneWay {
				lower(&l.ReturnBitsPerSecond, rate)
			}
		}
	}
	return l
}

// lower lowers a limit to a rate; 0 is no limit for either.
func lower(limit *float64, rate float64) {
	if rate > 0 && (*limit == 0 || rate < *limit) {
		*limit = rate
	}
}
