package gate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/quantity"
)

// judges are the gates of each kind of test.
func judges() map[measurement.Kind]func(*judge) {
	return map[measurement.Kind]func(*judge){
		measurement.TCP:   func(j *judge) { j.streams("goodput_bits_per_second") },
		measurement.UDP:   (*judge).packets,
		measurement.PPS:   (*judge).packets,
		measurement.RR:    func(j *judge) { j.latency("", j.outcome.Latency) },
		measurement.CRR:   (*judge).connections,
		measurement.Load:  (*judge).load,
		measurement.FTP:   (*judge).transfer,
		measurement.MTU:   (*judge).mtu,
		measurement.Ping:  func(j *judge) { j.latency("", j.outcome.Latency) },
		measurement.Trace: func(*judge) {}, // the fingerprint says what a trace must show
	}
}

// load judges latency without and under the load of TCP flows.
func (j *judge) load() {
	j.streams("load_bits_per_second")
	j.latency("without load: ", j.outcome.IdleLatency)
	j.latency("under load: ", j.outcome.Latency)
}

// streams judges the TCP flows of a test whose rate all together is metric.
func (j *judge) streams(metric string) {
	pairs := float64(j.limits.pairs())
	goodput := j.outcome.Metrics[metric]
	if goodput <= 0 {
		j.fail("receiver-confirmed", "the receiver confirmed no bytes")
		return
	}
	want := j.spec.Flows * j.limits.pairs()
	if j.spec.Direction == measurement.Both {
		want *= 2
	}
	if got := len(j.outcome.Flows); got != want {
		j.fail("flows", "%d of %d flows brought back a result", got, want)
	}
	j.enoughFlow()
	j.duration(goodput)
	switch j.spec.Direction {
	case measurement.Both:
		there, back := j.eachWay(goodput)
		j.possible(there, pairs*j.limits.SourceEgressBitsPerSecond, "the source's egress cap")
		j.possible(back, pairs*j.limits.DestinationEgressBitsPerSecond, "the destination's egress cap")
		j.possible(there, j.limits.PathBitsPerSecond, "the rate of a hop")
		j.possible(back, j.limits.ReturnBitsPerSecond, "the rate of a hop, in the reverse direction,")
	default:
		j.oneWay(goodput)
	}
}

// oneWay compares a rate with what the sending end and the path allow.
func (j *judge) oneWay(rate float64) {
	cap, whose, path := j.limits.SourceEgressBitsPerSecond, "the source's egress cap", j.limits.PathBitsPerSecond
	if j.spec.Direction == measurement.Receive {
		cap, whose, path = j.limits.DestinationEgressBitsPerSecond, "the destination's egress cap", j.limits.ReturnBitsPerSecond
	}
	if j.limits.pairs() > 1 {
		whose += ", times the pairs,"
	}
	j.possible(rate, cap*float64(j.limits.pairs()), whose)
	j.possible(rate, path, "the rate of a hop")
}

// enoughFlow checks that the flows carried enough for a rate.
func (j *judge) enoughFlow() {
	flows := j.outcome.Flows
	if len(flows) > manyFlows {
		var total int64
		for _, flow := range flows {
			total += flow.ReceivedBytes
		}
		if total < manyFlows*minimumBytesPerFlow {
			j.fail("enough-flow", "%d flows carried %d bytes together in the measured time, too few for a rate (at least %d)", len(flows), total, manyFlows*minimumBytesPerFlow)
		}
		return
	}
	for i, flow := range flows {
		if flow.ReceivedBytes < minimumBytesPerFlow {
			j.fail("enough-flow", "flow %d carried %d bytes in the measured time, too few for a rate (at least %d)", i+1, flow.ReceivedBytes, minimumBytesPerFlow)
			return
		}
	}
}

// duration checks that enough of the planned time was measured. A peer that
// speaks iperf3 may bring no series; what it received at its rate then gives
// the time.
func (j *judge) duration(goodput float64) {
	var covered measurement.Seconds
	switch b := j.outcome.Throughput; {
	case b != nil:
		covered = b.Width*measurement.Seconds(len(b.Bytes)) - j.outcome.Warmup
	case j.spec.Tool == measurement.IPerf3:
		var received int64
		for _, flow := range j.outcome.Flows {
			received += flow.ReceivedBytes
		}
		if received == 0 {
			return // nothing to judge by
		}
		covered = measurement.Seconds(float64(received) * 8 / goodput)
	default:
		j.fail("duration", "the receiver brought back no series")
		return
	}
	if covered < durationTolerance*j.spec.Duration {
		j.fail("duration", "%.3f s were measured of the %.3f s planned", float64(covered), float64(j.spec.Duration))
	}
}

// eachWay divides the rate of a test of both directions: by its metrics, or
// else as the flows' bytes divide.
func (j *judge) eachWay(goodput float64) (there, back float64) {
	m := j.outcome.Metrics
	if there, back = m["forward_goodput_bits_per_second"], m["reverse_goodput_bits_per_second"]; there > 0 || back > 0 {
		return there, back
	}
	var all, reverse float64
	for _, flow := range j.outcome.Flows {
		all += float64(flow.ReceivedBytes)
		if flow.Reverse {
			reverse += float64(flow.ReceivedBytes)
		}
	}
	if all == 0 {
		return goodput, 0
	}
	return goodput * (1 - reverse/all), goodput * reverse / all
}

func (j *judge) possible(received, cap float64, whose string) {
	if cap > 0 && received > cap*rateTolerance {
		j.fail("possible", "%.4g bit/s received is more than %s of %.4g bit/s allows", received, whose, cap)
	}
}

// packets judges a test of datagrams.
func (j *judge) packets() {
	m := j.outcome.Metrics
	goodput, perSecond := m["goodput_bits_per_second"], m["received_packets_per_second"]
	if j.spec.Kind == measurement.PPS {
		perSecond = m["packets_per_second"]
		goodput = perSecond * float64(j.spec.PacketBytes) * 8
	}
	loss := m["loss_fraction"]
	switch {
	case loss >= 1:
		j.fail("loss", "every packet was lost")
	case goodput <= 0:
		j.fail("receiver-confirmed", "the receiver confirmed no packet")
	}
	received := perSecond * float64(j.spec.Duration)
	j.localDrops(loss, received)
	if goodput <= 0 || loss >= 1 {
		return
	}
	if got, want := len(j.outcome.Flows), j.spec.Flows*j.limits.pairs(); got > 0 && got != want {
		j.fail("flows", "%d of %d flows brought back a result", got, want)
	}
	// iperf3 counts bytes at the receiver and need not say how many packets.
	if perSecond > 0 && received < minimumPackets {
		j.fail("enough-packets", "%.0f packets in the measured time are too few for a share of lost ones (at least %d)", received, minimumPackets)
	}
	if j.spec.LossBound > 0 {
		j.search()
	} else {
		j.duration(goodput)
	}
	j.oneWay(goodput + perSecond*headersBytes*8)
}

// search judges a search for the highest rate: some step must have kept to the
// bound.
func (j *judge) search() {
	for _, step := range j.outcome.LossSearch {
		if step.ReceivedBitsPerSecond > 0 && step.Loss <= j.spec.LossBound {
			return
		}
	}
	j.fail("loss-bound", "none of %s lost at most %s", quantity.Count(len(j.outcome.LossSearch), "rate"), quantity.Format(j.spec.LossBound, measurement.Fraction))
}

// localDrops warns of packets that the hosts lost themselves, where they are a
// notable share of all that were lost: then the hosts were measured and not the
// path. A search overloads on purpose; there every such packet counts, because
// what ended the search may have been a host.
func (j *judge) localDrops(loss, received float64) {
	dropped, where := j.dropped()
	if dropped == 0 {
		return
	}
	if j.spec.LossBound > 0 {
		j.warn("local-drops", "during the search the hosts themselves lost %.0f packets (%s); they may have ended it, and not the path", dropped, where)
		return
	}
	lost := received * loss / (1 - loss)
	switch {
	case loss >= 1:
		j.warn("local-drops", "the hosts themselves lost %.0f packets (%s)", dropped, where)
	case loss > 0 && dropped >= localDropsMatter*lost:
		j.warn("local-drops", "the hosts themselves lost %.0f packets (%s), and about %.0f were lost in all", dropped, where, lost)
	}
}

// maxPlaces bounds how many places a warning names.
const maxPlaces = 4

// dropped is how many packets the ends lost themselves, and where. What two ends
// on one host both report is one counter of that host, seen twice.
func (j *judge) dropped() (float64, string) {
	source, destination := j.outcome.Source, j.outcome.Destination
	total, places := 0.0, []string(nil)
	add := func(whose string, d measurement.Drop) {
		total += d.Packets
		places = append(places, fmt.Sprintf("%s %s %.0f", whose, d.Place, d.Packets))
	}
	ofSource := "source's"
	if source.SameNetwork(destination) {
		ofSource = "both ends'"
	}
	for _, d := range source.Drops {
		add(ofSource, d)
	}
	for _, d := range destination.Drops {
		if !(source.SameNetwork(destination) || d.HostWide && source.SameHost(destination)) || !slices.Contains(source.Drops, d) {
			add("destination's", d)
		}
	}
	if total == 0 {
		return j.outcome.Metrics["dropped_packets_count"], "no place is known"
	}
	if len(places) > maxPlaces {
		places = append(places[:maxPlaces], "…")
	}
	return total, strings.Join(places, ", ")
}

// latency judges round trips; when says of which part of the test they are.
func (j *judge) latency(when string, d *measurement.Distribution) {
	if d == nil || d.Samples == 0 {
		j.fail("receiver-confirmed", "%sno answer came back", when)
		return
	}
	if d.Samples < minimumRoundTrips {
		say := j.fail
		if j.limits.FewWarn {
			say = j.warn
		}
		say("enough-samples", "%s%d answers are too few for a median (at least %d)", when, d.Samples, minimumRoundTrips)
	}
	if d.Min <= 0 || d.Min > d.Max {
		j.fail("clock", "%sa smallest round trip of %v s and a largest of %v s cannot both be true", when, d.Min, d.Max)
	}
}

// connections judges a test of new connections.
func (j *judge) connections() {
	failed := j.outcome.Metrics["failed_connections_count"]
	done := 0.0
	if d := j.outcome.Latency; d != nil {
		done = float64(d.Samples)
	}
	const format = "%.0f of %.0f connections came to nothing"
	switch share := failed / max(done+failed, 1); {
	case share > failuresFail:
		j.fail("connections", format, failed, done+failed)
	case share > failuresWarn:
		j.warn("connections", format, failed, done+failed)
	}
	j.latency("", j.outcome.Latency)
}

// transfer judges one of a file, whose bytes the test itself has checked.
func (j *judge) transfer() {
	j.streams("goodput_bits_per_second")
	if took := j.outcome.Metrics["transfer_seconds"]; took > 0 && took < shortTransfer {
		j.warn("short", "the file was through in %.3g s, much of which TCP takes to find the path's rate; have a larger one", took)
	}
}

// mtu judges a search for the largest packet, which either way back may lack.
func (j *judge) mtu() {
	if j.outcome.Metrics["path_mtu_bytes"] <= 0 {
		j.fail("receiver-confirmed", "no packet of any size came through")
	}
}
