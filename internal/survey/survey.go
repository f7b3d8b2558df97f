// Package survey decides what a complete profile of a path consists of, rates
// its TCP tests by RFC 6349, and sums tests up for people. It measures nothing
// itself: what comes next is a pure function of what came back so far.
package survey

import (
	"fmt"
	"math"
	"slices"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe"
	"github.com/hopbench/hopbench/internal/quantity"
	"github.com/hopbench/hopbench/internal/result"
)

const goodputName = "goodput_bits_per_second"

// Step is one test of a profile that was done.
type Step struct {
	Test  result.TestInfo
	Trial measurement.Trial
	// NoServer is why no server can be used there, if that is why the test failed:
	// no other test that needs one is worth its time-out.
	NoServer probe.Reason
}

func (s Step) counts() bool { return s.Trial.Gate.Passed }

// Options of a profile. The zero value is the profile of about 20 seconds.
type Options struct {
	// Base holds what every test that takes it uses: DSCP, Device.
	Base measurement.Spec
	// Duration is the measured time of the throughput and load tests whose
	// figures are reported; 0 is two to three seconds. The search for the number
	// of flows keeps its own.
	Duration measurement.Seconds
}

// gain is how much more goodput further flows must bring, as a fraction, for
// the search for the number of flows to go on.
const gain = 0.1

// ladder is the numbers of flows that the search tries: with a factor of four,
// three short tests reach what one CPU per flow can use.
func ladder() []int { return []int{1, 4, 16, 64} }

// Next is the test to do after those done; false when the profile is whole. It
// depends on nothing but its arguments.
func (o Options) Next(done []Step) (result.TestInfo, bool) {
	stages := []func([]Step) []result.TestInfo{o.route, o.latency, o.search, o.explain, o.filled}
	fits := fitOf(done)
	for _, stage := range stages {
		for _, test := range stage(done) {
			if _, ok := find(done, test.Name); !ok {
				test.Spec.DSCP, test.Spec.Device = o.Base.DSCP, o.Base.Device
				if needsNoServer(test.Spec.Kind) {
					test.Spec.DSCP, test.Spec.Device = 0, "" // they take neither
				} else if test.Spec.Kind != measurement.MTU {
					test.Spec.MSSBytes = fits.segment
				}
				if test.Spec.Kind == measurement.UDP {
					test.Spec.PacketBytes = fits.datagram
				}
				test.Spec = test.Spec.Defaults()
				return test, true
			}
		}
	}
	return result.TestInfo{}, false
}

// Left are the tests that are still to come at most, on a healthy path whose limits are
// plain: the search for the number of flows is taken to go to its end.
func (o Options) Left(done []Step) (left []result.TestInfo) {
	sofar := done[:len(done):len(done)]
	for {
		test, ok := o.Next(sofar)
		if !ok {
			return left
		}
		left = append(left, test)
		_, best, _ := fill(sofar)
		hopeful := Step{Test: test}
		hopeful.Trial.Gate.Passed = true
		hopeful.Trial.Metrics = measurement.Metrics{goodputName: 1 + 2*best}
		sofar = append(sofar, hopeful)
	}
}

// fill is how many flows fill the path: the fewest of the search beyond which
// more did not bring gain more. Goodput is theirs in bits per second; over says
// that the search has ended. It is 0 flows when no TCP test counted.
func fill(done []Step) (flows int, goodput float64, over bool) {
	for _, n := range ladder() {
		s, ok := find(done, flowsName(n))
		if !ok {
			return flows, goodput, false
		}
		if !s.counts() || s.Trial.Metrics[goodputName] <= (1+gain)*goodput {
			return flows, goodput, true
		}
		flows, goodput = n, s.Trial.Metrics[goodputName]
	}
	return flows, goodput, true
}

// FillReason says in words why the search ended where it did, empty when there
// was none.
func FillReason(done []Step) string {
	flows, goodput, over := fill(done)
	if !over || flows == 0 {
		return ""
	}
	for _, n := range ladder() {
		s, ok := find(done, flowsName(n))
		switch {
		case n <= flows || !ok:
		case !s.counts():
			return fmt.Sprintf("%s: the test with %d does not count", quantity.Count(flows, "flow"), n)
		default:
			change := s.Trial.Metrics[goodputName]/goodput - 1
			return fmt.Sprintf("%s: %d bring %s %%", quantity.Count(flows, "flow"), n, quantity.Signed(100*change, 1))
		}
	}
	return fmt.Sprintf("%s, the most that are tried here; give --flows to try others", quantity.Count(flows, "flow"))
}

func find(done []Step, name string) (Step, bool) {
	for _, s := range done {
		if s.Test.Name == name {
			return s, true
		}
	}
	return Step{}, false
}

// LacksServer says that a test found no server that can be used.
func LacksServer(done []Step) bool {
	return slices.ContainsFunc(done, func(s Step) bool { return s.NoServer != "" })
}

// Unserved is the first test that found no server, unless another test used it: of a profile,
// whose other tests were left out for it, without exception.
func Unserved(done []Step, profile bool) (Step, bool) {
	for _, s := range done {
		used := func(other Step) bool {
			return !profile && other.counts() && !needsNoServer(other.Test.Spec.Kind) && other.Test.Spec.Tool == s.Test.Spec.Tool
		}
		if s.NoServer != "" && !slices.ContainsFunc(done, used) {
			return s, true
		}
	}
	return Step{}, false
}

func needsNoServer(name measurement.Kind) bool {
	k, _ := kind.Of(name)
	return k.NoServer
}

// route is what the path is made of.
func (o Options) route([]Step) []result.TestInfo {
	return []result.TestInfo{
		{Name: "path", Title: "path", Spec: measurement.Spec{Kind: measurement.Trace}},
		{Name: "mtu", Title: "path MTU", Spec: measurement.Spec{Kind: measurement.MTU}},
	}
}

// latency is taken over UDP; over TCP where UDP is filtered; by ping where
// nothing answers either.
func (o Options) latency(done []Step) []result.TestInfo {
	ways := []result.TestInfo{
		{Name: "latency", Title: "idle RTT", Spec: measurement.Spec{Kind: measurement.RR, Protocol: measurement.OverUDP}},
		{Name: "latency-tcp", Title: "idle RTT, TCP", Spec: measurement.Spec{Kind: measurement.RR, Protocol: measurement.OverTCP}},
		{Name: "ping", Title: "ping", Spec: measurement.Spec{Kind: measurement.Ping, Count: 20, Interval: 0.02}},
	}
	rtt := float64(roundTrip(done))
	if wait := timeouts * rtt; wait > ownTimeout {
		ways[0].Spec.Timeout = atLeast(wait, 0)
	}
	for i := range ways[:2] {
		ways[i].Spec.Duration = atLeast(answers*rtt, ways[i].Spec.Defaults().Duration)
	}
	var wanted []result.TestInfo
	for _, way := range ways {
		s, did := find(done, way.Name)
		if !did && LacksServer(done) && !needsNoServer(way.Spec.Kind) {
			continue
		}
		if wanted = append(wanted, way); !did || s.counts() {
			break
		}
	}
	return wanted
}

// On a long path a test of the round trip lasts for so many of those that the trace saw, since
// ten make a median, and waits for an answer for so many.
const answers, timeouts = 12, 2

// ownTimeout is that of an rr test for which none is set, in seconds.
const ownTimeout = 0.5

// roundTrip is that to the destination, as the trace saw it; 0 where it saw none.
func roundTrip(done []Step) measurement.Seconds {
	s, _ := find(done, "path")
	for _, hop := range s.Trial.Hops {
		if hop.Reached {
			return hop.RTT
		}
	}
	return 0
}

// atLeast is a time of a test, or what it has otherwise if that is more: a power of two of
// seconds, so that a path whose round trip varies a little gets the same test again.
func atLeast(seconds float64, otherwise measurement.Seconds) measurement.Seconds {
	if seconds <= float64(otherwise) {
		return otherwise
	}
	return measurement.Seconds(math.Exp2(math.Ceil(math.Log2(seconds))))
}

// search is a single flow, and then more flows for as long as they bring more.
func (o Options) search(done []Step) []result.TestInfo {
	if _, _, over := fill(done); over || LacksServer(done) {
		return nil
	}
	for _, n := range ladder() {
		if _, did := find(done, flowsName(n)); did {
			continue
		}
		if n == 1 {
			return []result.TestInfo{streams(n, measurement.Send, o.durationOr(2), 1)}
		}
		return []result.TestInfo{streams(n, measurement.Send, 1.5, 0.5)}
	}
	return nil
}

// filled is what is done once it is known how many flows fill the path, and how fast they are:
// as many in reverse, round trips beside them, and datagrams, which look for loss where the path
// has room, at half of what TCP reached.
func (o Options) filled(done []Step) []result.TestInfo {
	flows, goodput, _ := fill(done)
	if flows == 0 || LacksServer(done) {
		return nil
	}
	over := measurement.OverUDP
	if s, ok := find(done, "latency"); ok && !s.counts() {
		over = measurement.OverTCP
	}
	return []result.TestInfo{
		streams(flows, measurement.Receive, o.durationOr(2), 1),
		{Name: "load", Title: "RTT under load", Spec: measurement.Spec{
			Kind: measurement.Load, Flows: flows, Protocol: over, IdleDuration: 0.5, MaxWarmup: 1, Duration: o.durationOr(3),
		}},
		{Name: "udp", Title: "UDP", Spec: measurement.Spec{
			Kind: measurement.UDP, RateBitsPerSecond: goodput / 2, Duration: o.durationOr(2),
		}},
	}
}

func streams(flows int, direction measurement.Direction, duration, warmup measurement.Seconds) result.TestInfo {
	test := result.TestInfo{
		Name: flowsName(flows), Title: quantity.Count(flows, "flow"),
		Spec: measurement.Spec{Kind: measurement.TCP, Flows: flows, Direction: direction, Duration: duration, MaxWarmup: warmup},
	}
	if direction == measurement.Receive {
		test.Name += "-receive"
		test.Title += ", reverse"
	}
	return test
}

func flowsName(n int) string { return fmt.Sprintf("flows-%d", n) }

// durationOr is the duration asked for, or the test's own.
func (o Options) durationOr(own measurement.Seconds) measurement.Seconds {
	if o.Duration > 0 {
		return o.Duration
	}
	return own
}
