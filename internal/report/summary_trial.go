package report

import (
	"fmt"
	"strings"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
)

// trialText is what a test that counts brought back, in one line.
func trialText(spec measurement.Spec, t measurement.Trial) string {
	f := &fields{metrics: t.Metrics}
	switch spec.Kind {
	case measurement.TCP:
		f.tcp(spec)
	case measurement.UDP:
		f.rate("goodput_bits_per_second", "", " received")
		f.datagrams()
		f.rate("sent_bits_per_second", "", " sent")
	case measurement.PPS:
		f.add("packets_per_second", "", " packets/s received", perSecond)
		f.datagrams()
	case measurement.CRR:
		f.add("connections_per_second", "", " connections/s", perSecond)
		f.time("connect_p50_seconds", "connect p50 ")
		f.time("transaction_p50_seconds", "transaction p50 ")
		f.time("transaction_p99_seconds", "p99 ")
		f.add("failed_connections_count", "", " failed", whole)
	case measurement.Load:
		f.time("loaded_rtt_p50_seconds", "p50 ")
		f.time("loaded_rtt_p99_seconds", "p99 ")
		f.time("idle_rtt_p50_seconds", "idle p50 ")
		f.add("responsiveness_per_minute", "", " round trips/min", whole)
		f.rate("load_bits_per_second", "under ", " of "+quantity.Count(spec.Flows, "flow"))
		f.add("loss_fraction", "loss ", "", formatFraction)
	case measurement.FTP:
		f.rate("goodput_bits_per_second", "", " received")
		f.add("file_bytes", "", "", func(v float64) string { return quantity.Format(v, measurement.Bytes) })
		f.time("transfer_seconds", "in ")
		if spec.Flows > 1 {
			f.parts = append(f.parts, quantity.Count(spec.Flows, "segment"))
		}
	case measurement.MTU:
		f.add("path_mtu_bytes", "", " B there", whole)
		f.add("reverse_path_mtu_bytes", "", " B back", whole)
	case measurement.Trace:
		f.parts = append(f.parts, fmt.Sprintf("%s, %d silent", quantity.Count(int(t.Metrics["hops_count"]), "hop"), int(t.Metrics["silent_hops_count"])))
	default:
		f.latency(spec, t.Latency)
	}
	if len(f.parts) == 0 {
		return "no figure came back"
	}
	return strings.Join(f.parts, between)
}

// fields collects the parts of a line, of those metrics that there are.
type fields struct {
	metrics measurement.Metrics
	parts   []string
}

func (f *fields) add(metric, before, after string, format func(float64) string) {
	if v, ok := f.metrics[metric]; ok {
		f.parts = append(f.parts, before+format(v)+after)
	}
}

func (f *fields) rate(metric, before, after string) { f.add(metric, before, after, formatRate) }

func (f *fields) time(metric, before string) {
	f.add(metric, before, "", func(v float64) string { return formatTime(measurement.Seconds(v)) })
}

func (f *fields) tcp(spec measurement.Spec) {
	f.rate("goodput_bits_per_second", "", " received")
	if spec.Direction == measurement.Both {
		f.rate("forward_goodput_bits_per_second", "there ", "")
		f.rate("reverse_goodput_bits_per_second", "back ", "")
	}
	if n, ok := f.metrics["retransmitted_segments"]; ok {
		f.parts = append(f.parts, quantity.Count(int(n), "retransmit"))
	}
	f.time("tcp_rtt_mean_seconds", "RTT under load ")
}

// datagrams is what became of them on the way.
func (f *fields) datagrams() {
	f.add("loss_fraction", "loss ", "", formatFraction)
	f.add("reordered_fraction", "reordered ", "", formatFraction)
	f.time("jitter_seconds", "jitter ")
}

func (f *fields) latency(spec measurement.Spec, d *measurement.Distribution) {
	f.time("rtt_p50_seconds", "p50 ")
	f.time("rtt_min_seconds", "min ")
	f.time("rtt_mean_seconds", "mean ")
	if d != nil {
		for _, p := range d.Percentiles {
			if p.Percent == 99 || p.Percent == 99.9 {
				f.parts = append(f.parts, fmt.Sprintf("p%g %s", p.Percent, formatTime(p.Value)))
			}
		}
	}
	f.time("rtt_max_seconds", "max ")
	if f.metrics["loss_fraction"] > 0 {
		f.add("loss_fraction", "loss ", "", formatFraction)
	}
	if d != nil {
		over := strings.ToUpper(string(spec.Protocol))
		if over == "" {
			over = "ICMP"
		}
		f.parts = append(f.parts, fmt.Sprintf("(%s, %s)", quantity.Count(int(d.Samples), "round trip"), over))
	}
}

func formatRate(bitsPerSecond float64) string {
	return quantity.Format(bitsPerSecond, measurement.BitsPerSecond)
}

func formatTime(s measurement.Seconds) string {
	return quantity.Format(float64(s), measurement.SecondsUnit)
}

func formatFraction(v float64) string { return quantity.Format(v, measurement.Fraction) }

func whole(v float64) string { return quantity.Number(v, 0) }

// perSecond writes a count a second with three significant digits at least.
func perSecond(v float64) string { return quantity.Number(v, quantity.Decimals(v, 3)) }
