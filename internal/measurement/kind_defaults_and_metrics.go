package measurement

import "slices"

// This file is the vocabulary of what is measured: the kinds of test, and the metrics that
// they bring back. How a kind is shown, judged and checked is in package kind.

// Kind names what a test measures.
type Kind string

// The kinds of test.
const (
	TCP   Kind = "tcp"   // bulk throughput, confirmed by the receiver
	UDP   Kind = "udp"   // datagram throughput, loss, reordering, jitter, confirmed by the receiver
	PPS   Kind = "pps"   // udp with small packets, without offloads: packets per second
	RR    Kind = "rr"    // request/response latency over TCP or UDP
	CRR   Kind = "crr"   // connect, request, response, close: new connections per second
	Load  Kind = "load"  // latency without load and under that of a tcp test
	FTP   Kind = "ftp"   // one file over FTP, in one or several segments
	MTU   Kind = "mtu"   // the largest packet the path carries, in each direction
	Ping  Kind = "ping"  // ICMP echo
	Trace Kind = "trace" // the hops of the path
)

// kindRow is what everything above takes for granted of a kind.
type kindRow struct {
	name Kind
	// primary are the metrics that it is judged by: the one that a report leads with,
	// and those beside it.
	primary []string
	// defaults are the values of zero fields.
	defaults Spec
}

// kinds are in the order in which help texts name them.
var kinds = []kindRow{
	{TCP, []string{"goodput_bits_per_second"}, Spec{Duration: 10, MaxWarmup: 2, Flows: 1, Direction: Send}},
	{UDP, []string{"goodput_bits_per_second", "loss_fraction"}, Spec{Duration: 10, MaxWarmup: 0.2, Flows: 1, Direction: Send}},
	{PPS, []string{"packets_per_second", "loss_fraction"}, Spec{Duration: 10, MaxWarmup: 0.2, Flows: 1, Direction: Send, PacketBytes: 64, GSO: Off, GRO: Off}},
	{RR, []string{"rtt_p50_seconds"}, Spec{Duration: 1, MaxWarmup: 0.1, Protocol: OverTCP, RequestBytes: 1, ResponseBytes: 1, InFlight: 1}},
	{CRR, []string{"connections_per_second"}, Spec{Duration: 1, MaxWarmup: 0.1, Flows: 1, RequestBytes: 1, ResponseBytes: 1}},
	{Load, []string{"loaded_rtt_p50_seconds"}, Spec{
		Duration: 10, MaxWarmup: 2, IdleDuration: 1, Flows: 8, Direction: Send,
		Protocol: OverUDP, RequestBytes: 64, ResponseBytes: 64, RequestsPerSecond: 500,
	}},
	{FTP, []string{"goodput_bits_per_second"}, Spec{Flows: 1, Direction: Receive, FileBytes: 1_000_000_000}},
	{MTU, []string{"path_mtu_bytes"}, Spec{Timeout: 0.2}},
	{Ping, []string{"rtt_p50_seconds"}, Spec{Count: 20, Interval: 1, PayloadBytes: 56, Timeout: 1}},
	{Trace, []string{"hops_count"}, Spec{MaxHops: 30, Timeout: 1, Protocol: OverTCP}},
}

// rowOf is the row of a kind, an empty one for a kind that there is not.
func rowOf(kind Kind) *kindRow {
	for i := range kinds {
		if kinds[i].name == kind {
			return &kinds[i]
		}
	}
	return &kindRow{}
}

// Kinds lists every kind of test.
func Kinds() []Kind {
	var names []Kind
	for i := range kinds {
		names = append(names, kinds[i].name)
	}
	return names
}

// Unit of a metric.
type Unit string

// The units metrics come in.
const (
	BitsPerSecond Unit = "bit/s"
	SecondsUnit   Unit = "s"
	Bytes         Unit = "B"
	Fraction      Unit = "1"
	Count         Unit = "count"
	// SecondsPerByte and SecondsPerPacket are CPU time.
	SecondsPerByte   Unit = "s/B"
	SecondsPerPacket Unit = "s/packet"
)

// Metric describes a quantity that tests bring back.
type Metric struct {
	Name  string // ends in its unit
	Label string // for people
	Doc   string // what it is, in one line
	Unit  Unit
	// HigherIsBetter is what turns a difference into a cost or a gain.
	HigherIsBetter bool
	// ScalesWithRate is true for what a scaled-down experiment scales down:
	// multiplied by the scale it is comparable with the published figure.
	ScalesWithRate bool
	// Compared metrics get a row among the costs; others are only shown.
	Compared bool
	// Margin is the smallest effect on a compared metric that matters where the
	// user says nothing, InLab that in a lab where it is another one. A Fraction
	// says that the metric is judged by its ratio to the reference, an Amount
	// that it is judged by its difference: a delay adds, a rate is shared.
	Margin, InLab Margin
	// Kinds are those whose tests bring it back.
	Kinds []Kind
	// BoundedBy names the metric that is the bound of this one's error, either way, where
	// what is wrong may be alike in all trials.
	BoundedBy string
	// Pairs is how the values of several pairs that did a test at the same time
	// become one.
	Pairs Combination
}

// Combination is how values become one.
type Combination int

// The combinations.
const (
	ByUnit   Combination = iota // the sum of rates and counts, the mean of all others
	Mean                        // although it is a count
	Least                       // the smallest
	Greatest                    // the largest
)

// Catalogue lists every metric, in the order reports show them.
func Catalogue() []Metric { return slices.Clone(catalogue) }

// catalogue is made once: each name that is looked up goes through it.
var catalogue = metrics()

func metrics() []Metric {
	// The default margins: between hosts a hop adds tens of microseconds, in a
	// lab one or two.
	rate, share := Margin{Fraction: 0.05}, Margin{Amount: 0.001}
	delay, labDelay := Margin{Amount: 100e-6}, Margin{Amount: 5e-6}
	return []Metric{
		{Name: "goodput_bits_per_second", Doc: "payload that the receiver confirmed, both directions together; udp: the received part of what was sent in the measured time", Label: "goodput", Unit: BitsPerSecond, HigherIsBetter: true, ScalesWithRate: true, Compared: true, Margin: rate, Kinds: []Kind{TCP, UDP, FTP}},
		{Name: "packets_per_second", Doc: "packets that arrived of those sent in the measured time", Label: "packets/s", Unit: Count, HigherIsBetter: true, ScalesWithRate: true, Compared: true, Margin: rate, Kinds: []Kind{PPS}},
		{Name: "connections_per_second", Doc: "connections made, used for one exchange and closed", Label: "connections/s", Unit: Count, HigherIsBetter: true, Compared: true, Margin: rate, Kinds: []Kind{CRR}},
		{Name: "loaded_rtt_p50_seconds", Doc: "median round trip while the flows fill the path; requests as for `rtt_p50_seconds`", Label: "loaded RTT p50", Unit: SecondsUnit, Compared: true, Margin: delay, InLab: labDelay, Kinds: []Kind{Load}},
		{Name: "path_mtu_bytes", Doc: "largest IP packet from the source to the destination", Label: "path MTU", Unit: Bytes, HigherIsBetter: true, Kinds: []Kind{MTU}, Pairs: Least},
		{Name: "reverse_path_mtu_bytes", Doc: "largest IP packet from the destination to the source", Label: "reverse path MTU", Unit: Bytes, HigherIsBetter: true, Kinds: []Kind{MTU}, Pairs: Least},

		{Name: "forward_goodput_bits_per_second", Doc: "with direction `both`: from the source", Label: "forward goodput", Unit: BitsPerSecond, HigherIsBetter: true, ScalesWithRate: true, Kinds: []Kind{TCP}},
		{Name: "reverse_goodput_bits_per_second", Doc: "with direction `both`: to the source", Label: "reverse goodput", Unit: BitsPerSecond, HigherIsBetter: true, ScalesWithRate: true, Kinds: []Kind{TCP}},
		{Name: "retransmitted_segments", Doc: "retransmitted segments of all flows", Label: "retransmits", Unit: Count, Kinds: []Kind{TCP, FTP}},
		{Name: "tcp_rtt_mean_seconds", Doc: "mean round trip of the sender's TCP under load", Label: "TCP RTT under load", Unit: SecondsUnit, Kinds: []Kind{TCP, FTP}},
		{Name: "congestion_window_bytes", Doc: "mean congestion window of a flow", Label: "cwnd", Unit: Bytes, Kinds: []Kind{TCP, FTP}},
		{Name: "receive_window_limited_fraction", Doc: "share of the measured time in which the receive window limited the sender", Label: "receive-window limited", Unit: Fraction, Kinds: []Kind{TCP, FTP}},
		{Name: "send_buffer_limited_fraction", Doc: "share of the measured time in which the send buffer limited the sender", Label: "send-buffer limited", Unit: Fraction, Kinds: []Kind{TCP, FTP}},
		{Name: "tcp_efficiency_fraction", Doc: "RFC 6349: bytes sent that were not retransmissions, of all bytes sent", Label: "TCP efficiency", Unit: Fraction, HigherIsBetter: true, Kinds: []Kind{TCP, FTP}},
		{Name: "buffer_delay_fraction", Doc: "RFC 6349: increase of the mean round trip under load over the smallest, relative to the smallest", Label: "buffer delay over the smallest RTT", Unit: Fraction, Kinds: []Kind{TCP, FTP}},

		{Name: "transfer_seconds", Doc: "from the first command of a transfer to the last byte", Label: "transfer time", Unit: SecondsUnit, Kinds: []Kind{FTP}},
		{Name: "file_bytes", Doc: "size of the file", Label: "file", Unit: Bytes, Kinds: []Kind{FTP}},

		{Name: "received_packets_per_second", Doc: "packets that arrived of those sent in the measured time", Label: "packets/s", Unit: Count, HigherIsBetter: true, ScalesWithRate: true, Kinds: []Kind{UDP}},
		{Name: "sent_bits_per_second", Doc: "payload that the sender passed to its kernel; shown, never used", Label: "sent", Unit: BitsPerSecond, ScalesWithRate: true, Kinds: []Kind{UDP, PPS}},

		{Name: "rtt_p50_seconds", Doc: "median round trip of the requests that were due; absent if it falls on one without an answer", Label: "RTT p50", Unit: SecondsUnit, Compared: true, Margin: delay, InLab: labDelay, Kinds: []Kind{RR, Ping}},
		{Name: "rtt_mean_seconds", Doc: "mean round trip of the answered requests", Label: "RTT mean", Unit: SecondsUnit, Kinds: []Kind{RR, Ping}},
		{Name: "rtt_min_seconds", Doc: "shortest round trip of the answered requests", Label: "RTT min", Unit: SecondsUnit, Kinds: []Kind{RR, Ping}, Pairs: Least},
		{Name: "rtt_p99_seconds", Doc: "99th percentile of the round trips of the requests that were due, if there are enough and it falls on one with an answer", Label: "RTT p99", Unit: SecondsUnit, Compared: true, Margin: delay, InLab: labDelay, Kinds: []Kind{RR}},
		{Name: "rtt_max_seconds", Doc: "longest round trip of the answered requests", Label: "RTT max", Unit: SecondsUnit, Kinds: []Kind{RR, Ping}, Pairs: Greatest},
		{Name: "rtt_standard_deviation_seconds", Doc: "the value that ping prints as mdev", Label: "RTT mdev", Unit: SecondsUnit, Kinds: []Kind{RR, Ping}},
		{Name: "path_rtt_p50_seconds", Doc: "median between the kernels' timestamps, without the wake-up of the programs", Label: "RTT p50 without wake-up", Unit: SecondsUnit, Kinds: []Kind{RR}},
		{Name: "wakeup_p50_seconds", Doc: "median of the wake-up time", Label: "wake-up p50", Unit: SecondsUnit, Kinds: []Kind{RR}},

		{Name: "loss_fraction", Doc: "udp, pps: of packets sent in the measured time, those whose sequence number was never seen; others: of requests sent, those without an answer in time", Label: "loss", Unit: Fraction, Compared: true, Margin: share, Kinds: []Kind{UDP, PPS, RR, Ping, Load}},
		{Name: "reordered_fraction", Doc: "RFC 4737: of packets received, those that came after a later one", Label: "reordered", Unit: Fraction, Compared: true, Margin: share, Kinds: []Kind{UDP, PPS}},
		{Name: "duplicated_fraction", Doc: "of packets received, those that had come before", Label: "duplicated", Unit: Fraction, Kinds: []Kind{UDP, PPS}},
		{Name: "jitter_seconds", Doc: "interarrival jitter of RFC 3550", Label: "jitter", Unit: SecondsUnit, Kinds: []Kind{UDP, PPS}},
		{Name: "delay_variation_p99_seconds", Doc: "RFC 5481: packet delay variation against the fastest packet", Label: "delay variation p99", Unit: SecondsUnit, Kinds: []Kind{UDP, PPS}, Pairs: Greatest},
		{Name: "one_way_delay_p50_seconds", Doc: "RFC 7679: median one-way delay of the packets, of the flow with the largest", Label: "one-way delay p50", Unit: SecondsUnit, Kinds: []Kind{UDP, PPS}, BoundedBy: "one_way_delay_bound_seconds", Pairs: Greatest},
		{Name: "one_way_delay_min_seconds", Doc: "RFC 7679: one-way delay of the fastest packet", Label: "one-way delay min", Unit: SecondsUnit, Kinds: []Kind{UDP, PPS}, BoundedBy: "one_way_delay_bound_seconds", Pairs: Least},
		{Name: "one_way_delay_p99_seconds", Doc: "RFC 7679: 99th percentile of the one-way delay, of the flow with the largest", Label: "one-way delay p99", Unit: SecondsUnit, Kinds: []Kind{UDP, PPS}, BoundedBy: "one_way_delay_bound_seconds", Pairs: Greatest},
		{Name: "one_way_delay_bound_seconds", Doc: "bound of the error of the one-way delays, either way, from the uncertainty of the clocks", Label: "one-way delay bound", Unit: SecondsUnit, Kinds: []Kind{UDP, PPS}, Pairs: Greatest},

		{Name: "transactions_per_second", Doc: "requests that were answered", Label: "transactions/s", Unit: Count, HigherIsBetter: true, Kinds: []Kind{RR}},

		{Name: "connect_p50_seconds", Doc: "median of the time to connect", Label: "connect p50", Unit: SecondsUnit, Compared: true, Margin: delay, InLab: labDelay, Kinds: []Kind{CRR}},
		{Name: "connect_p99_seconds", Doc: "99th percentile of the time to connect, with enough samples", Label: "connect p99", Unit: SecondsUnit, Kinds: []Kind{CRR}},
		{Name: "transaction_p50_seconds", Doc: "median of connecting, request and response", Label: "transaction p50", Unit: SecondsUnit, Kinds: []Kind{CRR}},
		{Name: "transaction_p99_seconds", Doc: "99th percentile of connecting, request and response, with enough samples", Label: "transaction p99", Unit: SecondsUnit, Kinds: []Kind{CRR}},
		{Name: "close_p50_seconds", Doc: "median of the time from the response to the end of closing", Label: "close p50", Unit: SecondsUnit, Kinds: []Kind{CRR}},
		{Name: "failed_connections_count", Doc: "connections that failed", Label: "failed connections", Unit: Count, Kinds: []Kind{CRR}},
		{Name: "failed_connections_fraction", Doc: "share of the attempted connections that failed", Label: "failed connections", Unit: Fraction, Compared: true, Margin: share, Kinds: []Kind{CRR}},

		{Name: "loaded_rtt_p99_seconds", Doc: "99th percentile while the flows fill the path; requests as for `rtt_p99_seconds`", Label: "loaded RTT p99", Unit: SecondsUnit, Compared: true, Margin: delay, InLab: labDelay, Kinds: []Kind{Load}},
		{Name: "idle_rtt_p50_seconds", Doc: "median round trip before the load", Label: "idle RTT p50", Unit: SecondsUnit, Kinds: []Kind{Load}},
		{Name: "rtt_increase_seconds", Doc: "increase of the median round trip under load", Label: "RTT increase", Unit: SecondsUnit, Kinds: []Kind{Load}},
		{Name: "responsiveness_per_minute", Doc: "round trips per minute under load; absent if more than 5 % of the requests had no answer", Label: "round trips/min", Unit: Count, HigherIsBetter: true, Kinds: []Kind{Load}, Pairs: Mean},
		{Name: "load_bits_per_second", Doc: "payload of the load that the receiver confirmed", Label: "load", Unit: BitsPerSecond, HigherIsBetter: true, ScalesWithRate: true, Kinds: []Kind{Load}},

		{Name: "cpu_seconds_per_byte", Doc: "busy time of both hosts, including everything that ran there, per received byte", Label: "CPU per byte", Unit: SecondsPerByte, Compared: true, Margin: rate, Kinds: []Kind{TCP, UDP, FTP}},
		{Name: "cpu_seconds_per_packet", Doc: "busy time of both hosts, including everything that ran there, per received packet", Label: "CPU per packet", Unit: SecondsPerPacket, Kinds: []Kind{UDP, PPS}},
		{Name: "context_switches_per_second", Doc: "of both hosts", Label: "context switches/s", Unit: Count, Kinds: []Kind{TCP, UDP, PPS, RR, FTP}},
		{Name: "dropped_packets_count", Doc: "dropped by the two hosts themselves over the whole test, as their kernels count: packets that were joined are one", Label: "local drops", Unit: Count, Kinds: []Kind{TCP, UDP, PPS, FTP}},

		{Name: "hops_count", Doc: "steps to the destination", Label: "hops", Unit: Count, Kinds: []Kind{Trace}, Pairs: Mean},
		{Name: "silent_hops_count", Doc: "steps that did not answer", Label: "silent hops", Unit: Count, Kinds: []Kind{Trace}, Pairs: Mean},
	}
}

// BrokenTrials is the metric of the comparison of how often two paths break a
// trial: the share of the blocks with an outcome on both paths. No trial brings
// it back, and so the catalogue lacks it.
const BrokenTrials = "broken_trials_fraction"

// ByRatio says that a metric is judged by its ratio to the reference, not by its
// difference from it.
func (m Metric) ByRatio() bool { return m.Margin.Fraction > 0 }

// MarginIn is the default margin between hosts or in a lab.
func (m Metric) MarginIn(lab bool) Margin {
	if lab && m.InLab != (Margin{}) {
		return m.InLab
	}
	return m.Margin
}

// PrimaryIn says that the comparison of a metric is one of the primary ones of a
// kind of test.
func (m Metric) PrimaryIn(kind Kind) bool { return slices.Contains(rowOf(kind).primary, m.Name) }

// Leads says that a report leads with the metric for a kind of test.
func (m Metric) Leads(kind Kind) bool {
	primary, ok := PrimaryOf(kind)
	return ok && primary.Name == m.Name
}

// MetricNamed looks a metric up in the Catalogue.
func MetricNamed(name string) (Metric, bool) {
	for i := range catalogue {
		if catalogue[i].Name == name {
			return catalogue[i], true
		}
	}
	return Metric{}, false
}

// MetricOf is a metric of the catalogue, or one that only has a name.
func MetricOf(name string) Metric {
	if name == BrokenTrials {
		return Metric{Name: name, Label: "broken trials", Unit: Fraction}
	}
	if m, ok := MetricNamed(name); ok {
		return m
	}
	return Metric{Name: name, Label: name, Unit: Count}
}

// MetricsOf lists the metrics of a kind, in the order of the Catalogue.
func MetricsOf(kind Kind) []Metric {
	var out []Metric
	for i := range catalogue {
		if slices.Contains(catalogue[i].Kinds, kind) {
			out = append(out, catalogue[i])
		}
	}
	return out
}

// ComparedOf lists those of them that are compared.
func ComparedOf(kind Kind) []Metric {
	return slices.DeleteFunc(MetricsOf(kind), func(m Metric) bool { return !m.Compared })
}

// HasThroughput says that tests of a kind move bytes at a rate.
func HasThroughput(kind Kind) bool {
	return slices.ContainsFunc(MetricsOf(kind), func(m Metric) bool { return m.Unit == BitsPerSecond })
}

// PrimaryOf is the metric that a report leads with for a kind. That of trace is
// shown but not compared: a hop more is not a cost by itself.
func PrimaryOf(kind Kind) (Metric, bool) {
	if row := rowOf(kind); row.primary != nil {
		return MetricNamed(row.primary[0])
	}
	return Metric{}, false
}
