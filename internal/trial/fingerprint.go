package trial

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/testbed"
)

// mostTraces is how often a path is traced until every hop that answers has.
const mostTraces = 3

// traces has the source of every pair trace its path, where there is something
// to compare with, and returns what each saw. Queues that a trial before has left
// can be longer than a trace waits: one that lacks an answer is done again. One
// that has a wrong answer is not.
func (t *trial) traces(ctx context.Context) [][]measurement.TraceHop {
	return t.eachPair(ctx, func(ctx context.Context, k int, pair testbed.Pair) ([]measurement.TraceHop, error) {
		if pair.Back != nil {
			return t.traceBack(ctx, pair)
		}
		if len(pair.Expect.Hops) == 0 && !pair.Expect.Traced {
			return []measurement.TraceHop{}, nil
		}
		request := t.request(pair)
		request.ID += "-fingerprint"
		if pair.Expect.Traced {
			request.Spec = testbed.TraceSpec()
			hops, err := Learn(ctx, t.sources[k], t.earlier(pair.Expect).Hops, request)
			if err != nil && len(t.path.Pairs) > 1 {
				err = fmt.Errorf("%s: %w", pair, err)
			}
			return hops, err
		}
		return t.compared(ctx, k, request, pair.Expect)
	})
}

// compared has the source of pair k trace a path of which it is known what a trace must show.
// An answer is waited for longer by what the path's own delays take.
func (t *trial) compared(ctx context.Context, k int, request probe.Request, want testbed.Expectation) ([]measurement.TraceHop, error) {
	request.Spec = testbed.TraceSpec()
	request.Spec.Timeout = measurement.SecondsOf(min(request.Spec.Timeout.Duration()+want.RoundTrip, time.Minute))
	for left := mostTraces; ; left-- {
		outcome, err := t.sources[k].Run(ctx, request, nil)
		if err != nil || left == 1 || len(want.Hops) == 0 || !lacksAnswers(want, outcome.Hops) {
			return outcome.Hops, err
		}
	}
}

// traceOuter traces the path that a tunnel takes. A trace inside sees the other
// end of the tunnel as its only hop, whatever lies between; so one outside must
// show that it is the path that was wanted. Nobody listens outside: the
// destination's kernel refuses the connection, which ends the trace as well as
// an answer would.
func (t *trial) traceOuter(ctx context.Context) [][]measurement.TraceHop {
	return t.eachPair(ctx, func(ctx context.Context, k int, pair testbed.Pair) ([]measurement.TraceHop, error) {
		if pair.Outer == nil {
			return nil, nil
		}
		hops, err := t.compared(ctx, k, probe.Request{
			ID: t.ID + "-outer-fingerprint", Target: pair.Outer.Destination, Source: pair.Outer.Source, Token: pair.Request.Token,
		}, pair.Outer.Expect)
		if err != nil {
			return nil, fmt.Errorf("trace the path below the tunnel of %s: %w", pair, err)
		}
		return hops, nil
	})
}

// eachPair traces something of every pair that has not failed, at the same time.
func (t *trial) eachPair(ctx context.Context, do func(context.Context, int, testbed.Pair) ([]measurement.TraceHop, error)) [][]measurement.TraceHop {
	seen := make([][]measurement.TraceHop, len(t.path.Pairs))
	var group sync.WaitGroup
	for k, pair := range t.path.Pairs {
		if t.failed[k] == nil {
			group.Go(func() { seen[k], t.failed[k] = do(ctx, k, pair) })
		}
	}
	group.Wait()
	return seen
}

// lacksAnswers says that a hop of the path that answers did not, and that nothing
// else speaks against the path. A router that answers again in the place of one behind
// it says that packets get no further (ICMP destination unreachable, RFC 792).
func lacksAnswers(want testbed.Expectation, seen []measurement.TraceHop) bool {
	last := want.Hops[len(want.Hops)-1]
	for _, further := range seen[min(len(want.Hops), len(seen)):] {
		// A destination that missed its turn answers at a later one.
		if further.Address != "" && !answers(last, further) {
			return false
		}
	}
	lacks := false
	for i, own := range want.Hops {
		switch {
		case i >= len(seen) || seen[i].Address == "":
			lacks = lacks || len(own) > 0
		case answers(own, seen[i]):
		case slices.ContainsFunc(want.Hops[:i], func(before []netip.Addr) bool { return answers(before, seen[i]) }):
			lacks = true
		default:
			return false
		}
	}
	return lacks
}

// fingerprints compares what every pair saw with the path that it should take,
// below a tunnel, too: the result is the first that does not match, or else the
// first. A hole shows no path, unless all are holes: then those do whose traces came back.
func (t *trial) fingerprints(seen, outer [][]measurement.TraceHop, each []measurement.Outcome) measurement.Fingerprint {
	var first *measurement.Fingerprint
	some := false // are no holes
	for k := range t.path.Pairs {
		some = some || !t.hole(k)
	}
	for k, pair := range t.path.Pairs {
		if t.hole(k) && len(t.path.Pairs) > 1 && (some || seen[k] == nil) {
			continue
		}
		own := each[k]
		if pair.Outer == nil { // what a tunnel carries, it carries both ways
			own.Flows = t.forward(own.Flows)
		}
		f := fingerprint(pair.Expect, seen[k], own)
		if f.TracedBack = pair.Back != nil; f.TracedBack && f.Why != nil {
			f.Why.Back = f.Why.Code == measurement.FoundOtherHopCount
		}
		if pair.Outer != nil {
			f = withTunnel(*pair.Outer, outer[k], f)
		}
		if own := pair.Expect.Before != nil; f.Matches && len(pair.Expect.Hops) == 0 && (k == 0 || own) {
			earlier := t.earlier(pair.Expect)
			if k > 0 {
				earlier.PathMTU = 0 // that of the first pair
			}
			f = learned(pair.Expect, earlier, f)
			f.Learned = k == 0
		}
		if !f.Matches {
			if len(t.path.Pairs) > 1 {
				f.Why.Pair = pair.String()
			}
			return f
		}
		if first == nil {
			first = &f
		}
	}
	if first == nil {
		return measurement.Fingerprint{Why: &measurement.Finding{Code: measurement.FoundTraceFailed, Text: t.failed[0].Error()}}
	}
	return *first
}

// forward is a flow that tells what the source's kernel knows of the path. The MTU that is
// known of a flow which the destination sends is that of the way back, and may be another.
func (t *trial) forward(flows []measurement.Flow) []measurement.Flow {
	told := func(f measurement.Flow) bool { return f.Final != nil }
	i := slices.IndexFunc(flows, func(f measurement.Flow) bool { return told(f) && !f.Reverse })
	if i < 0 {
		i = slices.IndexFunc(flows, told)
	}
	if i < 0 {
		return nil
	}
	flow := flows[i]
	if flow.Reverse || t.spec.Defaults().Direction == measurement.Receive {
		final := *flow.Final
		final.PathMTU, flow.Final = 0, &final
	}
	return []measurement.Flow{flow}
}

// earlier is what the trials of a pair are compared with.
func (t *trial) earlier(want testbed.Expectation) measurement.Fingerprint {
	f := t.First
	if want.Before != nil {
		f.Hops, f.ReceivedTTL = want.Before.Hops, want.Before.ReceivedTTL
	}
	return f
}

// fingerprint compares what was seen on the way with the path that is wanted.
func fingerprint(want testbed.Expectation, hops []measurement.TraceHop, o measurement.Outcome) measurement.Fingerprint {
	f := measurement.Fingerprint{Hops: hops, ReceivedTTL: o.Destination.ReceivedTTL}
	for _, flow := range o.Flows {
		if flow.Final != nil {
			f.PathMTU, f.MSS = flow.Final.PathMTU, flow.Final.MSS
			break
		}
	}
	switch {
	case len(want.Hops) > 0 && !took(want.Hops, hops) && !lacksAnswers(want, hops):
		f.Why = &measurement.Finding{Code: measurement.FoundOtherHops, Hops: shownHops(hops), ExpectedHops: shownPath(want.Hops)}
	case differ(f.ReceivedTTL, want.ReceivedTTL):
		f.Why = &measurement.Finding{Code: measurement.FoundOtherTTL, TTL: f.ReceivedTTL, ExpectedTTL: want.ReceivedTTL}
	case differ(o.Source.ReceivedTTL, want.ReturnedTTL):
		f.Why = &measurement.Finding{Code: measurement.FoundOtherReturnedTTL, TTL: o.Source.ReceivedTTL, ExpectedTTL: want.ReturnedTTL}
	case differ(length(hops), want.HopCount):
		f.Why = &measurement.Finding{Code: measurement.FoundOtherHopCount, Count: length(hops), Needed: want.HopCount, Hops: shownHops(hops)}
	case differ(f.PathMTU, int64(want.PathMTUBytes)):
		f.Why = &measurement.Finding{Code: measurement.FoundOtherMTU, MTU: f.PathMTU, ExpectedMTU: int64(want.PathMTUBytes)}
	case len(want.Hops) > 0 && !took(want.Hops, hops):
		f.Why = &measurement.Finding{Code: measurement.FoundSilentHops, Hops: shownHops(hops), ExpectedHops: shownPath(want.Hops)}
		if f.ReceivedTTL != 0 && want.ReceivedTTL != 0 {
			f.Why.TTL = f.ReceivedTTL // as it must be
		}
	default:
		f.Matches = true
	}
	return f
}

// differ says that two numbers, 0 where they are unknown, are not the same.
func differ[T int | int64](a, b T) bool { return a != 0 && b != 0 && a != b }

// withTunnel adds to the fingerprint of what is inside a tunnel what was seen
// below it: the path that is wanted must be there, and TCP must have found the
// MTU of the tunnel.
func withTunnel(outer testbed.Outer, seen []measurement.TraceHop, f measurement.Fingerprint) measurement.Fingerprint {
	f.OuterHops = seen
	below := fingerprint(outer.Expect, seen, measurement.Outcome{})
	switch {
	case !f.Matches && f.Why.Code != measurement.FoundSilentHops:
	case !below.Matches:
		f.Matches, f.Why = false, below.Why
		f.Why.Outer = true
	case differ(f.PathMTU, int64(outer.MTU)):
		f.Matches, f.Why = false, &measurement.Finding{Code: measurement.FoundOtherTunnelMTU, MTU: f.PathMTU, ExpectedMTU: int64(outer.MTU)}
	}
	return f
}

// silent stands for a hop that does not answer.
const silent = "*"

func took(want [][]netip.Addr, seen []measurement.TraceHop) bool {
	return slices.EqualFunc(want, seen, func(own []netip.Addr, hop measurement.TraceHop) bool {
		return answers(own, hop) || len(own) == 0 && hop.Address == ""
	})
}

// answers says that a hop answered with one of its own addresses.
func answers(own []netip.Addr, hop measurement.TraceHop) bool {
	return slices.ContainsFunc(own, func(a netip.Addr) bool { return a.String() == hop.Address })
}

func shownHops(seen []measurement.TraceHop) []string {
	out := make([]string, len(seen))
	for i, h := range seen {
		out[i] = cmp.Or(h.Address, silent)
	}
	return out
}

func shownPath(want [][]netip.Addr) []string {
	out := make([]string, len(want))
	for i, answers := range want {
		var names []string
		for _, a := range answers {
			names = append(names, a.String())
		}
		out[i] = cmp.Or(strings.Join(names, "|"), silent)
	}
	return out
}
