package words

import (
	"fmt"
	"strings"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
)

// Gap stands between the parts of a line of figures; lines break there.
const Gap = "   "

// kind is how tests of a kind are spoken of.
type kind struct {
	flows   string // what one of several flows is called
	several string // what follows their number and name
	title   string // what a test is called; empty is the number of its flows
	latency string // what its distribution is of, for an axis
	trial   func(f *figures)
}

var kinds = map[measurement.Kind]kind{
	measurement.TCP: {flows: "flow", trial: (*figures).tcp},
	measurement.UDP: {flows: "flow", title: "UDP", trial: func(f *figures) {
		f.value("goodput_bits_per_second", "", " received")
		f.datagrams()
		f.value("sent_bits_per_second", "", " sent")
	}},
	measurement.PPS: {flows: "flow", title: "small packets", trial: func(f *figures) {
		f.add("packets_per_second", "", " packets/s received", perSecond)
		f.datagrams()
	}},
	measurement.CRR: {flows: "connection", title: "connections", several: " at a time", latency: "transaction time", trial: func(f *figures) {
		f.add("connections_per_second", "", " connections/s", perSecond)
		f.value("connect_p50_seconds", "connect p50 ", "")
		f.percentile("transaction_p50_seconds", "transaction ", f.Latency, 50)
		f.percentile("transaction_p99_seconds", "", f.Latency, 99)
		f.add("failed_connections_count", "", " failed", count)
	}},
	measurement.Load: {flows: "flow", title: "RTT under load", latency: "RTT", trial: func(f *figures) {
		f.percentile("loaded_rtt_p50_seconds", "", f.Latency, 50)
		f.percentile("loaded_rtt_p99_seconds", "", f.Latency, 99)
		f.percentile("idle_rtt_p50_seconds", "idle ", f.IdleLatency, 50)
		f.add("responsiveness_per_minute", "", " round trips/min", count)
		f.value("load_bits_per_second", "under ", " of "+quantity.Count(f.spec.Flows, "flow"))
		f.loss()
	}},
	measurement.FTP: {flows: "segment", trial: func(f *figures) {
		f.value("goodput_bits_per_second", "", " received")
		f.value("file_bytes", "", "")
		f.value("transfer_seconds", "in ", "")
		if f.spec.Flows > 1 {
			f.parts = append(f.parts, quantity.Count(f.spec.Flows, "segment"))
		}
	}},
	measurement.MTU: {flows: "flow", title: "path MTU", trial: func(f *figures) {
		f.add("path_mtu_bytes", "", NBSP+"B forward", count)
		f.add("reverse_path_mtu_bytes", "", NBSP+"B reverse", count)
	}},
	measurement.Trace: {flows: "flow", title: "path", trial: func(f *figures) {
		f.parts = append(f.parts, fmt.Sprintf("%s, %d silent", quantity.Count(int(f.Metrics["hops_count"]), "hop"), int(f.Metrics["silent_hops_count"])))
	}},
	measurement.RR:   {flows: "flow", title: "latency", latency: "RTT", trial: (*figures).latency},
	measurement.Ping: {flows: "flow", title: "ping", latency: "RTT", trial: (*figures).latency},
}

// Title names a test for people.
func Title(spec measurement.Spec) string {
	k := kinds[spec.Kind]
	title := k.title
	if title == "" {
		title = quantity.Count(spec.Flows, k.flows)
	}
	switch {
	case spec.Kind == measurement.FTP && spec.Direction == measurement.Send:
		return "file to the server"
	case spec.Kind == measurement.FTP:
		return "file in " + title
	case spec.Direction == measurement.Receive:
		return title + ", reverse"
	case spec.Direction == measurement.Both:
		return title + ", both"
	}
	return title
}

// Trial is what a test that counts brought back, in one line.
func Trial(spec measurement.Spec, t measurement.Trial) string {
	f := &figures{Trial: t, spec: spec}
	if k, known := kinds[spec.Kind]; known {
		k.trial(f)
	} else {
		f.latency()
	}
	if len(f.parts) == 0 {
		return "no figure came back"
	}
	return strings.Join(f.parts, Gap)
}

// Latency is what the distribution of a kind's tests is of.
func Latency(k measurement.Kind) string { return kinds[k].latency }

// figures collects the parts of a line, of those metrics that there are.
type figures struct {
	measurement.Trial
	spec  measurement.Spec
	parts []string
}

func (f *figures) add(metric, before, after string, write func(float64) string) {
	if v, ok := f.Metrics[metric]; ok {
		f.parts = append(f.parts, before+write(v)+after)
	}
}

// value adds a metric in its own unit.
func (f *figures) value(metric, before, after string) {
	f.add(metric, before, after, func(v float64) string { return Value(v, measurement.MetricOf(metric).Unit) })
}

// percentile adds a metric that is a percentile of a distribution, or what it lacks.
func (f *figures) percentile(metric, of string, d *measurement.Distribution, percent float64) {
	name := fmt.Sprintf("%sp%g", of, percent)
	if v, ok := f.Metrics[metric]; ok {
		f.parts = append(f.parts, name+" "+Time(measurement.Seconds(v)))
	} else if d != nil {
		f.parts = append(f.parts, Lacking(name, *d, percent)...)
	}
}

// Lacking says why a percentile has no value, if it has none.
func Lacking(name string, d measurement.Distribution, percent float64) []string {
	switch d.Lacks(percent) {
	case measurement.LacksAnswer:
		return []string{name + ": lost"}
	case measurement.LacksSamples:
		return []string{fmt.Sprintf("%s: lacks samples (%d of %d)", name, d.Due(), measurement.NeededFor(percent))}
	}
	return nil
}

func (f *figures) tcp() {
	f.value("goodput_bits_per_second", "", " received")
	if f.spec.Direction == measurement.Both {
		f.value("forward_goodput_bits_per_second", "forward ", "")
		f.value("reverse_goodput_bits_per_second", "reverse ", "")
	}
	if n, ok := f.Metrics["retransmitted_segments"]; ok {
		f.parts = append(f.parts, quantity.Count(int(n), "retransmit"))
	}
	f.value("tcp_rtt_mean_seconds", "RTT under load ", "")
}

// loss adds the share that was lost with its 95 % interval.
func (f *figures) loss() {
	loss, ok := f.Metrics["loss_fraction"]
	if !ok {
		return
	}
	whole, _ := f.LossOf(f.spec)
	f.parts = append(f.parts, "loss "+Loss(loss, whole))
}

// Loss writes a share that was lost of a whole, with its 95 % interval where that is known.
func Loss(share, whole float64) string {
	if !(whole >= 1) {
		return Value(share, measurement.Fraction)
	}
	low, high := measurement.ShareInterval(share*whole, whole)
	return joined(Estimate(share, &low, &high, measurement.Fraction, false))
}

// datagrams is what became of them on the way.
func (f *figures) datagrams() {
	f.loss()
	f.value("reordered_fraction", "reordered ", "")
	f.value("jitter_seconds", "jitter ", "")
	if bound, ok := f.Metrics["one_way_delay_bound_seconds"]; ok {
		about := " ± " + Time(measurement.Seconds(bound))
		if bound > f.Metrics["one_way_delay_p50_seconds"]/2 {
			about += ", which the clocks leave open"
		}
		f.value("one_way_delay_p50_seconds", "one way p50 ", about)
	}
}

func (f *figures) latency() {
	f.percentile("rtt_p50_seconds", "", f.Latency, 50)
	f.value("rtt_min_seconds", "min ", "")
	f.value("rtt_mean_seconds", "mean ", "")
	if f.Latency != nil {
		for _, p := range []float64{99, 99.9} {
			if v, ok := f.Latency.At(p); ok {
				f.parts = append(f.parts, fmt.Sprintf("p%g %s", p, Time(v)))
			} else if p == 99 && f.spec.Kind == measurement.RR {
				f.parts = append(f.parts, Lacking("p99", *f.Latency, p)...)
			}
		}
	}
	f.value("rtt_max_seconds", "max ", "")
	if f.Metrics["loss_fraction"] > 0 {
		f.loss()
	}
	if f.Latency != nil {
		over := strings.ToUpper(string(f.spec.Protocol))
		if over == "" {
			over = "ICMP"
		}
		f.parts = append(f.parts, fmt.Sprintf("(%s, %s)", quantity.Count(int(f.Latency.Samples), "round trip"), over))
	}
}

func count(v float64) string { return quantity.Number(v, 0) }

// perSecond writes a count a second with three significant digits at least.
func perSecond(v float64) string { return quantity.Number(v, quantity.Decimals(v, 3)) }
