package kind

import "github.com/hopbench/hopbench/internal/measurement"

const (
	tcp   = measurement.TCP
	udp   = measurement.UDP
	pps   = measurement.PPS
	rr    = measurement.RR
	crr   = measurement.CRR
	load  = measurement.Load
	ftp   = measurement.FTP
	mtu   = measurement.MTU
	ping  = measurement.Ping
	trace = measurement.Trace
)

// kinds has a row for every kind of test, in the order of [measurement.Kinds].
var kinds = []Kind{
	{
		Name: tcp, Doc: "bulk TCP throughput, as the receiver confirmed it",
		Fills: true, Attributed: true, Implied: true, FlowRTTs: true,
		Figures: []string{
			"goodput_bits_per_second", "forward_goodput_bits_per_second", "reverse_goodput_bits_per_second",
			"retransmitted_segments", "tcp_rtt_mean_seconds",
		},
		BothWays: []string{"forward_goodput_bits_per_second", "reverse_goodput_bits_per_second", "retransmitted_segments", "cpu_seconds_per_byte"},
		Watched:  []string{"goodput_bits_per_second"},
		Gates:    []Gate{{JudgeFlows, "goodput_bits_per_second"}},
	},
	{
		Name: udp, Doc: "UDP throughput, loss, delay and reordering of packets", Title: "UDP",
		Fills: true, Datagrams: true, Implied: true, check: checkPackets,
		Figures: []string{
			"goodput_bits_per_second", "loss_fraction", "reordered_fraction", "jitter_seconds", "one_way_delay_p50_seconds", "sent_bits_per_second",
		},
		Details: []string{
			"loss_fraction", "reordered_fraction", "jitter_seconds", "delay_variation_p99_seconds", "one_way_delay_p50_seconds",
			"cpu_seconds_per_byte", "dropped_packets_count",
		},
		Watched:  []string{"loss_fraction"},
		SharesOf: "received_packets_per_second",
		Gates:    []Gate{{JudgePackets, "received_packets_per_second"}},
	},
	{
		Name: pps, Doc: "rate of small UDP packets, without offloads", Title: "small packets",
		Fills: true, Datagrams: true, check: checkPackets,
		Figures: []string{"packets_per_second", "loss_fraction", "reordered_fraction", "jitter_seconds", "one_way_delay_p50_seconds"},
		Details: []string{
			"loss_fraction", "delay_variation_p99_seconds", "one_way_delay_p50_seconds", "cpu_seconds_per_packet", "dropped_packets_count",
		},
		Watched:  []string{"packets_per_second", "loss_fraction"},
		SharesOf: "packets_per_second",
		Gates:    []Gate{{JudgePackets, "packets_per_second"}},
	},
	{
		Name: rr, Doc: "latency of a request and its response", Title: "latency",
		Implied: true, check: checkExchange,
		Latencies: []Latency{{Label: "RTT", Metrics: "rtt"}},
		Figures:   []string{"rtt_p50_seconds", "rtt_min_seconds", "rtt_mean_seconds", "rtt_max_seconds", "loss_fraction"},
		Watched:   []string{"rtt_p50_seconds", "rtt_p99_seconds", "loss_fraction"},
	},
	{
		Name: crr, Doc: "connect, request, response, close: rate of new connections",
		Title: "connections", Flow: "connection", Several: " at a time",
		tracked:   func(int, int) int { return 1 }, // its failures are the result
		Latencies: []Latency{{Label: "transaction time", Metrics: "transaction"}},
		Figures: []string{
			"connections_per_second", "connect_p50_seconds", "transaction_p50_seconds", "transaction_p99_seconds", "failed_connections_count",
		},
		Details:  []string{"connect_p50_seconds", "connect_p99_seconds", "transaction_p50_seconds", "failed_connections_count"},
		Watched:  []string{"connections_per_second", "connect_p50_seconds"},
		SharesOf: "connections_per_second",
		Gates:    []Gate{{JudgeConnections, "failed_connections_count"}},
	},
	{
		Name: load, Doc: "latency of the idle path, then under the load of TCP flows", Title: "RTT under load",
		Fills: true, Attributed: true, check: checkLoad,
		tracked:   func(flows, each int) int { return flows + 1 + 2*(each+1) }, // requests before the load, and in it
		Latencies: []Latency{{Label: "RTT", Part: "idle", Idle: true, Metrics: "idle_rtt"}, {Label: "RTT", Part: "loaded", Metrics: "loaded_rtt"}},
		Figures: []string{
			"loaded_rtt_p50_seconds", "loaded_rtt_p99_seconds", "idle_rtt_p50_seconds", "responsiveness_per_minute", "load_bits_per_second", "loss_fraction",
		},
		Details: []string{"idle_rtt_p50_seconds", "loaded_rtt_p99_seconds", "rtt_increase_seconds", "responsiveness_per_minute", "load_bits_per_second"},
		Watched: []string{"loaded_rtt_p50_seconds"},
		Gates:   []Gate{{JudgeFlows, "load_bits_per_second"}},
	},
	{
		Name: ftp, Doc: "throughput of one file over FTP, in one or several segments, verified by a digest", Flow: "segment", Attributed: true,
		Implied: true, OneServer: true, check: checkFTP,
		tracked: func(flows, _ int) int { return 2*flows + 1 }, // sessions and their data, and the test's own
		Figures: []string{"goodput_bits_per_second", "file_bytes", "transfer_seconds"},
		Details: []string{"transfer_seconds", "retransmitted_segments", "cpu_seconds_per_byte"},
		Watched: []string{"goodput_bits_per_second"},
		Gates:   []Gate{{JudgeFlows, "goodput_bits_per_second"}, {JudgeTransfer, "transfer_seconds"}}, // the test itself checks the bytes
	},
	{
		Name: mtu, Doc: "the largest packet that the path carries, in each direction", Title: "path MTU",
		Datagrams: true,                                              // and no gate: a search that finds no size fails
		tracked:   func(flows, each int) int { return flows * each }, // it does not probe for the time to live
		Figures:   []string{"path_mtu_bytes", "reverse_path_mtu_bytes"},
		Details:   []string{"reverse_path_mtu_bytes"},
	},
	{
		Name: ping, Doc: "ICMP echo", Title: "ping",
		NoServer: true, Implied: true, check: checkPing,
		Latencies: []Latency{{Label: "RTT", Metrics: "rtt"}},
		Figures:   []string{"rtt_p50_seconds", "rtt_min_seconds", "rtt_mean_seconds", "rtt_max_seconds", "loss_fraction"},
		Watched:   []string{"rtt_p50_seconds", "loss_fraction"},
	},
	{
		Name: trace, Doc: "the hops of the path", Title: "path",
		NoServer: true, Implied: true, // and no gate: the fingerprint says what a trace must show
		Figures: []string{"hops_count"},
	},
}

// The kinds that have options in common, by what they do.
var (
	every     = measurement.Kinds()
	served    = those(func(k Kind) bool { return !k.NoServer })
	streams   = of(tcp, load)
	tuned     = of(tcp, load, ftp) // over TCP, whose window and congestion control the ends decide
	packets   = of(udp, pps)
	timed     = of(tcp, udp, pps, rr, crr, load)
	parallel  = of(tcp, udp, pps, crr, load, ftp)
	directed  = of(tcp, udp, pps, load, ftp)
	sending   = of(tcp, udp, pps, load)
	copying   = of(tcp, udp, load)
	connected = of(tcp, udp, pps, rr, load)    // on connections that last as long as the test
	together  = of(tcp, udp, pps, rr, crr)     // make their connections, and then start at one moment
	asking    = of(rr, crr, load)              // send requests and wait for responses
	clocked   = of(rr, load)                   // can send requests at times of their own
	waiting   = of(rr, load, mtu, ping, trace) // give an answer up after a time
)

func of(kinds ...measurement.Kind) []measurement.Kind { return kinds }

func those(are func(Kind) bool) (names []measurement.Kind) {
	for _, k := range kinds {
		if are(k) {
			names = append(names, k.Name)
		}
	}
	return names
}
