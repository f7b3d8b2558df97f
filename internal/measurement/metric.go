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
		{Name: "goodput_bits_per_second", Label: "goodput", Unit: BitsPerSecond, HigherIsBetter: true, ScalesWithRate: true, Compared: true, Primary: true, Kinds: []Kind{TCP}},
		{Name: "retransmitted_segments", Label: "retransmits", Unit: Count, Kinds: []Kind{TCP}},
		{Name: "tcp_rtt_mean_seconds", Label: "TCP RTT under load", Unit: SecondsUnit, Kinds: []Kind{TCP}},
		{Name: "congestion_window_bytes", Label: "cwnd", Unit: Bytes, Kinds: []Kind{TCP}},
		{Name: "receive_window_limited_fraction", Label: "receive-window limited", Unit: Fraction, Kinds: []Kind{TCP}},
		{Name: "send_buffer_limited_fraction", Label: "send-buffer limited", Unit: Fraction, Kinds: []Kind{TCP}},
		{Name: "rtt_p50_seconds", Label: "RTT p50", Unit: SecondsUnit, Compared: true, Primary: true, Kinds: []Kind{RR, Ping}},
		{Name: "rtt_mean_seconds", Label: "RTT mean", Unit: SecondsUnit, Kinds: []Kind{RR, Ping}},
		{Name: "rtt_min_seconds", Label: "RTT min", Unit: SecondsUnit, Kinds: []Kind{RR, Ping}},
		{Name: "rtt_p99_seconds", Label: "RTT p99", Unit: SecondsUnit, Compared: true, Kinds: []Kind{RR}},
		{Name: "rtt_max_seconds", Label: "RTT max", Unit: SecondsUnit, Kinds: []Kind{RR, Ping}},
		{Name: "rtt_standard_deviation_seconds", Label: "RTT mdev", Unit: SecondsUnit, Kinds: []Kind{RR, Ping}},
		{Name: "loss_fraction", Label: "loss", Unit: Fraction, Kinds: []Kind{RR, Ping}},
		{Name: "transactions_per_second", Label: "transactions/s", Unit: Count, HigherIsBetter: true, Kinds: []Kind{RR}},
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
