package trial

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/hopbench/hopbench/internal/gate"
	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/probe/host"
	"github.com/hopbench/hopbench/internal/probe/latency"
	"github.com/hopbench/hopbench/internal/probe/session"
	"github.com/hopbench/hopbench/internal/probe/tcp"
)

// combination is an outcome made of those of several pairs.
type combination struct {
	spec measurement.Spec
	out  measurement.Outcome
	// good are the pairs that brought a result, index their places in out.Pairs.
	good  []measurement.Outcome
	index []int
	// delays of good are from the first start of all, as out.Pairs[…].Delay.
	delays []time.Duration
}

// combine makes one outcome of all: counts and rates are sums, shares means weighted by
// what they are shares of, and round trips those of one distribution; the goodput of a
// tcp test is the sum over one measured window that is common to all, that of files all
// their bytes over the time from the first start to the last end.
func combine(spec measurement.Spec, all []brought) measurement.Outcome {
	c := &combination{spec: spec.Defaults(), out: measurement.Outcome{Metrics: measurement.Metrics{}}}
	for k, b := range all {
		pair := measurement.Pair{Source: b.source, Destination: b.destination, PlannedDelay: spec.StartOf(k, len(all))}
		if b.err != nil {
			pair.Error, pair.Failure = gate.Reason(b.err), string(session.ReasonOf(b.err))
		} else {
			c.good, c.index = append(c.good, b.outcome), append(c.index, k)
		}
		c.out.Pairs = append(c.out.Pairs, pair)
	}
	if len(c.good) == 0 {
		return c.out
	}
	c.starts()
	c.pairs()
	c.metrics()
	c.flows()
	c.throughput()
	c.transfers()
	c.latency()
	c.said()
	c.hosts()
	return c.out
}

// starts finds the first start and how much later the others were.
func (c *combination) starts() {
	for _, o := range c.good {
		if s := o.Started; !s.IsZero() && (c.out.Started.IsZero() || s.Before(c.out.Started)) {
			c.out.Started = s
		}
	}
	c.delays = make([]time.Duration, len(c.good))
	for i, o := range c.good {
		if !o.Started.IsZero() {
			c.delays[i] = o.Started.Sub(c.out.Started)
		}
	}
}

// ofHost are metrics that count a whole host, and so mean nothing of one pair.
var ofHost = []string{"cpu_seconds_per_byte", "cpu_seconds_per_packet", "context_switches_per_second"}

// pairs fills in what each pair brought.
func (c *combination) pairs() {
	for i, o := range c.good {
		p := &c.out.Pairs[c.index[i]]
		p.Delay = measurement.SecondsOf(c.delays[i])
		p.Metrics, p.Hops, p.OneWay = measurement.Metrics{}, o.Hops, o.OneWay
		for name, v := range o.Metrics {
			if !slices.Contains(ofHost, name) {
				p.Metrics[name] = v
			}
		}
		if o.Throughput != nil {
			p.Throughput = coarse(*o.Throughput, min(mostPairBins, session.BinsOfEach(len(c.out.Pairs))))
		}
		for _, own := range o.Pairs {
			p.RTT = append(p.RTT, own.RTT...)
		}
	}
}

// mostPairBins is how many bins are kept of the count of each pair, and of many pairs fewer.
const mostPairBins = 400

// coarse joins bins until there are at most so many. Bins left over at the end, too
// few for a whole one, are dropped.
func coarse(b measurement.Bins, most int) *measurement.Bins {
	by := 1
	for step := 0; len(b.Bytes)/by > most; step++ {
		by = []int{1, 2, 5}[step%3] * int(math.Pow10(step/3))
	}
	out := &measurement.Bins{Width: b.Width * measurement.Seconds(by), Bytes: make([]float64, len(b.Bytes)/by)}
	for i := range out.Bytes {
		for _, n := range b.Bytes[i*by : (i+1)*by] {
			out.Bytes[i] += n
		}
	}
	return out
}

// metrics combines every metric that a pair brought, but percentiles, which latency takes
// from one distribution where there is one: the mean of those of pairs is of nothing.
func (c *combination) metrics() {
	values, weights := map[string][]float64{}, map[string][]float64{}
	for _, o := range c.good {
		for name, v := range o.Metrics {
			values[name] = append(values[name], v)
			weights[name] = append(weights[name], weight(name, o))
		}
	}
	for name, v := range values {
		metric, _ := measurement.MetricNamed(name)
		percentile := metric.Pairs == measurement.ByUnit && (strings.Contains(name, "_p50_") || strings.Contains(name, "_p99_"))
		// The sum of those that tell is not that of all: some senders do not count retransmits.
		part := metric.Pairs == measurement.ByUnit && metric.Unit == measurement.Count && !metric.HigherIsBetter && len(v) < len(c.good)
		if !percentile && !part && !slices.Contains(ofHost, name) {
			c.out.Metrics[name] = combined(name, v, weights[name])
		}
	}
}

// weight is of how much a pair's metric is the mean.
func weight(name string, o measurement.Outcome) float64 {
	switch name {
	case "loss_fraction":
		if o.Latency != nil {
			return float64(o.Latency.Due())
		}
		return o.Metrics["sent_bits_per_second"] // packets of one size
	case "reordered_fraction", "duplicated_fraction", "jitter_seconds":
		return o.Metrics["received_packets_per_second"] + o.Metrics["packets_per_second"] // of udp or of pps
	case "failed_connections_fraction": // of all that were tried
		if o.Latency != nil {
			return float64(o.Latency.Samples) + o.Metrics["failed_connections_count"]
		}
	case "tcp_efficiency_fraction":
		return o.Metrics["goodput_bits_per_second"]
	}
	return 1
}

// combined is a metric of all pairs together.
func combined(name string, values, weights []float64) float64 {
	sum, weighted, weight := 0.0, 0.0, 0.0
	for i, v := range values {
		sum += v
		weighted += v * weights[i]
		weight += weights[i]
	}
	metric, _ := measurement.MetricNamed(name)
	switch {
	case metric.Pairs == measurement.Least:
		return slices.Min(values)
	case metric.Pairs == measurement.Greatest:
		return slices.Max(values)
	case metric.Pairs == measurement.ByUnit && (metric.Unit == measurement.BitsPerSecond || metric.Unit == measurement.Count):
		return sum
	case weight > 0:
		return weighted / weight
	}
	return sum / float64(len(values))
}

// flows lists the flows of all pairs.
func (c *combination) flows() {
	for i, o := range c.good {
		c.out.Flows = append(c.out.Flows, later(o.Flows, measurement.SecondsOf(c.delays[i]))...)
		c.out.Warmup = max(c.out.Warmup, o.Warmup+measurement.SecondsOf(c.delays[i]))
		c.out.WarmupSteady = o.WarmupSteady && (i == 0 || c.out.WarmupSteady)
	}
}

// later are flows whose times are from so long before they started.
func later(flows []measurement.Flow, delay measurement.Seconds) []measurement.Flow {
	flows = slices.Clone(flows)
	for i := range flows {
		f := &flows[i]
		f.Info, f.Receiver = slices.Clone(f.Info), slices.Clone(f.Receiver)
		for j := range f.Info {
			f.Info[j].At += delay
		}
		for j := range f.Receiver {
			f.Receiver[j].At += delay
		}
		if f.Final != nil {
			final := *f.Final
			final.At += delay
			f.Final = &final
		}
	}
	return flows
}

// throughput adds up the counts on the axis that begins with the first start
// and ends with the first end, of files with the last, and takes the goodput of a tcp test
// from it.
func (c *combination) throughput() {
	_, files := c.out.Metrics[transferSeconds]
	sum, end := measurement.Bins{}, 0.0
	for i, o := range c.good {
		b := o.Throughput
		if b == nil || b.Width <= 0 {
			return // a peer that speaks iperf3 may bring none
		}
		sum.Width = max(sum.Width, b.Width) // of pairs that count for longer they are wider
		if own := c.delays[i].Seconds() + float64(b.Width)*float64(len(b.Bytes)); i == 0 || own < end != files {
			end = own
		}
	}
	sum.Bytes = make([]float64, int(end/float64(sum.Width)+1e-6))
	latest := 0.0 // start, in seconds
	for i, o := range c.good {
		latest = max(latest, c.delays[i].Seconds())
		for j, n := range onAxis(*o.Throughput, c.delays[i].Seconds(), float64(sum.Width), len(sum.Bytes)) {
			sum.Bytes[j] += n
		}
	}
	c.out.Throughput = &sum
	if c.spec.Kind != measurement.TCP || c.spec.Tool != measurement.Native {
		return
	}
	first, _, steady := tcp.MeasuredWindow(sum, int(math.Ceil(latest/float64(sum.Width))), c.spec)
	// The bins of thousands of pairs that start over minutes are seconds wide: whole ones from
	// the latest start to the end may be less than was asked for.
	from, to := float64(first)*float64(sum.Width), float64(len(sum.Bytes))*float64(sum.Width)
	to = min(from+float64(c.spec.Duration), to)
	from = max(min(from, to-float64(c.spec.Duration)), latest)
	if to <= from {
		return
	}
	c.out.Warmup, c.out.WarmupSteady = measurement.Seconds(from), steady
	sums := measurement.Metrics{}
	for i, o := range c.good {
		m := c.out.Pairs[c.index[i]].Metrics
		own := m["goodput_bits_per_second"]
		m["goodput_bits_per_second"] = between(*o.Throughput, from-c.delays[i].Seconds(), to-c.delays[i].Seconds()) * 8 / (to - from)
		sums["goodput_bits_per_second"] += m["goodput_bits_per_second"]
		// The count is of both directions: each has the part that it had in the pair's own window.
		for _, way := range []string{"forward_goodput_bits_per_second", "reverse_goodput_bits_per_second"} {
			if v, known := m[way]; known && own > 0 {
				m[way] = v / own * m["goodput_bits_per_second"]
				sums[way] += m[way]
			}
		}
	}
	maps.Copy(c.out.Metrics, sums)
}

const transferSeconds = "transfer_seconds"

// transfers takes the goodput of files from all of them: each pair has its own over its own
// time, and the sum of those is more than the path carried where the times differ. All of the
// time counts.
func (c *combination) transfers() {
	bytes, last := 0.0, 0.0
	for i, o := range c.good {
		bytes += o.Metrics["file_bytes"]
		last = max(last, c.delays[i].Seconds()+o.Metrics[transferSeconds])
	}
	if _, files := c.out.Metrics[transferSeconds]; files && last > 0 {
		c.out.Warmup = 0 // also that before the last of them began
		c.out.Metrics[transferSeconds], c.out.Metrics["goodput_bits_per_second"] = last, bytes*8/last
	}
}

// between is how many bytes a count has between two moments after its begin, in seconds, where
// those of a bin are spread evenly over it.
func between(count measurement.Bins, from, to float64) (bytes float64) {
	for i, n := range count.Bytes {
		low, high := float64(i)*float64(count.Width), float64(i+1)*float64(count.Width)
		bytes += n * max(min(high, to)-max(low, from), 0) / float64(count.Width)
	}
	return bytes
}

// onAxis puts a count that began at a delay on an axis of n bins of a width, all in
// seconds, each of its bins' bytes spread evenly over it.
func onAxis(count measurement.Bins, delay, width float64, n int) []float64 {
	out := make([]float64, n)
	from, each := max(delay, 0)/width, float64(count.Width)/width
	for i, bytes := range count.Bytes {
		low := from + float64(i)*each
		high := low + each
		for at := int(low); at < n && float64(at) < high; at++ {
			out[at] += bytes * (min(high, float64(at+1)) - max(low, float64(at))) / each
		}
	}
	return out
}

// latency merges the distributions, and takes from them every metric that is of one:
// percentiles have no mean.
func (c *combination) latency() {
	medians := map[bool]float64{} // before a load, and not
	k, _ := kind.Of(c.spec.Kind)
	for _, l := range k.Latencies {
		round := measurement.Metrics{}
		if r := c.merged(l.Of); r != nil {
			r.FillMetrics(round, measurement.RR)
			d := r.Distribution()
			if l.Idle {
				c.out.IdleLatency = &d
			} else {
				c.out.Latency = &d
			}
		}
		medians[l.Idle] = round["rtt_p50_seconds"]
		for _, metric := range measurement.MetricsOf(k.Name) {
			if of, is := strings.CutPrefix(metric.Name, l.Metrics+"_"); is {
				delete(c.out.Metrics, metric.Name)
				if v, ok := round["rtt_"+of]; ok {
					c.out.Metrics[metric.Name] = v
				}
			}
		}
	}
	delete(c.out.Metrics, "rtt_increase_seconds")
	if loaded, idle := medians[false], medians[true]; loaded > 0 && idle > 0 {
		c.out.Metrics["rtt_increase_seconds"] = loaded - idle
	}
}

// merged is the distribution that each pair has one of, of all together; nil without.
func (c *combination) merged(of func(measurement.Outcome) *measurement.Distribution) *latency.Recorder {
	var parts []measurement.Distribution
	for _, o := range c.good {
		if d := of(o); d != nil {
			parts = append(parts, *d)
		}
	}
	if len(parts) == 0 {
		return nil
	}
	r, err := latency.Merge(parts)
	if err != nil {
		c.out.Facts = append(c.out.Facts, fmt.Sprintf("the pairs' latencies could not be combined, so there are no percentiles: %v", err))
		return nil
	}
	return r
}

// maxPairFacts bounds how many facts are passed on.
const maxPairFacts = 20

// said passes on the facts, each once, and the settings; a setting that is not
// the same everywhere says so.
func (c *combination) said() {
	c.out.Effective = map[string]string{}
	for i, o := range c.good {
		for name, v := range o.Effective {
			switch old, known := c.out.Effective[name]; {
			case i == 0:
				c.out.Effective[name] = v
			case !known || old != v && old != differs:
				c.out.Effective[name] = differs
			}
		}
		for _, fact := range o.Facts {
			if !slices.Contains(c.out.Facts, fact) && len(c.out.Facts) < maxPairFacts {
				c.out.Facts = append(c.out.Facts, fact)
			}
		}
	}
	if spread := measurement.StartSpread(c.out.Pairs); spread > 0 {
		c.out.Effective["start_spread_seconds"] = fmt.Sprintf("%.3f", float64(spread))
	}
}

// differs stands for a setting that is not the same in all pairs.
const differs = "differs between the pairs"

// hosts says what the test cost the hosts of both ends.
func (c *combination) hosts() {
	m := c.out.Metrics
	seconds, files := m[transferSeconds]
	if !files {
		seconds = float64(c.spec.Duration)
	}
	var sources, destinations []measurement.End
	var times []span
	for i, o := range c.good {
		sources, destinations = append(sources, o.Source), append(destinations, o.Destination)
		if from := c.delays[i].Seconds(); files {
			times = append(times, span{from, from + o.Metrics[transferSeconds]})
		}
	}
	c.out.Source, c.out.Destination = hostsOf(sources, times), hostsOf(destinations, times)
	if slices.Contains(measurement.MetricOf("context_switches_per_second").Kinds, c.spec.Kind) {
		packets := (m["received_packets_per_second"] + m["packets_per_second"]) * seconds
		host.AddCost(&c.out, seconds, m["goodput_bits_per_second"]*seconds/8, packets)
	}
}

// hostIndex finds the ends that are on the same host as one of them (measurement.End.SameHost),
// itself included, in their order, without a look at each of thousands.
func hostIndex(ends []measurement.End) func(i int) []int {
	byID, byName, unidentified := map[string][]int{}, map[string][]int{}, map[string][]int{}
	for i := range ends {
		e := &ends[i]
		if e.Host != "" {
			byName[e.Host] = append(byName[e.Host], i)
		}
		switch {
		case e.HostID != "":
			byID[e.HostID] = append(byID[e.HostID], i)
		case e.Host != "":
			unidentified[e.Host] = append(unidentified[e.Host], i)
		}
	}
	return func(i int) []int {
		switch e := &ends[i]; {
		case e.HostID != "":
			return slices.Sorted(slices.Values(slices.Concat(byID[e.HostID], unidentified[e.Host])))
		case e.Host != "":
			return byName[e.Host]
		}
		return []int{i}
	}
}

// span is when a pair measured, in seconds after the first start.
type span struct{ from, to float64 }

// hostsOf is what the same end of all pairs cost. Ends on one host have each seen all of it,
// so that their mean counts; hosts add up, and the busiest says how busy they were. Where
// pairs have times of their own, as those of files, each saw its part of the host's time.
func hostsOf(ends []measurement.End, times []span) measurement.End {
	out := measurement.End{Host: ends[0].Host, HostID: ends[0].HostID, NetworkID: ends[0].NetworkID, Environment: ends[0].Environment, ReceivedTTL: ends[0].ReceivedTTL, DropsCounted: true}
	done, onHost := make([]bool, len(ends)), hostIndex(ends)
	links, cpu, switches := true, true, true // those of all are known
	for i := range ends {
		out.DropsCounted = out.DropsCounted && ends[i].DropsCounted
		out.Clock = worst(out.Clock, ends[i].Clock)
		if done[i] {
			continue
		}
		var same []measurement.End
		whole := span{math.Inf(1), 0}
		for _, j := range onHost(i) {
			same, done[j] = append(same, ends[j]), true
			if times != nil {
				whole = span{min(whole.from, times[j].from), max(whole.to, times[j].to)}
			}
		}
		for n, j := range onHost(i) {
			if times != nil && times[j].to > times[j].from {
				part := (times[j].to - times[j].from) / (whole.to - whole.from)
				same[n].CPUTime /= measurement.Seconds(part)
				same[n].ContextSwitches /= part
			}
		}
		host := oneHost(same)
		out.CPUs += host.CPUs
		out.LinkBitsPerSecond += host.LinkBitsPerSecond
		links = links && host.LinkBitsPerSecond > 0
		out.CPUTime += host.CPUTime
		out.ContextSwitches += host.ContextSwitches
		cpu, switches = cpu && readCPU(host), switches && host.ContextSwitches > 0
		out.SoftnetSqueezes += host.SoftnetSqueezes
		out.Drops = append(out.Drops, host.Drops...)
		out.Steal, out.Standstill = max(out.Steal, host.Steal), max(out.Standstill, host.Standstill)
		out.CPUBusy, out.SoftIRQ, out.BusiestCPU = max(out.CPUBusy, host.CPUBusy), max(out.SoftIRQ, host.SoftIRQ), max(out.BusiestCPU, host.BusiestCPU)
	}
	if !links {
		out.LinkBitsPerSecond = 0
	}
	if !cpu {
		out.CPUTime = 0
	}
	if !switches {
		out.ContextSwitches = 0
	}
	return out
}

// worst is the furthest and the least known of two clocks in one, each of which may not be
// known.
func worst(a, b *measurement.Clock) *measurement.Clock {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	out := *a
	if math.Abs(float64(b.Offset)) > math.Abs(float64(a.Offset)) {
		out.Offset = b.Offset
	}
	if math.Abs(b.DriftPPM) > math.Abs(a.DriftPPM) {
		out.DriftPPM = b.DriftPPM
	}
	out.Uncertainty, out.Steps = max(a.Uncertainty, b.Uncertainty), max(a.Steps, b.Steps)
	return &out
}

// readCPU says that an end read the CPU time of its host, which may be less than its
// resolution: a host always switches.
func readCPU(e measurement.End) bool { return e.CPUTime > 0 || e.ContextSwitches > 0 }

// oneHost is what several ends saw of the host that they share, as far as they did. Each
// counts the packets lost in its own network namespace, and all of them those of the host.
func oneHost(ends []measurement.End) measurement.End {
	out := measurement.End{CPUs: ends[0].CPUs, LinkBitsPerSecond: ends[0].LinkBitsPerSecond}
	n, switching := 0.0, 0.0 // ends that saw it
	for _, e := range ends {
		if readCPU(e) {
			n++
			out.CPUTime += e.CPUTime
			out.CPUBusy, out.SoftIRQ, out.Steal = out.CPUBusy+e.CPUBusy, out.SoftIRQ+e.SoftIRQ, out.Steal+e.Steal
		}
		if e.ContextSwitches > 0 {
			switching++
			out.ContextSwitches += e.ContextSwitches
		}
		out.BusiestCPU, out.Standstill = max(out.BusiestCPU, e.BusiestCPU), max(out.Standstill, e.Standstill)
		out.SoftnetSqueezes = max(out.SoftnetSqueezes, e.SoftnetSqueezes)
		for _, d := range e.Drops {
			at := slices.IndexFunc(out.Drops, func(known measurement.Drop) bool {
				return known.Place == d.Place && known.HostWide == d.HostWide
			})
			switch {
			case at < 0:
				out.Drops = append(out.Drops, d)
			case d.HostWide:
				out.Drops[at].Packets = max(out.Drops[at].Packets, d.Packets)
			default:
				out.Drops[at].Packets += d.Packets
			}
		}
	}
	if n > 0 {
		out.CPUTime /= measurement.Seconds(n)
		out.CPUBusy, out.SoftIRQ, out.Steal = out.CPUBusy/n, out.SoftIRQ/n, out.Steal/n
	}
	if switching > 0 {
		out.ContextSwitches /= switching
	}
	return out
}
