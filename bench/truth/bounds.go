package main

import (
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
)

// boundFaults are those of what is declared of a path, of packets that an end loses itself,
// and of tests that are too small for what they measure.
func boundFaults() []faults {
	tcp := test{"tcp", "kind: tcp, duration: 300ms, max_warmup: 50ms"}
	fast := "{type: router, name: hop}"
	return []faults{
		{
			design: named(design{name: "gates-mtu", tests: []test{tcp}}, "narrower"),
			faults: []fault{faultOf("a link carries smaller packets than are declared", "narrower", "tcp", asMissing, narrower, measurement.FoundOtherMTU)},
		},
		{
			design: with(design{name: "gates-tunnel", vxlan: true, tests: []test{tcp}}, fast, "narrower"),
			faults: []fault{faultOf("a tunnel carries smaller packets than planned", "narrower", "tcp", asMissing, atSource("ip link set dev %s mtu 1300"), measurement.FoundOtherTunnelMTU)},
		},
		{
			design: with(design{name: "gates-cap", client: "egress_rate: 50Mbit", tests: []test{{"tcp", "kind: tcp, duration: 500ms, max_warmup: 200ms"}}}, fast, "uncapped"),
			faults: []fault{faultOf("the source sends faster than its cap", "uncapped", "tcp", asWarned, atSource("tc qdisc replace dev %s root pfifo"), measurement.FoundAboveLimit)},
		},
		{
			design: with(design{name: "gates-many", tests: []test{{"tcp", "kind: tcp, flows: 80, duration: 500ms, max_warmup: 100ms"}}}, fast, "starves"),
			faults: []fault{faultOf("80 flows share 16 Mbit/s", "starves", "tcp", asBroken, rules(slowedTo(2_000_000)), measurement.FoundShortFlows)},
		},
		{
			design: with(design{name: "gates-drops", tests: []test{
				{"search", "kind: udp, rate: 40Mbit, loss_bound: 1%, gso: off, duration: 200ms, max_warmup: 20ms"},
				{"udp", "kind: udp, rate: 40Mbit, duration: 300ms, max_warmup: 20ms"},
			}}, fast, "overflows"),
			faults: []fault{
				faultOf("the source's own queue drops packets of a search", "overflows", "search", asWarned, atSource(smallQueue), measurement.FoundDropsOfSearch),
				faultOf("the source's own queue drops packets, and the path all others", "overflows", "udp", asBroken, both(atSource(smallQueue), rules("udp dport 5201 quota over 20000 bytes drop")), measurement.FoundDropsOfAll),
			},
		},
		{
			design: named(design{name: "gates-small", tests: []test{{"ftp", "kind: ftp, file: 1MB"}}}, "short"),
			faults: []fault{faultOf("a file is through in less than 0.5 s", "short", "ftp", asWarned, nil, measurement.FoundShortTransfer)},
		},
		{
			design: named(design{name: "gates-nothing", tests: []test{tcp, {"iperf3", "kind: udp, protocol: iperf3, rate: 20Mbit, duration: 1s, max_warmup: 1s"}}}, "interrupted"),
			faults: []fault{
				// It is over before the sender gives up.
				faultOf("nothing passes in the measured time", "interrupted", "tcp", asBroken, passing(1100*time.Millisecond, rules("quota over 20000 bytes drop")), measurement.FoundNoBytes),
				faultOf("no packet passes in the measured time, which iperf3 counts alone", "interrupted", "iperf3", asBroken, rules("udp dport 5201 quota over 20000 bytes drop"), measurement.FoundNoPackets),
			},
			most: roomFor,
		},
	}
}

// roomFor is how many blocks a run has at most whose faults are told from full CPUs: one that
// other programs disturbed is soon measured again.
const roomFor = 2

// smallQueue has a source drop most of what it sends faster than 10 Mbit/s.
const smallQueue = "tc qdisc replace dev %s root tbf rate 10mbit burst 15kb limit 30kb"

// standstills are processes that are stopped for 200 ms of a test of 1 s: an end's are the
// instrument's fault, a hop's are the path's doing.
func standstills() []faults {
	tests := []test{
		{"tcp", "kind: tcp, duration: 1s, max_warmup: 50ms"},
		{"udp", "kind: udp, rate: 20Mbit, duration: 1s, max_warmup: 20ms"},
		{"rr", "kind: rr, duration: 1s, max_warmup: 20ms"},
	}
	f := faults{design: with(design{name: "gates-standstill", tests: tests}, "{type: router, name: hop, rate: 50Mbit}", "source-stops", "destination-stops", "hop-stops"), most: roomFor}
	for _, t := range tests {
		f.faults = append(f.faults,
			faultOf("the source is stopped for 200 ms of "+t.name, "source-stops", t.name, asMissing, standstill("^hopbench:client "), measurement.FoundStandstill),
			faultOf("the destination is stopped for 200 ms of "+t.name, "destination-stops", t.name, asMissing, standstill("^hopbench:server "), measurement.FoundStandstill))
	}
	f.faults = append(f.faults, fault{
		label: "the process of a hop is stopped for 200 ms of tcp", path: "hop-stops", test: "tcp", want: asMeasured,
		plant: standstill("^hopbench-lab-link .*hop-stops/hop"), shows: showsStandstill,
	})
	return []faults{f}
}
