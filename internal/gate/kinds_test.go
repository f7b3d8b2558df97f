package gate_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/hopbench/hopbench/internal/gate"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/testbed"
	"github.com/hopbench/hopbench/internal/words"
)

func testKinds(t *testing.T) (found []measurement.Finding) {
	spec := func(s measurement.Spec) measurement.Spec { s.Duration = 1; return s.Defaults() }
	udp, pps := spec(measurement.Spec{Kind: measurement.UDP}), spec(measurement.Spec{Kind: measurement.PPS})
	search := spec(measurement.Spec{Kind: measurement.UDP, LossBound: 0.01})
	crr, load := spec(measurement.Spec{Kind: measurement.CRR}), spec(measurement.Spec{Kind: measurement.Load, Flows: 2})
	both := spec(measurement.Spec{Kind: measurement.TCP, Flows: 2, Direction: measurement.Both})
	loadBoth := spec(measurement.Spec{Kind: measurement.Load, Flows: 2, Direction: measurement.Both})
	many := spec(measurement.Spec{Kind: measurement.TCP, Flows: 5000})
	peer := spec(measurement.Spec{Kind: measurement.TCP, Flows: 2, Tool: measurement.IPerf3})
	peerUDP := spec(measurement.Spec{Kind: measurement.UDP, Tool: measurement.IPerf3})
	mtu := measurement.Spec{Kind: measurement.MTU}.Defaults()
	spinning := spec(measurement.Spec{Kind: measurement.RR, Spin: true})
	ftp, tcp := spec(measurement.Spec{Kind: measurement.FTP, Flows: 1}), spec(measurement.Spec{Kind: measurement.TCP, Flows: 1})
	paced, fastPaced := spec(measurement.Spec{Kind: measurement.TCP, PacingBitsPerSecond: 400e3}), spec(measurement.Spec{Kind: measurement.TCP, PacingBitsPerSecond: 600e3})
	mayLack := spec(measurement.Spec{Kind: measurement.TCP, Flows: 1, MissingPairs: 1})
	two := gate.Limits{Pairs: 2}
	pairs := func(change func(*measurement.Pair)) func(*measurement.Outcome) {
		return func(o *measurement.Outcome) {
			o.Flows = append(o.Flows, o.Flows...)
			good := measurement.Pair{Source: "c1", Destination: "s1", Metrics: o.Metrics, Throughput: goodBins(), RTT: []measurement.PairRTT{{}}}
			o.Pairs = []measurement.Pair{good, good}
			o.Pairs[1].Source = "c2"
			change(&o.Pairs[1])
			if o.Pairs[1].Error != "" {
				o.Flows = o.Flows[:len(o.Flows)/2] // it brought none
			}
		}
	}
	metric := func(name string, v float64) func(*measurement.Outcome) {
		return func(o *measurement.Outcome) { o.Metrics[name] = v }
	}
	starve := func(o *measurement.Outcome) {
		for i := range o.Flows {
			o.Flows[i].ReceivedBytes = 100
		}
	}
	slowUDP := func(o *measurement.Outcome) {
		o.Metrics = measurement.Metrics{"sent_bits_per_second": 3e6, "loss_fraction": 0.98, "goodput_bits_per_second": 6 * 10e3, "received_packets_per_second": 6}
	}
	drops := func(n float64) func(*measurement.Outcome) {
		return func(o *measurement.Outcome) {
			o.Destination.Drops = []measurement.Drop{{Place: "UDP receive buffer", Packets: n}}
		}
	}
	// A buffer that is full drops what the kernel had joined: up to 64 packets in one.
	joined := func(n float64) func(*measurement.Outcome) {
		return func(o *measurement.Outcome) {
			o.Effective = map[string]string{"gro": "on", "packet_bytes": "1000..1400"}
			drops(n)(o)
		}
	}
	for _, test := range []struct {
		name        string
		spec        measurement.Spec
		change      func(*measurement.Outcome)
		limits      gate.Limits
		fatal, warn string
		says        string // within some sentence
	}{
		{name: "udp", spec: udp},
		{name: "udp without a packet", spec: udp, change: metric("goodput_bits_per_second", 0), fatal: "receiver-confirmed!"},
		{name: "udp, all lost", spec: udp, change: func(o *measurement.Outcome) {
			o.Metrics = measurement.Metrics{"goodput_bits_per_second": 0, "loss_fraction": 1}
		}, fatal: "loss!"},
		{name: "udp with few packets", spec: udp, change: metric("received_packets_per_second", 99), fatal: "enough-packets!", says: "only 99 of 110 packets"},
		{name: "udp with few packets, and nothing is compared", spec: udp, change: metric("received_packets_per_second", 99), limits: gate.Limits{FewWarn: true}, warn: "enough-packets"},
		{name: "udp over a slow hop", spec: udp, change: slowUDP, limits: gate.Limits{Limits: testbed.Limits{PathBitsPerSecond: 64e3}}, warn: "enough-packets", says: "only 6 of 300 packets"},
		{name: "udp over a slow hop that lost more", spec: udp, change: slowUDP, limits: gate.Limits{Limits: testbed.Limits{PathBitsPerSecond: 128e3}}, fatal: "enough-packets!"},
		{name: "udp over a hop that is slow the other way", spec: udp, change: slowUDP, limits: gate.Limits{Limits: testbed.Limits{ReturnBitsPerSecond: 64e3}}, fatal: "enough-packets!"},
		{name: "udp in reverse over a hop that is slow that way", spec: spec(measurement.Spec{Kind: measurement.UDP, Direction: measurement.Receive}), change: slowUDP, limits: gate.Limits{Limits: testbed.Limits{ReturnBitsPerSecond: 64e3}}, warn: "enough-packets"},
		{name: "udp with few packets sent", spec: udp, change: metric("received_packets_per_second", 80), warn: "enough-packets"},
		{name: "udp, packets enough that a queue held up", spec: udp, change: func(o *measurement.Outcome) {
			o.Metrics = measurement.Metrics{"sent_bits_per_second": 200 * 8000, "loss_fraction": 0.1, "goodput_bits_per_second": 95 * 8000, "received_packets_per_second": 95}
		}},
		{name: "udp cut short", spec: udp, change: func(o *measurement.Outcome) { o.Throughput.Bytes = o.Throughput.Bytes[:80] }, fatal: "duration"},
		{name: "udp faster than the cap", spec: udp, limits: gate.Limits{Limits: testbed.Limits{SourceEgressBitsPerSecond: 50e6}}, warn: "possible"},
		{name: "udp faster than the cap with its headers alone", spec: udp, limits: gate.Limits{Limits: testbed.Limits{SourceEgressBitsPerSecond: 80e6}}, warn: "possible"},
		{name: "udp within the cap", spec: udp, limits: gate.Limits{Limits: testbed.Limits{SourceEgressBitsPerSecond: 83e6, PathBitsPerSecond: 83e6}}},
		{name: "udp, a flow is missing", spec: spec(measurement.Spec{Kind: measurement.UDP, Flows: 2}),
			change: func(o *measurement.Outcome) { o.Flows = make([]measurement.Flow, 1) }, fatal: "flows"},
		{name: "tcp, the receiver's host lost packets", spec: tcp, change: func(o *measurement.Outcome) {
			o.Flows[0].Final = &measurement.TCPInfo{Retransmits: 100}
			drops(40)(o)
		}, warn: "local-drops", says: "about 100 were lost"},
		{name: "tcp, a few local drops among many losses", spec: tcp, change: func(o *measurement.Outcome) {
			o.Flows[0].Final = &measurement.TCPInfo{Retransmits: 1000}
			drops(40)(o)
		}},
		// 10 000 packets received and a tenth lost are 1111 lost.
		{name: "udp, the receiver's buffer lost packets", spec: udp, change: drops(900), warn: "local-drops", says: "destination's UDP receive buffer 900"},
		{name: "udp, a few local drops among many losses", spec: udp, change: drops(100)},
		{name: "udp, the receiver's buffer lost joined packets", spec: udp, change: joined(18), warn: "local-drops", says: "destination's UDP receive buffer 18; each may be of up to 64 that were joined"},
		{name: "udp, a few joined local drops among many losses", spec: udp, change: joined(8)},
		{name: "udp, drops of a place unknown", spec: udp, change: metric("dropped_packets_count", 1000), warn: "local-drops", says: "1000 packets"},
		{name: "udp, drops without loss", spec: udp, change: func(o *measurement.Outcome) {
			o.Metrics["loss_fraction"] = 0
			drops(50)(o)
		}},
		{name: "udp, all lost in the host", spec: udp, change: func(o *measurement.Outcome) {
			o.Metrics = measurement.Metrics{"loss_fraction": 1}
			drops(50)(o)
		}, fatal: "loss!", warn: "local-drops"},
		{name: "udp, all lost in the host, joined", spec: udp, change: func(o *measurement.Outcome) {
			o.Metrics = measurement.Metrics{"loss_fraction": 1}
			joined(50)(o)
		}, fatal: "loss!", warn: "local-drops"},
		{name: "udp, two ends on one host", spec: udp, change: func(o *measurement.Outcome) {
			o.Source.Host = "b"
			o.Source.Drops = []measurement.Drop{{Place: "softnet backlog", Packets: 500}}
			o.Destination.Drops = []measurement.Drop{{Place: "softnet backlog", Packets: 500}, {Place: "UDP receive buffer", Packets: 400}}
		}, warn: "local-drops", says: "dropped 900 packets (both ends' softnet backlog 500, destination's UDP receive buffer 400)"},
		{name: "udp, two ends on one host that read it at other moments", spec: udp, change: func(o *measurement.Outcome) {
			o.Source.Host, o.Source.NetworkID, o.Destination.NetworkID = "b", "1", "2"
			o.Source.Drops = []measurement.Drop{{Place: "softnet backlog", Packets: 490, HostWide: true}, {Place: "UDP receive buffer", Packets: 7}}
			o.Destination.Drops = []measurement.Drop{{Place: "softnet backlog", Packets: 500, HostWide: true}, {Place: "UDP receive buffer", Packets: 400}}
		}, warn: "local-drops", says: "dropped 907 packets (both ends' softnet backlog 500, source's UDP receive buffer 7, destination's UDP receive buffer 400)"},
		{name: "udp search", spec: search, change: func(o *measurement.Outcome) {
			o.Throughput = nil
			o.LossSearch = []measurement.LossStep{{OfferedBitsPerSecond: 2e8, ReceivedBitsPerSecond: 1e8, Loss: 0.5}, {OfferedBitsPerSecond: 1e8, ReceivedBitsPerSecond: 1e8, Loss: 0.01}}
		}},
		{name: "udp search without a find", spec: search, change: func(o *measurement.Outcome) {
			o.LossSearch = []measurement.LossStep{{OfferedBitsPerSecond: 2e8, ReceivedBitsPerSecond: 1e8, Loss: 0.5}}
		}, fatal: "loss-bound!", says: "none of 1 rate lost at most 1.00 %"},
		{name: "udp search whose last rate failed", spec: search, change: func(o *measurement.Outcome) {
			o.Metrics = measurement.Metrics{"loss_fraction": 0.02}
			o.LossSearch = []measurement.LossStep{{OfferedBitsPerSecond: 1e8, ReceivedBitsPerSecond: 1e8, Loss: 0.01}, {OfferedBitsPerSecond: 1e8, ReceivedBitsPerSecond: 98e6, Loss: 0.02}}
		}, fatal: "loss-bound!"},
		{name: "udp search that a host ended", spec: search, change: func(o *measurement.Outcome) {
			o.LossSearch = []measurement.LossStep{{OfferedBitsPerSecond: 1e8, ReceivedBitsPerSecond: 1e8}}
			drops(5)(o)
		}, warn: "local-drops"},
		{name: "udp search that the path ended", spec: search, change: func(o *measurement.Outcome) {
			o.LossSearch = []measurement.LossStep{{OfferedBitsPerSecond: 3e8, Loss: 0.9, Packets: 100}, {OfferedBitsPerSecond: 2e8, Loss: 0.5, Packets: 1000}, {OfferedBitsPerSecond: 1e8, ReceivedBitsPerSecond: 1e8}}
			drops(49)(o)
		}},
		{name: "udp search that a host ended among others", spec: search, change: func(o *measurement.Outcome) {
			o.LossSearch = []measurement.LossStep{{OfferedBitsPerSecond: 2e8, Loss: 0.5, Packets: 1000}, {OfferedBitsPerSecond: 1e8, ReceivedBitsPerSecond: 1e8}}
			drops(50)(o)
		}, warn: "local-drops", says: "may have ended it"},
		{name: "udp search that a host ended by joined packets", spec: search, change: func(o *measurement.Outcome) {
			o.LossSearch = []measurement.LossStep{{OfferedBitsPerSecond: 2e8, Loss: 0.5, Packets: 1000}, {OfferedBitsPerSecond: 1e8, ReceivedBitsPerSecond: 1e8}}
			joined(8)(o)
		}, warn: "local-drops", says: "may have ended it"},
		{name: "ping that asks seldom", spec: measurement.Spec{Kind: measurement.Ping, Count: 5}, change: func(o *measurement.Outcome) {
			o.Latency = &measurement.Distribution{Samples: 5, Min: 1, Max: 2}
		}, fatal: "enough-samples", says: "5 answers"},
		{name: "ping, many unanswered", spec: measurement.Spec{Kind: measurement.Ping, Count: 10}, change: func(o *measurement.Outcome) {
			o.Latency = &measurement.Distribution{Samples: 6, Unanswered: 4, Min: 1, Max: 2}
		}, fatal: "enough-samples!"},
		{name: "rr that asks seldom", spec: spec(measurement.Spec{Kind: measurement.RR, RequestsPerSecond: 5}), change: func(o *measurement.Outcome) {
			o.Metrics["transactions_per_second"] = 5
			o.Latency = &measurement.Distribution{Samples: 5, Min: 1, Max: 2}
		}, fatal: "enough-samples"},
		{name: "rr on a slow path", spec: spec(measurement.Spec{Kind: measurement.RR}), change: func(o *measurement.Outcome) {
			o.Metrics["transactions_per_second"] = 5
			o.Latency = &measurement.Distribution{Samples: 5, Min: 1, Max: 2}
		}, fatal: "enough-samples!"},
		{name: "rr whose requests are mostly lost", spec: measurement.Spec{Kind: measurement.RR}, change: func(o *measurement.Outcome) {
			o.Metrics["loss_fraction"] = 0.6
			o.Latency = &measurement.Distribution{Samples: 40, Unanswered: 60, Min: 1, Max: 2}
		}, fatal: "answered!", says: "60 of 100 requests had no answer"},
		{name: "load, mostly lost when idle", spec: load, change: func(o *measurement.Outcome) {
			o.IdleLatency = &measurement.Distribution{Samples: 40, Unanswered: 60, Min: 1, Max: 2}
		}, fatal: "answered", says: "without load: 60 of 100"},
		{name: "rr that loses some", spec: measurement.Spec{Kind: measurement.RR}, change: func(o *measurement.Outcome) {
			o.Latency = &measurement.Distribution{Samples: 60, Unanswered: 40, Min: 1, Max: 2}
		}},
		{name: "pps", spec: pps},
		{name: "pps without a packet", spec: pps, change: metric("packets_per_second", 0), fatal: "receiver-confirmed!"},
		{name: "pps faster than the way", spec: pps, limits: gate.Limits{Limits: testbed.Limits{PathBitsPerSecond: 60e6}}, warn: "possible"},
		{name: "udp by iperf3 without packets or series", spec: peerUDP, change: func(o *measurement.Outcome) {
			delete(o.Metrics, "received_packets_per_second")
			o.Throughput = nil
		}},

		{name: "crr", spec: crr},
		{name: "crr, a few fail", spec: crr, change: metric("failed_connections_count", 20), warn: "connections", says: "20 of 1020"},
		{name: "crr, very few fail", spec: crr, change: metric("failed_connections_count", 5)},
		{name: "crr, most fail", spec: crr, change: metric("failed_connections_count", 1100), fatal: "connections!"},
		{name: "crr, most fail and each is a sample", spec: crr, change: func(o *measurement.Outcome) {
			o.Metrics["failed_connections_count"] = 1100
			o.Latency = &measurement.Distribution{Samples: 1000, Unanswered: 1100, Min: 1, Max: 2}
		}, fatal: "connections!"},
		{name: "crr, all fail", spec: crr, change: func(o *measurement.Outcome) {
			o.Metrics["failed_connections_count"] = 100
			o.Latency = nil
		}, fatal: "connections! receiver-confirmed!"},
		{name: "crr, few connections", spec: crr, change: func(o *measurement.Outcome) { o.Latency = &measurement.Distribution{Samples: 3, Min: 1, Max: 1} }, fatal: "enough-samples!"},

		{name: "load", spec: load},
		{name: "load without load", spec: load, change: metric("load_bits_per_second", 0), fatal: "receiver-confirmed!"},
		{name: "load, few answers when idle", spec: load, change: func(o *measurement.Outcome) {
			o.IdleLatency = &measurement.Distribution{Samples: 3, Min: 1, Max: 1}
		}, fatal: "enough-samples!", says: "without load: 3 answers"},
		{name: "load, no answers under it", spec: load, change: func(o *measurement.Outcome) { o.Latency = nil }, fatal: "receiver-confirmed!", says: "under load"},
		{name: "load, a flow is missing", spec: load, change: func(o *measurement.Outcome) { o.Flows = o.Flows[:1] }, fatal: "flows"},
		{name: "load faster than the cap", spec: load, limits: gate.Limits{Limits: testbed.Limits{SourceEgressBitsPerSecond: 100e6}}, warn: "possible"},

		{name: "load, time ran backwards under it", spec: load, change: func(o *measurement.Outcome) {
			o.Latency = &measurement.Distribution{Samples: 100, Min: 2, Max: 1}
		}, fatal: "clock", says: "under load: a smallest round trip of 2 s"},

		{name: "two pairs", spec: tcp, limits: two, change: pairs(func(*measurement.Pair) {})},
		{name: "a pair was reset", spec: tcp, limits: two, change: pairs(func(p *measurement.Pair) { p.Error, p.Failure = "reset", "vanished" }), fatal: "pairs!"},
		{name: "a pair failed", spec: tcp, limits: two, change: pairs(func(p *measurement.Pair) { p.Error = "reset" }), fatal: "pairs", says: "1 of 2 pairs returned a result; c2 to s1: reset"},
		{name: "a pair failed, as one may", spec: mayLack, limits: two, change: pairs(func(p *measurement.Pair) { p.Error = "reset" }), warn: "pairs", says: "at least 1 must"},
		{name: "a pair was reset, as one may be missing", spec: mayLack, limits: two, change: pairs(func(p *measurement.Pair) { p.Error, p.Failure = "reset", "vanished" }), fatal: "pairs!"},
		{name: "a pair carried nothing", spec: tcp, limits: two, change: pairs(func(p *measurement.Pair) { p.Metrics = nil }), fatal: "pairs!", says: "nothing was confirmed in the measured time for c2 to s1"},
		{name: "a pair carried nothing on full CPUs", spec: tcp, limits: gate.Limits{Pairs: 2, BusyWarns: true}, change: func(o *measurement.Outcome) {
			o.Source.CPUBusy = 1
			pairs(func(p *measurement.Pair) { p.Metrics = nil })(o)
		}, fatal: "pairs", warn: "cpu"},
		{name: "a pair carried nothing of what was sent again, while all CPUs were full", spec: tcp, limits: gate.Limits{Pairs: 2, BusyWarns: true}, change: func(o *measurement.Outcome) {
			pairs(func(p *measurement.Pair) { p.Metrics = nil })(o)
			o.Source.CPUBusy = 1
			o.Flows[1] = measurement.Flow{Final: &measurement.TCPInfo{RetransmissionTimers: 2}}
		}, fatal: "pairs! enough-flow!", warn: "cpu"},
		{name: "a pair lost all packets", spec: udp, limits: two, change: pairs(func(p *measurement.Pair) { p.Metrics = measurement.Metrics{"loss_fraction": 1} }), fatal: "pairs!", says: "nothing was confirmed in the measured time for c2 to s1"},
		{name: "a pair lost many packets", spec: udp, limits: two, change: pairs(func(p *measurement.Pair) { p.Metrics = measurement.Metrics{"loss_fraction": 0.9} })},
		{name: "a pair was cut short", spec: tcp, limits: two, change: pairs(func(p *measurement.Pair) { p.Throughput = nil }), fatal: "pairs", says: "too short for c2 to s1"},
		{name: "a pair without round-trip times", spec: tcp, limits: two, change: pairs(func(p *measurement.Pair) { p.RTT = nil }), warn: "pairs", says: "sample for c2 to s1"},
		{name: "too much of two pairs", spec: tcp, limits: gate.Limits{Pairs: 2, Limits: testbed.Limits{SourceEgressBitsPerSecond: 10e6}}, change: pairs(func(*measurement.Pair) {}), warn: "possible", says: "cap, times the pairs, of 2e+07 bit/s"},

		{name: "without a series", spec: tcp, change: func(o *measurement.Outcome) { o.Throughput = nil }, fatal: "duration"},
		{name: "ftp", spec: ftp, change: metric("transfer_seconds", 1)},
		{name: "ftp of a file below what a flow must carry", spec: ftp, change: func(o *measurement.Outcome) {
			o.Metrics["transfer_seconds"], o.Flows[0].ReceivedBytes = 1, 10_000
		}},
		{name: "ftp of a small file", spec: ftp, change: metric("transfer_seconds", 0.1), warn: "short", says: "took only 0.1 s"},
		{name: "of no kind", spec: measurement.Spec{Kind: "none"}, fatal: "test"},

		{name: "mtu", spec: mtu},

		{name: "both ways", spec: both, limits: gate.Limits{Limits: testbed.Limits{SourceEgressBitsPerSecond: 170e6, DestinationEgressBitsPerSecond: 170e6, PathBitsPerSecond: 170e6}}},
		{name: "both ways with the flows of one", spec: both, change: func(o *measurement.Outcome) { o.Flows = o.Flows[:2] }, fatal: "flows"},
		{name: "too much there", spec: both, limits: gate.Limits{Limits: testbed.Limits{SourceEgressBitsPerSecond: 150e6}}, warn: "possible", says: "source's egress"},
		{name: "too much back", spec: both, limits: gate.Limits{Limits: testbed.Limits{DestinationEgressBitsPerSecond: 150e6}}, warn: "possible", says: "destination's egress"},
		{name: "too much there by its metric", spec: both, limits: gate.Limits{Limits: testbed.Limits{SourceEgressBitsPerSecond: 200e6}}, warn: "possible",
			change: func(o *measurement.Outcome) {
				o.Metrics["forward_goodput_bits_per_second"], o.Metrics["reverse_goodput_bits_per_second"] = 300e6, 20e6
			}},
		{name: "load both ways", spec: loadBoth, limits: gate.Limits{Limits: testbed.Limits{SourceEgressBitsPerSecond: 170e6, DestinationEgressBitsPerSecond: 170e6}}},
		{name: "load, too much back", spec: loadBoth, limits: gate.Limits{Limits: testbed.Limits{DestinationEgressBitsPerSecond: 150e6}}, warn: "possible"},

		{name: "a flow that was to carry little", spec: paced, change: func(o *measurement.Outcome) { o.Flows[0].ReceivedBytes = 48_000 }, fatal: "enough-flow", says: "48000 bytes"},
		{name: "a flow that an end paces to little", spec: tcp, change: func(o *measurement.Outcome) {
			o.Flows[0].ReceivedBytes, o.Effective = 48_000, map[string]string{"pacing_bits_per_second": "400000"}
		}, fatal: "enough-flow", says: "48000 bytes"},
		{name: "a flow that starves below its pace", spec: fastPaced, change: func(o *measurement.Outcome) { o.Flows[0].ReceivedBytes = 48_000 }, fatal: "enough-flow!"},
		{name: "thousands of flows, some of which starve", spec: many, change: func(o *measurement.Outcome) { o.Flows[7].ReceivedBytes = 0 }},
		{name: "thousands of flows that all starve", spec: many, fatal: "enough-flow!", change: starve},
		{name: "thousands of flows that all starve, and nothing is compared", spec: many, limits: gate.Limits{FewWarn: true}, warn: "enough-flow", change: starve},

		{name: "iperf3 without a series", spec: peer, change: func(o *measurement.Outcome) { o.Throughput = nil }},
		{name: "iperf3 without a series, cut short", spec: peer, change: func(o *measurement.Outcome) {
			o.Throughput = nil
			o.Metrics["goodput_bits_per_second"] = 400e6 // 20 MB at this rate are 0.4 s
		}, fatal: "duration"},
		{name: "iperf3 without a series, its server busy", spec: peer, change: func(o *measurement.Outcome) {
			o.Throughput = nil
			o.Metrics["goodput_bits_per_second"] = 180e6 // 20 MB at this rate are 0.89 s
		}},
		{name: "iperf3 with a series, cut short", spec: peer, change: func(o *measurement.Outcome) { o.Throughput.Bytes = o.Throughput.Bytes[:50] }, fatal: "duration"},

		{name: "one processor of many is full", spec: load, change: func(o *measurement.Outcome) { o.Source.CPUBusy, o.Source.BusiestCPU = 0.3, 0.99 }, warn: "cpu", says: "one of the source's"},
		{name: "one processor, two ends on one host", spec: udp, change: func(o *measurement.Outcome) {
			o.Source.Host, o.Source.BusiestCPU, o.Destination.BusiestCPU = "b", 0.99, 0.99
		}, warn: "cpu", says: "one of the host's"},
		{name: "a hypervisor takes CPU time", spec: load, change: func(o *measurement.Outcome) { o.Source.Steal = 0.12 }, warn: "cpu", says: "took 12 % of the CPU time of the source"},
		{name: "the destination stood still", spec: tcp, change: func(o *measurement.Outcome) { o.Destination.Standstill = 0.2 }, fatal: "standstill", says: "the destination did not run in 20 % of the measured time"},
		{name: "one process of a host stood still", spec: tcp, change: func(o *measurement.Outcome) { o.Source.Host, o.Source.Standstill = "b", 0.05 }, fatal: "standstill", says: "the source did not run in 5 %"},
		{name: "the destination stood still for a moment", spec: tcp, change: func(o *measurement.Outcome) { o.Destination.Standstill = 0.04 }},
		{name: "the source stood still, and nothing is compared", spec: tcp, limits: gate.Limits{FewWarn: true}, change: func(o *measurement.Outcome) { o.Source.Standstill = 0.5 }, warn: "standstill"},
		{name: "all processors are full", spec: load, change: func(o *measurement.Outcome) { o.Source.CPUBusy, o.Source.BusiestCPU = 0.99, 1 }, fatal: "cpu", says: "99 % busy"},
		{name: "spinning fills a processor", spec: spinning, change: func(o *measurement.Outcome) {
			o.Latency = &measurement.Distribution{Samples: 100, Min: 1e-5, Max: 1e-4}
			o.Source.BusiestCPU = 1
		}},
		{name: "spinning fills the host", spec: spinning, change: func(o *measurement.Outcome) {
			o.Latency = &measurement.Distribution{Samples: 100, Min: 1e-5, Max: 1e-4}
			o.Source.CPUBusy = 1
		}, warn: "cpu"},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := goodOf(test.spec)
			if test.change != nil {
				test.change(&o)
			}
			gate := gate.Judge(test.spec, o, measurement.Fingerprint{Matches: true}, test.limits, nil)
			fatal, warn := judged(t, gate)
			if fatal != test.fatal || warn != test.warn {
				t.Errorf("failed gates %q and warnings %q, want %q and %q: %+v", fatal, warn, test.fatal, test.warn, gate.Findings)
			}
			if all := words.Findings(gate, false); !strings.Contains(all, test.says) {
				t.Errorf("%q does not say %q", all, test.says)
			}
			found = append(found, gate.Findings...)
		})
	}
	return found
}

// Every kind of test has its gates.
func TestEveryKindIsJudged(t *testing.T) {
	for _, kind := range append(measurement.Kinds(), "none") {
		g := gate.Judge(measurement.Spec{Kind: kind}.Defaults(), measurement.Outcome{}, measurement.Fingerprint{Matches: true}, gate.Limits{}, nil)
		unknown := slices.ContainsFunc(g.Findings, func(f measurement.Finding) bool { return f.Code == measurement.FoundUnknownKind })
		if unknown != (kind == "none") {
			t.Errorf("%s: %+v", kind, g)
		}
	}
}
