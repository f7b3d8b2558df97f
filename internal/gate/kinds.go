package gate

import (
	"math"
	"slices"

	"github.com/hopbench/hopbench/internal/kind"
	"github.com/hopbench/hopbench/internal/measurement"
)

// judges are the ways to judge that descriptors of kinds name.
var judges = map[kind.Judge]func(j *judge, metric string){
	kind.JudgeFlows:       (*judge).streams,
	kind.JudgePackets:     (*judge).packets,
	kind.JudgeConnections: (*judge).connections,
	kind.JudgeTransfer:    (*judge).transfer,
}

// kind judges what a test of a kind brought back.
func (j *judge) kind() {
	k, known := kind.Of(j.spec.Kind)
	if !known {
		j.missing("test", measurement.Finding{Code: measurement.FoundUnknownKind, Kind: j.spec.Kind})
		return
	}
	for _, g := range k.Gates {
		judges[g.Judge](j, g.Metric)
	}
	for _, l := range k.Latencies {
		j.latency(l.Part, l.Of(j.outcome))
	}
}

// streams judges the TCP flows of a test whose rate all together is metric.
func (j *judge) streams(metric string) {
	pairs := float64(j.limits.pairs())
	goodput := j.outcome.Metrics[metric]
	if goodput <= 0 {
		j.either(j.spare(), "receiver-confirmed", measurement.Finding{Code: measurement.FoundNoBytes})
		return
	}
	want := j.spec.Flows
	if j.spec.Direction == measurement.Both {
		want *= 2
	}
	j.flows(want)
	j.enoughFlow()
	j.conserved()
	j.localDropsOfStreams()
	j.duration(goodput)
	switch j.spec.Direction {
	case measurement.Both:
		there, back := j.eachWay(goodput)
		j.possible(there, pairs*j.limits.SourceEgressBitsPerSecond, measurement.LimitSource, 0)
		j.possible(back, pairs*j.limits.DestinationEgressBitsPerSecond, measurement.LimitDestination, 0)
		j.possible(there, j.limits.PathBitsPerSecond, measurement.LimitHop, 0)
		j.possible(back, j.limits.ReturnBitsPerSecond, measurement.LimitReverseHop, 0)
	default:
		j.oneWay(goodput)
	}
}

// flows checks that there are as many as each pair that brought a result has. What a path
// does to a flow fails its test, so that a flow that lacks without an error is nobody's
// but the instrument's.
func (j *judge) flows(each int) {
	want := each * j.limits.pairs()
	for _, p := range j.outcome.Pairs {
		if p.Error != "" {
			want -= each // which the gate of pairs says
		}
	}
	if got := len(j.outcome.Flows); got != want {
		j.missing("flows", measurement.Finding{Code: measurement.FoundFlowsMissing, Count: got, Of: want})
	}
}

// oneWay compares a rate with what the sending end and the path allow.
func (j *judge) oneWay(rate float64) {
	cap, whose, path := j.limits.SourceEgressBitsPerSecond, measurement.LimitSource, j.limits.PathBitsPerSecond
	if j.spec.Direction == measurement.Receive {
		cap, whose, path = j.limits.DestinationEgressBitsPerSecond, measurement.LimitDestination, j.limits.ReturnBitsPerSecond
	}
	pairs := j.limits.pairs()
	j.possible(rate, cap*float64(pairs), whose, pairs)
	j.possible(rate, path, measurement.LimitHop, 0)
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
			j.either(j.spare(), "enough-flow", measurement.Finding{Code: measurement.FoundShortFlows, Count: len(flows), Bytes: total, NeededBytes: manyFlows * minimumBytesPerFlow})
		}
		return
	}
	for i, flow := range flows {
		if flow.ReceivedBytes < minimumBytesPerFlow {
			j.either(j.spare(), "enough-flow", measurement.Finding{Code: measurement.FoundShortFlow, Flow: i + 1, Bytes: flow.ReceivedBytes, NeededBytes: minimumBytesPerFlow})
			return
		}
	}
}

// conserved refuses flows that brought more than was sent into them. The window is
// part of what was sent, so that this cannot be, however packets are held up. An iperf3
// peer counts both in windows of its own.
func (j *judge) conserved() {
	if j.spec.Tool != measurement.Native {
		return
	}
	for i, flow := range j.outcome.Flows {
		if flow.SentBytes > 0 && flow.ReceivedBytes > flow.SentBytes {
			j.missing("conserved", measurement.Finding{Code: measurement.FoundMoreThanSent, Flow: i + 1, Bytes: flow.ReceivedBytes, SentBytes: flow.SentBytes})
			return
		}
	}
}

// localDropsOfStreams warns of packets that the hosts lost themselves, where they are
// a notable share of the segments that TCP sent again.
func (j *judge) localDropsOfStreams() {
	var again float64
	for _, flow := range j.outcome.Flows {
		if flow.Final != nil {
			again += float64(flow.Final.Retransmits)
		}
	}
	if f := j.dropped(); f.Dropped > 0 && again > 0 && f.Dropped >= localDropsMatter*again {
		f.Code, f.Lost = measurement.FoundDrops, again
		j.warn("local-drops", f)
	}
}

// duration checks that enough of the planned time was measured. A peer that
// speaks iperf3 may bring no series; what it received at its rate then gives
// the time.
func (j *judge) duration(goodput float64) {
	var covered measurement.Seconds
	switch b := j.outcome.Throughput; {
	case b != nil:
		covered = max(b.Width*measurement.Seconds(len(b.Bytes))-j.outcome.Warmup, 0) // of pairs the last may start when the first has ended
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
		j.missing("duration", measurement.Finding{Code: measurement.FoundNoSeries})
		return
	}
	if covered < durationTolerance*j.spec.Duration {
		j.missing("duration", measurement.Finding{Code: measurement.FoundCutShort, Measured: covered, Planned: j.spec.Duration})
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

// possible compares a rate with what was declared to be the most, to pairs together.
func (j *judge) possible(received, most float64, whose measurement.Limit, pairs int) {
	if most > 0 && received > most*rateTolerance {
		j.warn("possible", measurement.Finding{Code: measurement.FoundAboveLimit, Received: received, AtMost: most, Limit: whose, LimitPairs: pairs})
	}
}

// packets judges a test of datagrams, of which as many arrived a second as a metric says.
func (j *judge) packets(metric string) {
	m := j.outcome.Metrics
	perSecond := m[metric]
	goodput, known := m["goodput_bits_per_second"]
	if !known {
		goodput = perSecond * float64(j.spec.PacketBytes) * 8
	}
	loss := m["loss_fraction"]
	if j.spec.LossBound > 0 {
		j.search()
	}
	switch {
	case loss >= 1:
		j.broken("loss", measurement.Finding{Code: measurement.FoundAllLost})
	case goodput <= 0 && j.spec.LossBound == 0:
		j.either(j.spare(), "receiver-confirmed", measurement.Finding{Code: measurement.FoundNoPackets})
	}
	received := perSecond * float64(j.spec.Duration)
	j.localDrops(loss, received)
	if goodput <= 0 || loss >= 1 {
		return
	}
	if len(j.outcome.Flows) > 0 {
		j.flows(j.spec.Flows)
	}
	// iperf3 counts bytes at the receiver and need not say how many packets.
	if perSecond > 0 && received < minimumPackets {
		few := measurement.Finding{Code: measurement.FoundFewPackets, Count: int(math.Round(received)), Needed: minimumPackets}
		if received/(1-loss) >= minimumPackets {
			j.broken("enough-packets", few) // the path lost the others
		} else {
			j.warn("enough-packets", few) // the rate was too low for the time; it is a rate all the same
		}
	}
	if j.spec.LossBound == 0 {
		j.duration(goodput)
	}
	j.oneWay(goodput + perSecond*headersBytes*8)
}

// search judges a search for the highest rate: the step that confirmed it, the last,
// must have kept to the bound. That one before it did says nothing of the rate reported.
func (j *judge) search() {
	if n := len(j.outcome.LossSearch); n > 0 {
		if last := j.outcome.LossSearch[n-1]; last.ReceivedBitsPerSecond > 0 && last.Loss <= j.spec.LossBound {
			return
		}
	}
	j.broken("loss-bound", measurement.Finding{Code: measurement.FoundAboveLossBound, Count: len(j.outcome.LossSearch), LossBound: j.spec.LossBound})
}

// localDrops warns of packets that the hosts lost themselves, where they are a
// notable share of all that were lost: then the hosts were measured and not the
// path. A search overloads on purpose; there those count that were lost at the rate that
// was found and at the one that ended the search, which may have been a host.
func (j *judge) localDrops(loss, received float64) {
	f := j.dropped()
	lost := received * loss / (1 - loss)
	switch {
	case f.Dropped == 0:
		return
	case j.spec.LossBound > 0 && f.Dropped < localDropsMatter*j.lostAtTheEnd():
		return
	case j.spec.LossBound > 0:
		f.Code = measurement.FoundDropsOfSearch
	case loss >= 1:
		f.Code = measurement.FoundDropsOfAll
	case loss > 0 && f.Dropped >= localDropsMatter*lost:
		f.Code, f.Lost = measurement.FoundDrops, lost
	default:
		return
	}
	j.warn("local-drops", f)
}

// lostAtTheEnd is how many packets were lost at the rate that ended a search, the lowest
// that failed; 0 where none did.
func (j *judge) lostAtTheEnd() float64 {
	var lowest measurement.LossStep
	for _, s := range j.outcome.LossSearch {
		if s.Loss > j.spec.LossBound && (lowest.OfferedBitsPerSecond == 0 || s.OfferedBitsPerSecond < lowest.OfferedBitsPerSecond) {
			lowest = s
		}
	}
	return lowest.Loss * float64(lowest.Packets)
}

// dropped is how many packets the ends lost themselves, and where. What two ends
// on one host both report is one counter of that host, seen twice.
func (j *judge) dropped() (f measurement.Finding) {
	source, destination := j.outcome.Source, j.outcome.Destination
	add := func(end string, d measurement.Drop) {
		f.Dropped += d.Packets
		f.Drops = append(f.Drops, measurement.EndDrop{End: end, Place: d.Place, Packets: d.Packets})
	}
	ofSource := "source"
	if source.SameNetwork(destination) {
		ofSource = "both"
	}
	for _, d := range source.Drops {
		add(ofSource, d)
	}
	for _, d := range destination.Drops {
		if !(source.SameNetwork(destination) || d.HostWide && source.SameHost(destination)) || !slices.Contains(source.Drops, d) {
			add("destination", d)
		}
	}
	if f.Dropped == 0 {
		return measurement.Finding{Dropped: j.outcome.Metrics["dropped_packets_count"]}
	}
	return f
}

// latency judges the round trips of a part of the test, if it has parts.
func (j *judge) latency(part string, d *measurement.Distribution) {
	if d == nil || d.Samples == 0 {
		j.broken("receiver-confirmed", measurement.Finding{Code: measurement.FoundNoAnswers, Part: part})
		return
	}
	if d.Samples < minimumRoundTrips {
		f := measurement.Finding{Code: measurement.FoundFewAnswers, Part: part, Count: int(d.Samples), Needed: minimumRoundTrips}
		if j.spec.Kind == measurement.RR && j.spec.RequestsPerSecond == 0 && d.Unanswered > 0 {
			f.Of = int(d.Due()) // each that was lost took the time of many
		}
		if j.limits.FewWarn {
			j.warn("enough-samples", f)
		} else {
			j.either(j.spare() && j.tookTime(d), "enough-samples", f)
		}
	}
	j.unanswered(part, d)
	if d.Min <= 0 || d.Min > d.Max {
		j.missing("clock", measurement.Finding{Code: measurement.FoundImpossibleTimes, Part: part, Min: d.Min, Max: d.Max})
	}
}

// tookTime says that the round trips of an rr test took the time they had, or that
// requests were lost meanwhile: an end that comes late takes a single one.
func (j *judge) tookTime(d *measurement.Distribution) bool {
	if j.outcome.Metrics["loss_fraction"] > mostLost {
		return true
	}
	rate := measurement.Seconds(j.outcome.Metrics["transactions_per_second"])
	return rate <= 0 || measurement.Seconds(d.Samples)/rate >= durationTolerance*j.spec.Duration
}

// mostLost is the share of the requests sent that a path has to lose for the lack of a
// median to be its doing, and not that of a sender that never sent them.
const mostLost = 0.4

// unanswered refuses round trips whose median falls on a request without an answer. Failed
// connections have a judgement of their own.
func (j *judge) unanswered(part string, d *measurement.Distribution) {
	k, _ := kind.Of(j.spec.Kind)
	counted := slices.ContainsFunc(k.Gates, func(g kind.Gate) bool { return g.Judge == kind.JudgeConnections })
	if counted || d.Lacks(50) != measurement.LacksAnswer {
		return
	}
	f := measurement.Finding{Code: measurement.FoundUnanswered, Part: part, Count: int(d.Unanswered), Of: int(d.Due()), Fatal: !j.limits.FewWarn}
	f.PathFailure = f.Fatal && j.outcome.Metrics["loss_fraction"] > mostLost
	j.warn("answered", f)
}

// connections judges a test of new connections, of which as many failed as a metric says.
func (j *judge) connections(metric string) {
	failed := j.outcome.Metrics[metric]
	done := 0.0
	if d := j.outcome.Latency; d != nil {
		done = float64(d.Samples)
	}
	f := measurement.Finding{Code: measurement.FoundFailedConnections, Count: int(math.Round(failed)), Of: int(math.Round(done + failed))}
	switch share := failed / max(done+failed, 1); {
	case share > failuresFail:
		j.broken("connections", f)
	case share > failuresWarn:
		j.warn("connections", f)
	}
}

// transfer judges one of a file, which took as long as a metric says.
func (j *judge) transfer(metric string) {
	if took := j.outcome.Metrics[metric]; took > 0 && took < shortTransfer {
		j.warn("short", measurement.Finding{Code: measurement.FoundShortTransfer, Measured: measurement.Seconds(took)})
	}
}
