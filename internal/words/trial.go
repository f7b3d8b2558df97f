package words

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
)

// Gap stands between the parts of a line of figures; lines break there.
const Gap = "   "

// phrase is how a metric is spoken of in a line of figures; one without is led by its label.
type phrase struct {
	before, after string
	write         func(float64) string // nil for the metric's unit
	percent       float64              // of the percentile of a distribution that it is
	whole         func(f *figures)     // says all of it
}

var metricPhrases = map[string]phrase{
	"goodput_bits_per_second":         {after: " received"},
	"forward_goodput_bits_per_second": {before: "forward "},
	"reverse_goodput_bits_per_second": {before: "reverse "},
	"retransmitted_segments":          {write: func(n float64) string { return quantity.Count(int(n), "retransmit") }},
	"tcp_rtt_mean_seconds":            {before: "RTT under load "},
	"file_bytes":                      {},
	"transfer_seconds":                {whole: (*figures).transfer},

	"packets_per_second":        {after: " packets/s received", write: perSecond},
	"sent_bits_per_second":      {after: " sent"},
	"loss_fraction":             {whole: (*figures).loss},
	"one_way_delay_p50_seconds": {whole: (*figures).oneWay},

	"connections_per_second":   {after: " connections/s", write: perSecond},
	"transaction_p50_seconds":  {before: "transaction ", percent: 50},
	"transaction_p99_seconds":  {percent: 99},
	"failed_connections_count": {after: " failed", write: count},

	"loaded_rtt_p50_seconds":    {percent: 50},
	"loaded_rtt_p99_seconds":    {percent: 99},
	"idle_rtt_p50_seconds":      {before: "idle ", percent: 50},
	"responsiveness_per_minute": {after: " round trips/min", write: count},
	"load_bits_per_second": {whole: func(f *figures) {
		f.value("load_bits_per_second", "under ", " of "+quantity.Count(f.spec.Flows, "flow"))
	}},

	"rtt_p50_seconds":  {percent: 50},
	"rtt_min_seconds":  {before: "min "},
	"rtt_mean_seconds": {before: "mean "},
	"rtt_max_seconds":  {whole: (*figures).slowest},

	"path_mtu_bytes":         {after: NBSP + "B forward", write: count},
	"reverse_path_mtu_bytes": {after: NBSP + "B reverse", write: count},
	"hops_count":             {whole: (*figures).hops},
}

// Title names a test for people.
func Title(spec measurement.Spec) string {
	k, _ := kind.Of(spec.Kind)
	title := cmp.Or(k.Title, quantity.Count(spec.Flows, cmp.Or(k.Flow, "flow")))
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
	k, known := kind.Of(spec.Kind)
	if !known {
		k, _ = kind.Of(measurement.RR) // a kind that only a newer program knows shows what most tests have
	}
	f := &figures{Trial: t, spec: spec, kind: k}
	for _, metric := range k.Figures {
		f.say(metric)
	}
	f.roundTrips()
	if len(f.parts) == 0 {
		return "no figure came back"
	}
	return strings.Join(f.parts, Gap)
}

// Latency is what the distribution of a kind's tests is of.
func Latency(name measurement.Kind) string {
	if k, _ := kind.Of(name); len(k.Latencies) > 0 {
		return k.Latencies[0].Label
	}
	return ""
}

// figures collects the parts of a line, of those metrics that there are.
type figures struct {
	measurement.Trial
	spec  measurement.Spec
	kind  kind.Kind
	parts []string
}

// say adds what there is of a metric.
func (f *figures) say(metric string) {
	p, known := metricPhrases[metric]
	switch {
	case !known:
		f.value(metric, measurement.MetricOf(metric).Label+" ", "")
	case p.whole != nil:
		p.whole(f)
	case p.percent > 0:
		f.percentile(metric, p.before, p.percent)
	case p.write != nil:
		f.add(metric, p.before, p.after, p.write)
	default:
		f.value(metric, p.before, p.after)
	}
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
func (f *figures) percentile(metric, of string, percent float64) {
	name := fmt.Sprintf("%sp%g", of, percent)
	if v, ok := f.Metrics[metric]; ok {
		f.parts = append(f.parts, name+" "+Time(measurement.Seconds(v)))
		return
	}
	for _, l := range f.kind.Latencies {
		if d := l.Of(f.Outcome); d != nil && strings.HasPrefix(metric, l.Metrics+"_") {
			f.parts = append(f.parts, lacking(name, *d, percent)...)
		}
	}
}

// lacking says why a percentile has no value, if it has none.
func lacking(name string, d measurement.Distribution, percent float64) []string {
	switch d.Lacks(percent) {
	case measurement.LacksAnswer:
		return []string{name + ": lost"}
	case measurement.LacksSamples:
		return []string{fmt.Sprintf("%s: lacks samples (%d of %d)", name, d.Due(), measurement.NeededFor(percent))}
	}
	return nil
}

// roundTrip says that the test is one of round trips alone.
func (f *figures) roundTrip() bool {
	return len(f.kind.Latencies) == 1 && f.kind.Latencies[0].Metrics == "rtt"
}

// loss adds the share that was lost with its 95 % interval; of round trips only where some
// were.
func (f *figures) loss() {
	loss, ok := f.Metrics["loss_fraction"]
	if !ok || loss == 0 && f.roundTrip() {
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

// oneWay adds the delay of datagrams, with the bound of its error.
func (f *figures) oneWay() {
	if bound, ok := f.Metrics["one_way_delay_bound_seconds"]; ok {
		about := " ± " + Time(measurement.Seconds(bound))
		if bound > f.Metrics["one_way_delay_p50_seconds"]/2 {
			about += ", which the clocks leave open"
		}
		f.value("one_way_delay_p50_seconds", "one way p50 ", about)
	}
}

// transfer adds how long a file took, and in how many pieces it came.
func (f *figures) transfer() {
	f.value("transfer_seconds", "in ", "")
	if f.spec.Flows > 1 {
		f.parts = append(f.parts, quantity.Count(f.spec.Flows, f.kind.Flow))
	}
}

func (f *figures) hops() {
	f.parts = append(f.parts, fmt.Sprintf("%s, %d silent", quantity.Count(int(f.Metrics["hops_count"]), "hop"), int(f.Metrics["silent_hops_count"])))
}

// slowest adds the upper percentiles of the round trips, and the longest.
func (f *figures) slowest() {
	if f.Latency != nil {
		for _, p := range []float64{99, 99.9} {
			if v, ok := f.Latency.At(p); ok {
				f.parts = append(f.parts, fmt.Sprintf("p%g %s", p, Time(v)))
			} else if p == 99 && slices.Contains(measurement.MetricOf("rtt_p99_seconds").Kinds, f.kind.Name) {
				f.parts = append(f.parts, lacking("p99", *f.Latency, p)...)
			}
		}
	}
	f.value("rtt_max_seconds", "max ", "")
}

// roundTrips adds how many there were, and over what.
func (f *figures) roundTrips() {
	if !f.roundTrip() || f.Latency == nil {
		return
	}
	over := ", " + strings.ToUpper(string(f.spec.Protocol))
	switch {
	case f.spec.Protocol == "" && f.kind.NoServer:
		over = ", ICMP"
	case f.spec.Protocol == "":
		over = ""
	}
	f.parts = append(f.parts, fmt.Sprintf("(%s%s)", quantity.Count(int(f.Latency.Samples), "round trip"), over))
}

func count(v float64) string { return quantity.Number(v, 0) }

// perSecond writes a count a second with three significant digits at least.
func perSecond(v float64) string { return quantity.Number(v, quantity.Decimals(v, 3)) }
