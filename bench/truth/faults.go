package main

import (
	"slices"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
)

// caught is what a gate must make of a trial with a planted fault.
type caught string

const (
	asBroken  caught = "broken"  // an outcome of the path
	asMissing caught = "missing" // the instrument's fault
	asWarned  caught = "warned"  // counts, with a finding
	// asMeasured is for what no gate has to catch: the trial counts, and its metrics
	// show the fault as what it is.
	asMeasured caught = "measured"
)

// fault is planted in every trial of a test on a path. Paths without any are the
// shams.
type fault struct {
	label, path, test string
	want              caught
	plant             planter
	// codes are those of which the finding must be one, any where there are none.
	codes []measurement.FindingCode
	// shows says that the metrics of a trial show the fault, of one to be measured.
	shows func(measurement.Trial) bool
}

// asWanted says whether a trial was judged as it must be.
func (f fault) asWanted(t measurement.Trial) bool {
	found := len(f.codes) == 0 || slices.ContainsFunc(t.Gate.Findings, func(x measurement.Finding) bool { return slices.Contains(f.codes, x.Code) })
	switch f.want {
	case asBroken:
		return t.Gate.Broken && found
	case asMissing:
		return !t.Gate.Passed && !t.Gate.Broken && found
	case asMeasured:
		return t.Gate.Passed && f.shows(t)
	default:
		return t.Gate.Passed && found
	}
}

type faults struct {
	design design
	faults []fault
	// most is how many blocks a run can have, 0 for any number.
	most int
}

// sham is the path in each design that nothing is planted in.
const sham = "sound"

// ofPairs is long enough for three flows that share a path to carry what each must.
const ofPairs = "kind: tcp, duration: 1s, max_warmup: 100ms"

// perConnection marks the connections of a trial in turn with 0, 1, 2, 3.
const perConnection = "tcp flags & (syn | ack) == syn ct mark set numgen inc mod 4"

// faultOf is one that must be found as one of some codes, as any where there are none.
func faultOf(label, path, test string, want caught, plant planter, codes ...measurement.FindingCode) fault {
	return fault{label: label, path: path, test: test, want: want, plant: plant, codes: codes}
}

// filtered is a fault that rules in the path's router make, whatever it is found as.
func filtered(label, path, test string, want caught, each ...string) fault {
	return faultOf(label, path, test, want, rules(each...))
}

// with is a design whose paths, the sham among them, all have the same hops.
func with(d design, hops string, names ...string) design {
	for _, name := range append([]string{sham}, names...) {
		d.paths = append(d.paths, path{name, hops})
	}
	return d
}

// named is one of paths with a slow hop.
func named(d design, names ...string) design {
	return with(d, "{type: link, delay: 200us}, {type: router, name: hop, rate: 50Mbit}", names...)
}

func allFaults() []faults {
	return slices.Concat(pathFaults(), boundFaults(), standstills())
}

// pathFaults are those of paths, ends and agents.
func pathFaults() []faults {
	return []faults{
		{
			design: named(design{name: "gates-tcp", tests: []test{{"tcp", "kind: tcp, flows: 4, duration: 300ms, max_warmup: 50ms"}}},
				"resets", "resets-one", "starves-one", "goes-dark", "large-lost", "other-hops", "silent-hops", "other-ttl", "other-ttl-back"),
			faults: []fault{
				filtered("every connection is reset after 500 kB", "resets", "tcp", asBroken, resetAfter(500_000)),
				filtered("one connection in four is reset after 50 kB", "resets-one", "tcp", asBroken, perConnection, "ct mark 1 quota over 50000 bytes reject with tcp reset"),
				filtered("one connection in four gets no more than 30 kB", "starves-one", "tcp", asBroken, perConnection, "ct mark 1 quota over 30000 bytes drop"),
				filtered("nothing passes any more after 500 kB", "goes-dark", "tcp", asBroken, "quota over 500000 bytes drop"),
				filtered("packets above 1000 bytes are lost", "large-lost", "tcp", asBroken, "meta length > 1000 drop"),
				faultOf("packets take another router", "other-hops", "tcp", asMissing, detour(sham, true)),
				faultOf("packets take another router, which does not answer", "silent-hops", "tcp", asWarned, detour(sham, false), measurement.FoundSilentHops),
				filtered("packets cross more routers than planned", "other-ttl", "tcp", asMissing, "ip ttl > 40 ip ttl set 40"),
				faultOf("packets come back over more routers than planned", "other-ttl-back", "tcp", asMissing, backTTL, measurement.FoundOtherReturnedTTL),
			},
		},
		{
			design: named(design{name: "gates-datagrams", tests: []test{
				{"udp", "kind: udp, rate: 20Mbit, duration: 300ms, max_warmup: 20ms"},
				{"rr", "kind: rr, protocol: udp, duration: 300ms, max_warmup: 20ms"},
				{"ping", "kind: ping, count: 20, interval: 5ms"},
				{"crr", "kind: crr, duration: 200ms, max_warmup: 20ms"},
				{"search", "kind: udp, rate: 20Mbit, loss_bound: 1%, duration: 100ms, max_warmup: 20ms"},
				{"mtu", "kind: mtu"},
				{"impatient", "kind: rr, protocol: udp, duration: 300ms, max_warmup: 10ms, timeout: 50ms"},
			}}, "loses-all", "loses-later", "loses-most", "refuses", "refuses-few", "twice"),
			faults: []fault{
				filtered("all packets are lost", "loses-all", "udp", asBroken, "udp dport 5201 drop"),
				filtered("no request is answered", "loses-all", "rr", asBroken, "udp dport 5201 drop"),
				filtered("no echo comes back", "loses-all", "ping", asBroken, "icmp type echo-reply drop"),
				filtered("three connections in four are refused", "refuses", "crr", asBroken, perConnection, "ct mark > 0 reject with tcp reset"),
				filtered("no rate keeps to the bound of loss", "refuses", "search", asBroken, "udp dport 5201 numgen random mod 5 0 drop"),
				faultOf("all packets are lost after 20 kB", "loses-later", "udp", asBroken, rules("udp dport 5201 quota over 20000 bytes drop"), measurement.FoundAllLost),
				faultOf("50 packets a second are left", "loses-most", "udp", asBroken, rules("udp dport 5201 limit rate over 50/second burst 5 packets drop"), measurement.FoundFewPackets),
				// Of 300 ms none may be left, which the test itself says.
				faultOf("4 requests a second are left", "loses-most", "impatient", asBroken, rules("udp dport 5201 limit rate over 4/second burst 5 packets drop"), measurement.FoundFewAnswers, measurement.FoundTestFailed),
				faultOf("one connection in twenty is refused", "refuses-few", "crr", asWarned, rules("tcp flags & (syn | ack) == syn numgen inc mod 20 19 reject with tcp reset"), measurement.FoundFailedConnections),
				{label: "every packet comes twice", path: "twice", test: "udp", want: asMeasured, plant: twice, shows: showsTwice},
				filtered("no packet is small enough", "loses-all", "mtu", asBroken, "udp dport 5201 drop", "icmp type echo-reply drop"),
			},
		},
		{
			design: with(design{name: "gates-host", tests: []test{
				{"tcp", "kind: tcp, duration: 300ms, max_warmup: 50ms"},
				{"small-buffer", "kind: udp, rate: 200Mbit, gso: on, gro: off, duration: 200ms, max_warmup: 20ms, receive_buffer: 4kB"},
			}}, "{type: router, name: hop}", "burns", "watched"),
			faults: []fault{
				faultOf("every CPU is busy with something else", "burns", "tcp", asWarned, burn, measurement.FoundBusyCPUs, measurement.FoundBusyCPU),
				faultOf("another run measures meanwhile", "watched", "tcp", asWarned, another, measurement.FoundOtherRun),
				faultOf("the receiver's socket has no room", "burns", "small-buffer", asWarned, nil, measurement.FoundDrops),
			},
		},
		{
			design: named(design{name: "gates-pairs", pairs: 3, tests: []test{{"tcp", ofPairs}}}, "one-unreached"),
			faults: []fault{faultOf("one of three hosts is not reached", "one-unreached", "tcp", asBroken, unreached(1))},
		},
		{
			design: with(design{name: "gates-deaths", tests: []test{{"rr", "kind: rr, duration: 800ms, max_warmup: 20ms"}}}, "{type: router, name: hop, rate: 50Mbit}", "mortal"),
			faults: []fault{faultOf("the process of a hop dies", "mortal", "rr", asBroken, death("^hopbench-lab-link .*mortal/hop"), measurement.FoundHopDied)},
			most:   3, // a run builds its lab again so often
		},
		{
			design: with(design{name: "gates-ends", tests: []test{{"rr", "kind: rr, duration: 800ms, max_warmup: 20ms"}}}, "{type: router, name: hop, rate: 50Mbit}", "abandoned"),
			faults: []fault{faultOf("the process at the destination dies", "abandoned", "rr", asMissing, death("^hopbench:server "), measurement.FoundBedBroke)},
			most:   3,
		},
		{
			design: named(design{name: "gates-lies", tests: []test{
				{"tcp", "kind: tcp, duration: 300ms, max_warmup: 50ms"},
				{"rr", "kind: rr, duration: 300ms, max_warmup: 20ms"},
			}}, "more-than-sent", "fewer-flows", "no-series", "short-series", "impossible-times"),
			faults: []fault{
				faultOf("an agent says that more came than was sent", "more-than-sent", "tcp", asMissing, lie(0, moreThanSent), measurement.FoundMoreThanSent),
				faultOf("an agent brings no flow", "fewer-flows", "tcp", asMissing, lie(0, noFlows), measurement.FoundFlowsMissing),
				faultOf("an agent brings no count over time", "no-series", "tcp", asMissing, lie(0, noSeries), measurement.FoundNoSeries),
				faultOf("an agent brings half of the count over time", "short-series", "tcp", asMissing, lie(0, halfSeries), measurement.FoundCutShort),
				faultOf("an agent brings round trips that cannot be", "impossible-times", "rr", asMissing, lie(0, impossibleTimes), measurement.FoundImpossibleTimes),
			},
		},
		{
			design: named(design{name: "gates-late", pairs: 3, tests: []test{{"tcp", ofPairs}}}, "late", "pair-without-series", "pair-without-rtt"),
			faults: []fault{
				faultOf("the start reaches one of three hosts 200 ms late", "late", "tcp", asMissing, tamper(1, tampering{late: 200 * time.Millisecond}), measurement.FoundCutShort),
				faultOf("one of three agents brings no count over time", "pair-without-series", "tcp", asMissing, lie(1, noSeries), measurement.FoundPairsCutShort),
				faultOf("one of three agents brings no round-trip times", "pair-without-rtt", "tcp", asWarned, lie(1, noRoundTrips), measurement.FoundPairsWithoutRTT),
			},
		},
	}
}
