package cause

import (
	"cmp"
	"slices"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

const (
	// rateUsed is the share of the time in which a hop sends at its rate from which
	// on the rate is used up: congestion control leaves it a little after a loss.
	rateUsed = 0.9
	// mostlyUsed is the same for a rate whose queue was seen to drop.
	mostlyUsed = 0.7
	// surelyUsed is the same where a window that a flow filled might explain the rate
	// as well.
	surelyUsed = 0.97
	// threadFull is the share of the time in which a thread ran, or waited for a CPU,
	// from which on it can do no more.
	threadFull = 0.85
	// shortQueueBytes is what waits in front of a hop that polices: next to nothing.
	shortQueueBytes = 32 << 10
	// fileReadings is how many readings a file must last for those behind its end to be
	// left out. What ends a test passes meanwhile.
	fileReadings = 10
)

// hopFacts is what one hop counted in the measured time, in the direction of the data.
// Instances of one name are together.
type hopFacts struct {
	name      string
	parts     measurement.HopParts
	instances []instance
	// Shares of the time, the mean over the instances that carried data, of a file the most. That of
	// the flows' rates is added up over flows.
	busy, flowBusy, thread float64
	// fileBusy and fileFlowBusy are those times in seconds, from the start of a file until
	// fileUntil; 0 of a test that lasts for a time.
	fileBusy, fileFlowBusy, fileUntil float64
	// Packets.
	queueDropped, flowDropped, lost, reordered float64
}

// instance is what one of a hop counted: bytes, shares of the time, and seconds.
type instance struct{ bytes, busy, thread, fileBusy float64 }

// carries is the share of the bytes of the instance with the most from which on another has
// carried data, and not just confirmed them, or what the two ends say to each other.
const carries = 0.1

// ofInstances are the means over those that carried data. A file is there when the last of its
// segments is, which came through the busiest: how long the others were idle by then matters not.
func (h *hopFacts) ofInstances(file bool) {
	most := func(of func(instance) float64) (out float64) {
		for _, one := range h.instances {
			out = max(out, of(one))
		}
		return out
	}
	least := carries * most(func(one instance) float64 { return one.bytes })
	h.instances = slices.DeleteFunc(h.instances, func(one instance) bool { return one.bytes < least })
	for _, one := range h.instances {
		n := float64(len(h.instances))
		h.busy += one.busy / n
		h.thread += one.thread / n
		h.fileBusy += one.fileBusy / n
	}
	if file {
		h.busy = most(func(one instance) float64 { return one.busy })
		h.thread = most(func(one instance) float64 { return one.thread })
	}
}

// ofRate and ofFlowRate are whose rate it is that the hop's counters speak of.
func (h hopFacts) ofRate() string     { return cmp.Or(h.parts.Rate, h.name) }
func (h hopFacts) ofFlowRate() string { return cmp.Or(h.parts.FlowRate, h.name) }

// hopsOf reads the hops' counters over the measured time.
func hopsOf(t measurement.Trial, spec measurement.Spec, reverse bool) []hopFacts {
	from, to := measured(t, spec)
	var out []hopFacts
	for _, series := range t.HopSeries {
		samples := within(series.Samples, float64(from), float64(to))
		if len(samples) < 2 {
			continue
		}
		first, last := samples[0], samples[len(samples)-1]
		elapsed := last.At - first.At
		if spec.Duration == 0 { // all that passed was the file's
			elapsed = min(elapsed, to-from)
		}
		counted := last.Since(first)
		of := func(s measurement.HopSample) (bytes, busy, flowBusy, thread float64) {
			if reverse {
				return s.BackwardBytes, float64(s.BackwardBusy), float64(s.BackwardFlowBusy), float64(s.BackwardThread)
			}
			return s.ForwardBytes, float64(s.ForwardBusy), float64(s.ForwardFlowBusy), float64(s.ForwardThread)
		}
		bytes, busy, flowBusy, thread := of(counted)
		one := instance{bytes: bytes, busy: busy / float64(elapsed), thread: thread / float64(elapsed)}
		i := len(out) - 1
		if i < 0 || out[i].name != series.Name {
			out = append(out, hopFacts{name: series.Name, parts: series.Parts})
			i++
		}
		h := &out[i]
		h.flowBusy += flowBusy / float64(elapsed)
		if spec.Duration == 0 {
			end := untilFile(series.Samples, to)
			_, one.fileBusy, flowBusy, _ = of(end.Since(series.Samples[0]))
			h.fileFlowBusy += flowBusy
			h.fileUntil = float64(end.At)
		}
		h.instances = append(h.instances, one)
		h.queueDropped += counted.QueueDroppedPackets
		h.flowDropped += counted.FlowQueueDroppedPackets
		h.lost += counted.LostPackets
		h.reordered += counted.ReorderedPackets
	}
	for i := range out {
		out[i].ofInstances(spec.Duration == 0)
	}
	return out
}

// within are the readings of the measured time, and one before and behind it where there
// are fewer than two in its half.
func within(samples []measurement.HopSample, from, to float64) []measurement.HopSample {
	first, last := 0, len(samples)-1
	for first < last && float64(samples[first+1].At) <= from {
		first++
	}
	for last > first && float64(samples[last-1].At) >= to {
		last--
	}
	inside := samples[first : last+1]
	if n := len(inside); n > 3 && float64(inside[n-2].At-inside[1].At) >= (to-from)/2 {
		return inside[1 : n-1]
	}
	return inside
}

// untilFile is the last reading before the end of a file, or the last one of all where a file
// is there after a few of them: then it matters more how much passed since the one before.
func untilFile(samples []measurement.HopSample, end measurement.Seconds) measurement.HopSample {
	n := 0
	for n < len(samples) && samples[n].At <= end {
		n++
	}
	if n > fileReadings {
		return samples[n-1]
	}
	return samples[len(samples)-1]
}

// most is the hop with the most of something, the first of several; one without any facts
// where no hop has any of it.
func most(hops []hopFacts, of func(hopFacts) float64) (out hopFacts) {
	for _, h := range hops {
		if of(h) > of(out) {
			out = h
		}
	}
	return out
}

// wire is a rate of payload as it is on the wire, in bit/s.
func (d division) wire(goodput float64) float64 { return d.onWire(goodput, frameOverhead) }

// onWire is a rate of payload with so many bytes more for each segment.
func (d division) onWire(goodput, overhead float64) float64 {
	mss := cmp.Or(medianOver(d.flows, func(f flowFacts) float64 { return float64(f.mss) }), usualMSS)
	return goodput * (mss + overhead) / mss
}

// hopRate is the rate on the wire, in bit/s, of a hop that sent at it for a share of the
// time. A hop is not busy during a file's commands, slow start and losses; so that of a file
// is what was sent until a moment over the seconds for which the hop had been busy by then.
func (w oneWay) hopRate(d *division, share, busy, until float64) float64 {
	if sent := w.sentUntil(until); sent > 0 && busy > 0 {
		return d.wire(sent*8) / busy
	}
	return d.wire(w.goodput) / share
}

// rateOf and flowRateOf are those of a hop for all that passes and for each flow.
func (w oneWay) rateOf(d *division, h hopFacts) float64 {
	return w.hopRate(d, min(h.busy, 1), h.fileBusy, h.fileUntil)
}

func (w oneWay) flowRateOf(d *division, h hopFacts) float64 {
	flows := float64(len(w.flows))
	return w.hopRate(d, flows*min(h.flowBusy/flows, 1), h.fileFlowBusy, h.fileUntil)
}

// sentUntil is how many bytes the senders of a file had sent by a moment, each counted once:
// also what came behind the end of a segment, and nobody received. It is 0 where not known.
func (w oneWay) sentUntil(at float64) (bytes float64) {
	if at <= 0 {
		return 0
	}
	for _, f := range w.flows {
		if f.Final == nil || f.Final.SentBytes == 0 {
			return 0
		}
		var before, after measurement.TCPInfo
		for _, after = range append(slices.Clone(f.Info), *f.Final) {
			if float64(after.At) >= at {
				break
			}
			before = after
		}
		part := 1.0 // it had ended
		if after.At > before.At {
			part = (at - float64(before.At)) / float64(after.At-before.At)
		}
		once := func(s measurement.TCPInfo) float64 { return float64(s.SentBytes - s.RetransmittedBytes) }
		bytes += once(before) + min(part, 1)*(once(after)-once(before))
	}
	return bytes
}

// blameHop gives what a sender fills while something further on is slower to the hop
// whose counters show that its rate, or its thread, is used up. It reports whether there
// is one.
func (w oneWay) blameHop(d *division) bool {
	flows := float64(len(w.flows))
	slow := most(w.hops, func(h hopFacts) float64 { return h.busy })
	slowFlow := most(w.hops, func(h hopFacts) float64 { return h.flowBusy })
	full := most(w.hops, func(h hopFacts) float64 { return h.thread })
	switch {
	case slow.busy >= rateUsed && slow.busy >= slowFlow.flowBusy/flows:
		cause := result.CauseHopRate
		if slow.queueDropped > 0 && w.shortQueue(d) {
			cause = result.CauseHopPolicer
		}
		d.blame(cause, place{slow.ofRate(), w.rateOf(d, slow)}, slow.busy >= surelyUsed || queued(d.flows))
	case slowFlow.flowBusy/flows >= rateUsed:
		d.blame(result.CauseHopFlowRate, place{slowFlow.ofFlowRate(), w.flowRateOf(d, slowFlow)},
			slowFlow.flowBusy/flows >= surelyUsed || queued(d.flows))
	case full.thread >= threadFull && full.queueDropped+full.flowDropped == 0: // its queues would not fill
		d.blame(result.CauseHopCPU, place{hop: cmp.Or(full.parts.Process, full.name)}, queued(d.flows))
	default:
		return false
	}
	return true
}

// shortQueue says that next to nothing waits at the measured round trips. A congestion control
// that paces by itself keeps any queue short, but for when it tries what the path carries.
func (w oneWay) shortQueue(d *division) bool {
	waiting := func(f flowFacts) float64 { return f.rtt - f.minRTT }
	if pacesItself(w.congestionControl) {
		waiting = func(f flowFacts) float64 { return f.longestRTT - f.minRTT }
	}
	return medianOver(d.flows, waiting)*w.goodput/8 < shortQueueBytes
}

// blame moves what the sender's windows were waiting for to a cause. Windows also says
// that the receive window and the send buffer only bounded its queue.
func (d *division) blame(cause result.Cause, at place, windows bool) {
	d.shares.move(cause, 1, result.CauseCongestionWindowLoss, result.CauseCongestionWindowDelay, result.CauseUnknown)
	if windows {
		d.shares.move(cause, 1, result.CauseReceiveWindow, result.CauseSendBuffer)
	}
	d.places[cause] = at
}
