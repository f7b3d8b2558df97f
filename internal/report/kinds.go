package report

import (
	"github.com/hopbench/hopbench/internal/measurement"
)

// kindRow is how a report lays out tests of a kind.
type kindRow struct {
	// details are the few metrics without which the primary one does not answer
	// its question; of a test of both directions, bothWays. The rest stand in
	// result.json and trials.csv.
	details, bothWays []string
	// distributions are the parts of a test that have one: false is the whole
	// test, or under load, true before the load.
	distributions []bool
	// headers are those between Ethernet's and the payload, in bytes, where the
	// trial's MSS does not tell.
	headers int
	// flowsRTT says that pairs have the RTT of their flows, which is shown.
	flowsRTT bool
}

var kinds = map[measurement.Kind]kindRow{
	measurement.TCP: {headers: tcpHeaders, flowsRTT: true,
		bothWays: []string{"forward_goodput_bits_per_second", "reverse_goodput_bits_per_second", "retransmitted_segments", "cpu_seconds_per_byte"}},
	measurement.UDP: {headers: udpHeaders,
		details: []string{"loss_fraction", "reordered_fraction", "jitter_seconds", "delay_variation_p99_seconds", "one_way_delay_p50_seconds", "cpu_seconds_per_byte", "dropped_packets_count"}},
	measurement.PPS: {headers: udpHeaders, details: []string{"loss_fraction", "delay_variation_p99_seconds", "one_way_delay_p50_seconds", "cpu_seconds_per_packet", "dropped_packets_count"}},
	measurement.RR:  {headers: tcpHeaders, distributions: []bool{false}},
	measurement.CRR: {headers: tcpHeaders, distributions: []bool{false},
		details: []string{"connect_p50_seconds", "connect_p99_seconds", "transaction_p50_seconds", "failed_connections_count"}},
	measurement.Load: {headers: tcpHeaders, distributions: []bool{true, false},
		details: []string{"idle_rtt_p50_seconds", "loaded_rtt_p99_seconds", "rtt_increase_seconds", "responsiveness_per_minute", "load_bits_per_second"}},
	measurement.FTP:   {headers: tcpHeaders, details: []string{"transfer_seconds", "retransmitted_segments", "cpu_seconds_per_byte"}},
	measurement.MTU:   {headers: tcpHeaders, details: []string{"reverse_path_mtu_bytes"}},
	measurement.Ping:  {headers: tcpHeaders, distributions: []bool{false}},
	measurement.Trace: {headers: tcpHeaders},
}

// detailMetrics are the further metrics of a test that the report shows.
func detailMetrics(s measurement.Spec) []string {
	if row := kinds[s.Kind]; s.Direction == measurement.Both && row.bothWays != nil {
		return row.bothWays
	}
	return kinds[s.Kind].details
}

// Distributions are the parts of a test that have one: true is before a load.
func (t Test) Distributions() []bool { return kinds[t.Kind].distributions }
