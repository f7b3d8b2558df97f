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
	// nearlyAsBusy is the share of the time of the busiest hop for which another one sends at
	// its rate that may be the slower one: drops, and readings at other moments, make that much.
	nearlyAsBusy = 0.95
	// threadFull is the share of the time in which a thread ran, or waited for a CPU,
	// from which on it can do no more.
	threadFull = 0.85
	// shortQueueBytes is what waits in front of a hop that polices: next to nothing.
	shortQueueBytes = 32 << 10
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
	// rate and flowRate are how much payload the hop sent in a second in which it, or a flow
	// of its, was sending at its rate; bit/s, of all instances, 0 where not known.
	rate, flowRate float64
	// Packets.
	queueDropped, flowDropped, lost, reordered float64
}

// instance is what one of a hop counted: bytes, shares of the time, and the rate in bit/s.
type instance struct{ bytes, busy, thread, rate float64 }

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
		h.rate += one.rate
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
		samples, around := within(series.Samples, float64(from), float64(to))
		if len(samples) < 2 {
			continue
		}
		first, last := samples[0], samples[len(samples)-1]
		elapsed := last.At - first.At
		if spec.Duration == 0 { // all that passed was the file's
			elapsed = min(elapsed, to-from)
		}
		counted := last.Since(first)
		sent := oneWayOf(counted, reverse)
		one := instance{bytes: sent.bytes, busy: sent.busy / float64(elapsed), thread: sent.thread / float64(elapsed)}
		i := len(out) - 1
		if i < 0 || out[i].name != series.Name {
			out = append(out, hopFacts{name: series.Name, parts: series.Parts})
			i++
		}
		h := &out[i]
		h.flowBusy += sent.flowBusy / float64(elapsed)
		var flowRate float64
		one.rate, flowRate = ratesOf(series.Samples, reverse, spec.Direction == measurement.Both)
		h.flowRate = max(h.flowRate, flowRate)
		h.instances = append(h.instances, one)
		// What a sender sends again in the measured time may have been dropped before.
		counted = around[len(around)-1].Since(around[0])
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
// are fewer than two in its half; around are all of these.
func within(samples []measurement.HopSample, from, to float64) (inside, around []measurement.HopSample) {
	first, last := 0, len(samples)-1
	for first < last && float64(samples[first+1].At) <= from {
		first++
	}
	for last > first && float64(samples[last-1].At) >= to {
		last--
	}
	around = samples[first : last+1]
	if n := len(around); n > 3 && float64(around[n-2].At-around[1].At) >= (to-from)/2 {
		return around[1 : n-1], around
	}
	return around, around
}

// sentOneWay is what a hop counted in one direction: bytes, packets, and times in seconds.
type sentOneWay struct{ bytes, packets, busy, flowBusy, thread float64 }

func oneWayOf(s measurement.HopSample, reverse bool) sentOneWay {
	if reverse {
		return sentOneWay{s.BackwardBytes, s.BackwardPackets, float64(s.BackwardBusy), float64(s.BackwardFlowBusy), float64(s.BackwardThread)}
	}
	return sentOneWay{s.ForwardBytes, s.ForwardPackets, float64(s.ForwardBusy), float64(s.ForwardFlowBusy), float64(s.ForwardThread)}
}

// ratesOf are the rate of a hop and that of each of its flows, in bit/s of payload, from all of
// its readings: when the bytes came, and how many a receiver had of them by then, matters not.
// What a link emulator loses or drops towards the destination has passed the hop's interface,
// which is before it, but takes no time at its rate. Such packets are about as large as the
// others of the same reading.
func ratesOf(samples []measurement.HopSample, reverse, both bool) (rate, flowRate float64) {
	emulated := !reverse && samples[len(samples)-1].CPU > 0
	var sum sentOneWay
	var payload, flowPayload float64
	for i, s := range samples[1:] {
		counted := s.Since(samples[i])
		sent := oneWayOf(counted, reverse)
		bits, packets := max(0, 8*(sent.bytes-frameOverhead*sent.packets)), sent.packets
		if both { // so are the drops
			packets += oneWayOf(counted, !reverse).packets
		}
		passed := func(dropped float64) float64 {
			if !emulated {
				return 1
			}
			return max(0, 1-dropped/max(packets, 1))
		}
		payload += bits * passed(counted.LostPackets+counted.FlowQueueDroppedPackets+counted.QueueDroppedPackets)
		flowPayload += bits * passed(counted.LostPackets+counted.FlowQueueDroppedPackets)
		sum.busy += sent.busy
		sum.flowBusy += sent.flowBusy
	}
	if sum.busy > 0 {
		rate = payload / sum.busy
	}
	if sum.flowBusy > 0 {
		flowRate = flowPayload / sum.flowBusy
	}
	return rate, flowRate
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

// slowest is the hop that was sending at its rate for the longest, or of several for about as
// long that with the lowest rate: a hop in front of it also sends what it drops.
func slowest(hops []hopFacts) hopFacts {
	out := most(hops, func(h hopFacts) float64 { return h.busy })
	least := nearlyAsBusy * out.busy
	for _, h := range hops {
		if h.busy >= least && h.rate > 0 && h.rate < out.rate {
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

// rateOf and flowRateOf are the rates on the wire, in bit/s, of a hop for all that passes and
// for each flow; the goodput over the share of the time, where it counts no bytes.
func (w oneWay) rateOf(d *division, h hopFacts) float64 {
	return d.wire(cmp.Or(h.rate, w.goodput/min(h.busy, 1)))
}

func (w oneWay) flowRateOf(d *division, h hopFacts) float64 {
	return d.wire(cmp.Or(h.flowRate, w.goodput/min(h.flowBusy, float64(len(w.flows)))))
}

// blameHop gives what a sender fills while something further on is slower to the hop
// whose counters show that its rate, or its thread, is used up. It reports whether there
// is one.
func (w oneWay) blameHop(d *division) bool {
	flows := float64(len(w.flows))
	slow := slowest(w.hops)
	busy := most(w.hops, func(h hopFacts) float64 { return h.busy }).busy
	slowFlow := most(w.hops, func(h hopFacts) float64 { return h.flowBusy })
	full := most(w.hops, func(h hopFacts) float64 { return h.thread })
	switch {
	case busy >= rateUsed && busy >= slowFlow.flowBusy/flows:
		cause := result.CauseHopRate
		if slow.queueDropped > 0 && w.shortQueue(d) {
			cause = result.CauseHopPolicer
		}
		d.blame(cause, place{slow.ofRate(), w.rateOf(d, slow)}, busy >= surelyUsed || queued(d.flows))
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
// that paces by itself keeps any queue short, but for when it tries what the path carries: if
// it loses little then, the longest round trip tells.
func (w oneWay) shortQueue(d *division) bool {
	waiting := func(f flowFacts) float64 { return f.rtt - f.minRTT }
	if pacesItself(w.congestionControl) && !w.overshoots(d) {
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
