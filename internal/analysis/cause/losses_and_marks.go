package cause

import (
	"cmp"
	"math"
	"slices"

	"github.com/hopbench/hopbench/internal/analysis/statistics"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

const (
	// leastMarkEvents is in how many round trips of a flow marks must have come.
	leastMarkEvents = 3
	// spurious is the share of the retransmitted segments that arrived twice from
	// which on losses are not what they were sent again for.
	spurious = 0.5
	// dropsExplain is the share of the retransmits that drops seen somewhere must
	// make up to be their reason.
	dropsExplain = 0.5
	// overshoots is the share of its segments that a congestion control that paces by itself
	// loses at least in front of a policer: it tries 1.25 times the rate in one of eight
	// round trips, which is 3 % more.
	overshoots = 0.02
	// largePacket is how many segments a packet may have that offloading has not cut
	// yet: 64 KiB of them.
	largePacket = 45
	// lossExplains is how far the rate may be from what the losses predict, as a
	// factor, for the losses to explain it.
	lossExplains = 2
	// grows is by how much a congestion window has grown that was still growing.
	grows = 1.3
	// receiverGrows is by how much a receive window has grown that its kernel still
	// tunes: it doubles with each round trip (tcp_rcv_space_adjust).
	receiverGrows = 2
	// steadyVariation is the coefficient of variation of a rate that something
	// sets.
	steadyVariation = 0.1
)

// blameMarks gives a congestion window that is full without losses to the queue whose
// marks keep it small, if they came again and again (RFC 3168).
func (d *division) blameMarks() {
	events := 0.0
	for _, f := range d.flows {
		events += f.markEvents
	}
	if events >= leastMarkEvents*float64(len(d.flows)) {
		d.shares.move(result.CauseHopMarks, 1, result.CauseCongestionWindowDelay)
	}
}

// explainLosses keeps losses as a cause where they predict the rate, and finds who made
// them.
func (w oneWay) explainLosses(d *division) {
	if w.overshoots(d) { // what it carries then is what was not dropped
		d.shares.move(result.CauseCongestionWindowLoss, 1, result.CauseCongestionWindowDelay, result.CauseUnknown)
	}
	if d.shares[result.CauseCongestionWindowLoss] == 0 {
		return
	}
	var retransmits, duplicates, reorderings, retransmittedFlows, explained, costly float64
	for _, f := range d.flows {
		retransmits += f.retransmits
		duplicates += f.duplicates
		reorderings += f.reorderings
		if f.retransmits > 0 {
			retransmittedFlows++
			if f.lossPredictsRate() {
				explained++
			}
			if f.lossesTook > f.elapsed/2 {
				costly++
			}
		}
	}
	policed := most(w.hops, func(h hopFacts) float64 { return h.queueDropped })
	flowLimited := most(w.hops, func(h hopFacts) float64 { return h.flowDropped })
	losing := most(w.hops, func(h hopFacts) float64 { return h.lost })
	reordering := most(w.hops, func(h hopFacts) float64 { return h.reordered })
	local := 0.0
	for _, drop := range slices.Concat(w.sender.Drops, w.receiver.Drops) {
		if !drop.HostWide {
			local += drop.Packets
		}
	}
	// A packet that is counted as dropped may be a large one.
	enough := func(packets float64) bool {
		return packets > 0 && packets >= max(policed.queueDropped, flowLimited.flowDropped, losing.lost) && packets*largePacket >= dropsExplain*retransmits
	}
	to := func(cause result.Cause) { d.shares.move(cause, 1, result.CauseCongestionWindowLoss) }
	switch {
	case duplicates >= spurious*retransmits && reorderings > 0 && !queued(d.flows): // packets that wait in a queue are not held back by it
		to(result.CauseReordering)
		if reordering.reordered > 0 {
			d.places[result.CauseReordering] = place{hop: cmp.Or(reordering.parts.Reordering, reordering.name)}
		}
	case duplicates >= spurious*retransmits:
		to(result.CauseUnknown)
	case enough(policed.queueDropped) && w.shortQueue(d):
		to(result.CauseHopPolicer)
		// Below its rate on average: what comes faster for a moment is dropped.
		at := place{hop: policed.ofRate()}
		if policed.busy > 0 { // else it does not tell for how long it sent at its rate
			at.rate = w.rateOf(d, policed)
		}
		d.places[result.CauseHopPolicer] = at
	case enough(policed.queueDropped):
		cause := result.CauseUnknown // flows that all come and go together
		if policed.busy >= mostlyUsed {
			cause = result.CauseHopRate
			// A hop in front of the slowest drops, too, what comes faster for a moment.
			slow := slowest(w.hops)
			d.places[cause] = place{slow.ofRate(), w.rateOf(d, slow)}
			d.shares.move(cause, 1, result.CauseUnknown) // the window is not full while what was dropped is sent again
		}
		to(cause)
	case enough(flowLimited.flowDropped):
		cause, flows := result.CauseUnknown, float64(len(w.flows))
		if flowLimited.flowBusy/flows >= mostlyUsed {
			cause = result.CauseHopFlowRate
			d.places[cause] = place{flowLimited.ofFlowRate(), w.flowRateOf(d, flowLimited)}
		}
		to(cause)
	case explained < retransmittedFlows/2 && !(enough(losing.lost) && costly >= retransmittedFlows/2):
		to(result.CauseUnknown)
	case enough(local):
		to(result.CauseLocalDrops)
	case enough(losing.lost):
		d.places[result.CauseCongestionWindowLoss] = place{hop: cmp.Or(losing.parts.Losses, losing.name)}
	}
}

// overshoots says that a congestion control that paces by itself loses as much as a policer
// takes of it. It answers no losses below that.
func (w oneWay) overshoots(d *division) bool {
	var segments, retransmits float64
	for _, f := range d.flows {
		segments += f.rate * f.elapsed / 8 / max(float64(f.mss), 1)
		retransmits += f.retransmits
	}
	policed := most(w.hops, func(h hopFacts) float64 { return h.queueDropped }).queueDropped
	others := func(h hopFacts) bool { return max(h.flowDropped, h.lost) > policed }
	return pacesItself(w.congestionControl) && retransmits >= overshoots*segments &&
		policed*largePacket >= dropsExplain*retransmits && !slices.ContainsFunc(w.hops, others)
}

// lossPredictsRate says whether the flow's losses predict its rate: the average window
// of a sender that loses one segment in 1/p is √(3/(2p)) segments under Reno's rules
// (Mathis, Semke, Mahdavi & Ott: The macroscopic behavior of the TCP congestion
// avoidance algorithm, CCR 27(3), 1997) and (C(3+β)/(4(1−β)))^¼ · (RTT/p)^¾ under CUBIC's
// (RFC 9438, section 5.1, equation 5, with its C = 0.4 and β = 0.7); CUBIC takes the
// larger of the two.
func (f flowFacts) lossPredictsRate() bool {
	if f.lossEvents <= 0 || f.rtt <= 0 || f.mss <= 0 || f.rate <= 0 || f.elapsed <= 0 {
		return false
	}
	const c, beta = 0.4, 0.7
	p := f.lossEvents / (f.rate * f.elapsed / 8 / float64(f.mss))
	reno := math.Sqrt(1.5 / p)
	cubic := math.Pow(c*(3+beta)/(4*(1-beta)), 0.25) * math.Pow(f.rtt/p, 0.75)
	predicted := math.Max(reno, cubic) * float64(f.mss) * 8 / f.rtt
	return predicted < lossExplains*f.rate && f.rate < lossExplains*predicted
}

// explainWindow tells a window that limits from one that something slower fills. A
// round trip that is mostly waiting is a queue's: that of a hop which does not say so
// itself, if the rate is steady, and nobody knows whose otherwise.
func (w oneWay) explainWindow(d *division) {
	waiting := queued(d.flows)
	bound := d.boundOfPacing()
	// A program that reads now and then confirms late, which looks like a queue.
	unqueued := !waiting || bound == result.CauseReceiverApplication
	if bound != "" && pacesItself(w.congestionControl) && unqueued && !w.endsFull(d) {
		d.shares.move(bound, 1, result.CauseCongestionWindowDelay, result.CauseUnknown)
		return
	}
	if waiting || pacesItself(w.congestionControl) {
		cause := result.CauseUnknown
		if !w.lab && !w.hopsTell() && !w.endsFull(d) && steady(w.trial, w.spec) {
			cause = result.CauseHopRate
			d.places[cause] = place{rate: d.wire(w.goodput)}
		}
		d.shares.move(cause, 1, result.CauseCongestionWindowDelay)
		if waiting {
			d.shares.move(cause, 1, result.CauseReceiveWindow)
			// Losses that predict no rate are those of its queue.
			if cause == result.CauseHopRate {
				d.shares.move(cause, 1, result.CauseCongestionWindowLoss, result.CauseUnknown)
			}
		}
		return
	}
	growing := medianOver(d.flows, func(f flowFacts) float64 {
		if f.slowStart {
			return math.Max(f.growth, grows)
		}
		return f.growth
	})
	if growing < grows {
		return
	}
	d.shares.move(result.CauseCongestionWindowGrowth, 1, result.CauseCongestionWindowDelay)
	if medianOver(d.flows, func(f flowFacts) float64 { return f.windowGrowth }) >= receiverGrows {
		d.shares.move(result.CauseCongestionWindowGrowth, 1, result.CauseReceiveWindow)
	}
}

// boundOfPacing is what stopped a congestion control that paces by itself for a good part of
// the time, empty if nothing did: what it paces at for the rest is what that let it measure.
func (d *division) boundOfPacing() (bound result.Cause) {
	most := candidate
	for _, c := range []result.Cause{result.CauseReceiveWindow, result.CauseSendBuffer, result.CauseReceiverApplication} {
		if d.shares[c] >= most {
			bound, most = c, d.shares[c]
		}
	}
	return bound
}

// hopsTell says that a hop tells for how long it was sending at its rate. The counters of
// hops between hosts mostly are of bytes and packets, which say nothing of a rate.
func (w oneWay) hopsTell() bool {
	return slices.ContainsFunc(w.hops, func(h hopFacts) bool { return h.busy+h.flowBusy > 0 })
}

// steady says that the rate was the same over the measured time, as what a hop sets is
// and what CPUs can do is not.
func steady(t measurement.Trial, spec measurement.Spec) bool {
	if t.Throughput == nil || t.Throughput.Width <= 0 {
		return false
	}
	from, to := measured(t, spec)
	first := int(math.Round(float64(from / t.Throughput.Width)))
	last := min(len(t.Throughput.Bytes), int(math.Round(float64(to/t.Throughput.Width))))
	if last-first < steadySlots {
		return false
	}
	bins := t.Throughput.Bytes[first:last]
	slots := make([]float64, steadySlots)
	for i := range slots {
		for _, b := range bins[i*len(bins)/steadySlots : (i+1)*len(bins)/steadySlots] {
			slots[i] += b
		}
	}
	mean := statistics.Mean(slots)
	return mean > 0 && math.Sqrt(statistics.Variance(slots)) <= steadyVariation*mean
}

// steadySlots is how many parts of the measured time are compared.
const steadySlots = 10
