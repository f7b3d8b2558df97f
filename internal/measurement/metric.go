package measurement

// Unit of a metric.
type Unit string

// The units metrics come in.
const (
	BitsPerSecond Unit = "bit/s"
	SecondsUnit   Unit = "s"
	Bytes         Unit = "B"
	Fraction      Unit = "1"
	Count         Unit = "count"
	// SecondsPerByte and SecondsPerPacket are processor time.
	SecondsPerByte   Unit = "s/B"
	SecondsPerPacket Unit = "s/packet"
)

// Metric describes a quantity that tests bring back.
type Metric struct {
	Name  string // ends in its unit
	Label string // for people
	Unit  Unit
	// HigherIsBetter is what turns a difference into a cost or a gain.
	HigherIsBetter bool
	// ScalesWithRate is true for what a scaled-down experiment scales down:
	// multiplied by the scale it is comparable with the published figure.
	ScalesWithRate bool
	// Compared metrics get a row among the costs; others are only shown.
	Compared bool
	// Primary is the metric of its kind that a report leads with.
	Primary bool
	Kinds   []Kind
}

// Catalogue lists every metric, in the order reports show them.
func Catalogue() []Metric {
	return []Metric{
		{Name: "goodput_bits_per_second", Label: "goodput", Unit: BitsPerSecond, HigherIsBetter: true, ScalesWithRate: true, Compared: true, Primary: true, Kinds: []Kind{TCP, UDP, FTP}},
		{Name: "packets_per_second", Label: "packets/s", Unit: Count, HigherIsBetter: true, ScalesWithRate: true, Compared: true, Primary: true, Kinds: []Kind{PPS}},
		{Name: "connections_per_second", Label: "connections/s", Unit: Count, HigherIsBetter: true, Compared: true, Primary: true, Kinds: []Kind{CRR}},
		{Name: "loaded_rtt_p50_seconds", Label: "loaded RTT p50", Unit: SecondsUnit, Compared: true, Primary: true, Kinds: []Kind{Load}},
		{Name: "path_mtu_bytes", Label: "path MTU", Unit: Bytes, HigherIsBetter: true, Primary: true, Kinds: []Kind{MTU}},
		{Name: "reverse_path_mtu_bytes", Label: "path MTU back", Unit: Bytes, HigherIsBetter: true, Kinds: []Kind{MTU}},

		{Name: "forward_goodput_bits_per_second", Label: "goodput there", Unit: BitsPerSecond, HigherIsBetter: true, ScalesWithRate: true, Kinds: []Kind{TCP}},
		{Name: "reverse_goodput_bits_per_second", Label: "goodput back", Unit: BitsPerSecond, HigherIsBetter: true, ScalesWithRate: true, Kinds: []Kind{TCP}},
		{Name: "retransmitted_segments", Label: "retransmits", Unit: Count, Kinds: []Kind{TCP, FTP}},
		{Name: "tcp_rtt_mean_seconds", Label: "TCP RTT under load", Unit: SecondsUnit, Kinds: []Kind{TCP, FTP}},
		{Name: "congestion_window_bytes", Label: "cwnd", Unit: Bytes, Kinds: []Kind{TCP, FTP}},
		{Name: "receive_window_limited_fraction", Label: "receive-window limited", Unit: Fraction, Kinds: []Kind{TCP, FTP}},
		{Name: "send_buffer_limited_fraction", Label: "send-buffer limited", Unit: Fraction, Kinds: []Kind{TCP, FTP}},
		{Name: "tcp_efficiency_fraction", Label: "TCP efficiency", Unit: Fraction, HigherIsBetter: true, Kinds: []Kind{TCP, FTP}},
		{Name: "buffer_delay_fraction", Label: "buffer delay", Unit: Fraction, Kinds: []Kind{TCP, FTP}},

		{Name: "transfer_seconds", Label: "transfer time", Unit: SecondsUnit, Kinds: []Kind{FTP}},
		{Name: "file_bytes", Label: "file", Unit: Bytes, Kinds: []Kind{FTP}},

		{Name: "received_packets_per_second", Label: "packets/s", Unit: Count, HigherIsBetter: true, ScalesWithRate: true, Kinds: []Kind{UDP}},
		{Name: "sent_bits_per_second", Label: "sent", Unit: BitsPerSecond, ScalesWithRate: true, Kinds: []Kind{UDP, PPS}},

		{Name: "rtt_p50_seconds", Label: "RTT p50", Unit: SecondsUnit, Compared: true, Primary: true, Kinds: []Kind{RR, Ping}},
		{Name: "rtt_mean_seconds", Label: "RTT mean", Unit: SecondsUnit, Kinds: []Kind{RR, Ping}},
		{Name: "rtt_min_seconds", Label: "RTT min", Unit: SecondsUnit, Kinds: []Kind{RR, Ping}},
		{Name: "rtt_p99_seconds", Label: "RTT p99", Unit: SecondsUnit, Compared: true, Kinds: []Kind{RR}},
		{Name: "rtt_max_seconds", Label: "RTT max", Unit: SecondsUnit, Kinds: []Kind{RR, Ping}},
		{Name: "rtt_standard_deviation_seconds", Label: "RTT mdev", Unit: SecondsUnit, Kinds: []Kind{RR, Ping}},
		{Name: "path_rtt_p50_seconds", Label: "RTT p50 without wake-up", Unit: SecondsUnit, Kinds: []Kind{RR}},
		{Name: "wakeup_p50_seconds", Label: "wake-up p50", Unit: SecondsUnit, Kinds: []Kind{RR}},

		{Name: "loss_fraction", Label: "loss", Unit: Fraction, Kinds: []Kind{UDP, PPS, RR, Ping, Load}},
		{Name: "reordered_fraction", Label: "reordered", Unit: Fraction, Kinds: []Kind{UDP, PPS}},
		{Name: "duplicated_fraction", Label: "duplicated", Unit: Fraction, Kinds: []Kind{UDP, PPS}},
		{Name: "jitter_seconds", Label: "jitter", Unit: SecondsUnit, Kinds: []Kind{UDP, PPS}},
		{Name: "delay_variation_p99_seconds", Label: "delay variation p99", Unit: SecondsUnit, Kinds: []Kind{UDP, PPS}},

		{Name: "transactions_per_second", Label: "transactions/s", Unit: Count, HigherIsBetter: true, Kinds: []Kind{RR}},

		{Name: "connect_p50_seconds", Label: "connect p50", Unit: SecondsUnit, Compared: true, Kinds: []Kind{CRR}},
		{Name: "connect_p99_seconds", Label: "connect p99", Unit: SecondsUnit, Kinds: []Kind{CRR}},
		{Name: "transaction_p50_seconds", Label: "transaction p50", Unit: SecondsUnit, Kinds: []Kind{CRR}},
		{Name: "transaction_p99_seconds", Label: "transaction p99", Unit: SecondsUnit, Kinds: []Kind{CRR}},
		{Name: "close_p50_seconds", Label: "close p50", Unit: SecondsUnit, Kinds: []Kind{CRR}},
		{Name: "failed_connections_count", Label: "failed connections", Unit: Count, Kinds: []Kind{CRR}},

		{Name: "loaded_rtt_p99_seconds", Label: "loaded RTT p99", Unit: SecondsUnit, Compared: true, Kinds: []Kind{Load}},
		{Name: "idle_rtt_p50_seconds", Label: "idle RTT p50", Unit: SecondsUnit, Kinds: []Kind{Load}},
		{Name: "rtt_increase_seconds", Label: "RTT increase", Unit: SecondsUnit, Kinds: []Kind{Load}},
		{Name: "responsiveness_per_minute", Label: "round trips/min", Unit: Count, HigherIsBetter: true, Kinds: []Kind{Load}},
		{Name: "load_bits_per_second", Label: "load", Unit: BitsPerSecond, HigherIsBetter: true, ScalesWithRate: true, Kinds: []Kind{Load}},

		{Name: "cpu_seconds_per_byte", Label: "CPU per byte", Unit: SecondsPerByte, Compared: true, Kinds: []Kind{TCP, UDP, FTP}},
		{Name: "cpu_seconds_per_packet", Label: "CPU per packet", Unit: SecondsPerPacket, Kinds: []Kind{UDP, PPS}},
		{Name: "context_switches_per_second", Label: "context switches/s", Unit: Count, Kinds: []Kind{TCP, UDP, PPS, RR, FTP}},
		{Name: "dropped_packets_count", Label: "local drops", Unit: Count, Kinds: []Kind{TCP, UDP, PPS, FTP}},

		{Name: "hops_count", Label: "hops", Unit: Count, Primary: true, Kinds: []Kind{Trace}},
		{Name: "silent_hops_count", Label: "silent hops", Unit: Count, Kinds: []Kind{Trace}},
	}
}

// MetricNamed looks a metric up in the Catalogue.
func MetricNamed(name string) (Metric, bool) {
	for _, m := range Catalogue() {
		if m.Name == name {
			return m, true
		}
	}
	return Metric{}, false
}

// MetricOf is a metric of the catalogue, or one that only has a name.
func MetricOf(name string) Metric {
	if m, ok := MetricNamed(name); ok {
		return m
	}
	return Metric{Name: name, Label: name, Unit: Count}
}

// MetricsOf lists the metrics of a kind, in the order of the Catalogue.
func MetricsOf(kind Kind) []Metric {
	var out []Metric
	for _, m := range Catalogue() {
		for _, k := range m.Kinds {
			if k == kind {
				out = append(out, m)
				break
			}
		}
	}
	return out
}

// PrimaryOf is the metric that a report leads with for a kind. That of trace is
// shown but not compared: a hop more is not a cost by itself.
func PrimaryOf(kind Kind) (Metric, bool) {
	for _, m := range MetricsOf(kind) {
		if m.Primary {
			return m, true
		}
	}
	return Metric{}, false
}
