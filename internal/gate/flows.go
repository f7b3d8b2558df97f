package gate

import (
	"slices"

	"github.com/hopbench/hopbench/internal/measurement"
)

// streams judges the TCP flows of a test whose rate all together is metric.
func (j *judge) streams(metric string) {
	pairs := float64(j.limits.pairs())
	goodput := j.outcome.Metrics[metric]
	if goodput <= 0 {
		j.either(j.spare() || j.lostFlow(), "receiver-confirmed", measurement.Finding{Code: measurement.FoundNoBytes})
		return
	}
	want := j.spec.Flows
	if j.spec.Direction == measurement.Both {
		want *= 2
	}
	j.flows(want)
	if j.spec.Kind != measurement.FTP { // which brings all of a file, however small, or fails
		j.enoughFlow()
	}
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

// enoughFlow checks that the flows carried enough for a rate. Where nothing is compared, a
// reader can judge that of a slow path, but not that of a flow without a byte.
func (j *judge) enoughFlow() {
	flows := j.outcome.Flows
	if len(flows) > manyFlows {
		total := measurement.ReceivedBytes(flows)
		if total < manyFlows*minimumBytesPerFlow {
			f := measurement.Finding{Code: measurement.FoundShortFlows, Count: len(flows), Bytes: total, NeededBytes: manyFlows * minimumBytesPerFlow}
			j.short(f, j.spare() && j.paceAllows(len(flows), manyFlows*minimumBytesPerFlow))
		}
		return
	}
	least := 0
	for i, flow := range flows {
		if flow.ReceivedBytes < flows[least].ReceivedBytes {
			least = i
		}
	}
	if flow := flows[least]; flow.ReceivedBytes < minimumBytesPerFlow {
		f := measurement.Finding{Code: measurement.FoundShortFlow, Flow: least + 1, Bytes: flow.ReceivedBytes, NeededBytes: minimumBytesPerFlow}
		j.short(f, (j.spare() || lostAll(flow)) && j.paceAllows(1, minimumBytesPerFlow))
	}
}

// short judges flows that carried too little, by the path or not.
func (j *judge) short(f measurement.Finding, path bool) {
	if j.limits.FewWarn && f.Bytes > 0 {
		j.warn("enough-flow", f)
	} else {
		j.either(path, "enough-flow", f)
	}
}

// lostFlow says that the path lost a flow of the test.
func (j *judge) lostFlow() bool { return slices.ContainsFunc(j.outcome.Flows, lostAll) }

// lostAll says that a path lost a flow: nothing arrived, and its sender's timer ran out more
// than once. A kernel acknowledges what arrives even if no program gets a CPU.
func lostAll(f measurement.Flow) bool {
	return f.ReceivedBytes == 0 && f.Final != nil && f.Final.RetransmissionTimers > 1
}

// paceAllows says that so many flows could carry so much at the pace that was asked of
// them, or that an end bounds them to; else it is not the path that let too little through.
func (j *judge) paceAllows(flows int, bytes float64) bool {
	pace := j.outcome.PacedAt(j.spec) * float64(flows)
	return pace == 0 || pace/8*float64(j.spec.Duration) >= bytes
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
