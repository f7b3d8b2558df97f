package cause

import (
	"slices"

	"github.com/hopbench/hopbench/internal/result"
)

const (
	// cpuSaturated is the busy share of an end's CPUs from which on the
	// end is held responsible for what nothing else explains.
	cpuSaturated = 0.9
	// generating is the share of a full machine's CPUs that the threads of both ends
	// want when it is they who fill it; the kernel's part of their work is not theirs.
	generating = 0.5
	// capReached is the share of an egress cap that counts as reaching it: a
	// token bucket is a little slower than its rate while congestion control
	// fills it again after a loss.
	capReached = 0.95
	// capExceeded is how far above a cap between hosts a goodput shows that the cap did not
	// hold, as where a cloud lets more through for a while. The gates warn of it from there
	// on. That of a lab always holds, but for the burst of its token bucket.
	capExceeded = 1.02
	// unevenBin is how much more than a rate carries may be in one bin of what came at it.
	unevenBin = 1.25
	// linkExceeded is the share of a link's speed that nobody can exceed: what bins
	// and rounding add.
	linkExceeded = 1.02
	// threadIdle is the share of the time in which a thread ran, or waited for a CPU,
	// up to which its program can be said to have waited for something else.
	threadIdle = 0.5
	// unreadFills is the share of the largest window that waits for a receiving
	// program from which on it is the program that keeps the window small.
	unreadFills = 0.3
)

// blameReceiver gives a receive window that is full of what the program did not take
// to that program.
func (w oneWay) blameReceiver(f *flowFacts) {
	if f.largestWindow > 0 && f.unread >= unreadFills*f.largestWindow {
		f.shares.move(result.CauseReceiverApplication, 1, result.CauseReceiveWindow)
	}
}

// atCap gives all of the busy time to the sender's metered egress where that is reached:
// at its cap the endpoint queues what it may not send yet. Whatever window fills first
// only bounds that queue: raising it would not raise the rate, so it is not the cause.
// A hop whose own counters show that its rate, or that of each flow, is used up may be slower.
func (w oneWay) atCap(d *division) bool {
	egress := w.sender.egressBitsPerSecond
	if egress <= 0 || d.wire(w.flowing(egress)) < capReached*egress || !w.lab && w.goodput > capExceeded*egress {
		return false
	}
	flows := float64(len(w.flows))
	if slices.ContainsFunc(w.hops, func(h hopFacts) bool {
		return h.busy >= surelyUsed && w.rateOf(d, h) < egress || h.flowBusy/flows >= surelyUsed && w.flowRateOf(d, h)*flows < egress
	}) {
		return false
	}
	d.blameAll(w.sender.cap)
	return true
}

// flowing is the goodput in bit/s while data flowed. A file has no duration that was asked for:
// its time is that of commands, of slow start and of the last of its segments, too, in which no
// rate is reached. So it is, if that is more, that of the half of the time in which most came:
// what waited for a lost segment comes at once, faster than at the limit in bit/s that is asked
// about, and counts for no more than that.
func (w oneWay) flowing(limit float64) float64 {
	bins := w.trial.Throughput
	if w.spec.Duration > 0 || bins == nil || !(bins.Width > 0) || len(bins.Bytes) == 0 {
		return w.goodput
	}
	half := (len(bins.Bytes) + 1) / 2
	sum, most := 0.0, 0.0
	counted := func(i int) float64 { return min(bins.Bytes[i], unevenBin*limit/8*float64(bins.Width)) }
	for i := range bins.Bytes {
		sum += counted(i)
		if i >= half {
			sum -= counted(i - half)
		}
		most = max(most, sum)
	}
	return max(w.goodput, most*8/(float64(half)*float64(bins.Width)))
}

// blameAll gives a cause all of the busy time.
func (d *division) blameAll(cause result.Cause) {
	d.shares.move(cause, 1, result.CauseSendBuffer, result.CauseReceiveWindow, result.CauseCongestionWindowLoss,
		result.CauseCongestionWindowDelay, result.CausePacing, result.CauseUnknown)
}

// atLink gives all of the busy time to the link of an end whose speed is reached, the
// slower one if both may be. Nobody can do more than that, so a rate beyond it says that the
// speed is not that of the link.
func (w oneWay) atLink(d *division) bool {
	cause, speed := w.sender.link, w.sender.LinkBitsPerSecond
	if far := w.receiver.LinkBitsPerSecond; far > 0 && (speed == 0 || far < speed) {
		cause, speed = w.receiver.link, far
	}
	// On a link a frame has a preamble, a checksum and a gap, too.
	used := func(rate float64) float64 { return d.onWire(rate, frameOverhead+linkOverhead) / speed }
	if speed == 0 || w.lab || used(w.flowing(speed)) < capReached || used(w.goodput) > linkExceeded {
		return false
	}
	d.blameAll(cause)
	return true
}

// endsFull says that an end may have been the limit: its threads, or where they are
// not known its CPUs.
func (w oneWay) endsFull(d *division) bool {
	sender, receiver := d.threads()
	if sender > 0 && receiver > 0 {
		return max(sender, receiver) >= threadFull
	}
	return busy(w.sender) || busy(w.receiver)
}

func busy(e end) bool { return e.CPUBusy >= cpuSaturated }

// threads are the shares of the time in which the ends' threads ran or waited for a CPU,
// the median over the flows; 0 where not known.
func (d division) threads() (sender, receiver float64) {
	return medianOver(d.flows, func(f flowFacts) float64 { return f.senderThread }),
		medianOver(d.flows, func(f flowFacts) float64 { return f.receiverThread })
}

// blameCPUs gives a thread that can do no more what its program did not do in time, and
// what nothing else explains. An end without CPU time to spare gets
// the latter too, where its threads are not known or wanted what there was.
func (w oneWay) blameCPUs(d *division) {
	sender, receiver := d.threads()
	blameProgram := func(thread float64, full, program result.Cause) {
		switch {
		case thread >= threadFull:
			d.shares.move(full, 1, program)
		case thread >= threadIdle: // neither full nor idle
			d.shares.move(result.CauseUnknown, 1, program)
		}
	}
	blameProgram(sender, w.sender.thread, result.CauseSenderApplication)
	blameProgram(receiver, w.receiver.thread, result.CauseReceiverApplication)
	d.blameEnds(sender >= threadFull, w.sender.thread, receiver >= threadFull, w.receiver.thread)
	known := false
	demand := 0.0 // in CPUs
	for _, f := range d.flows {
		known = known || f.senderThreaded || f.receiverThreaded
		demand += f.senderThread + f.receiverThread
	}
	sending, receiving := busy(w.sender), busy(w.receiver)
	if w.sender.SameHost(w.receiver.End) {
		// One machine is both ends and all that is between them.
		if sending && (!known || demand >= generating*float64(max(w.sender.CPUs, 1))) {
			d.shares.move(result.CauseGenerator, 1, result.CauseUnknown)
		}
		return
	}
	if sending && !known {
		d.shares.move(w.sender.cpu, 1, result.CauseSenderApplication)
	}
	d.blameEnds(sending, w.sender.cpu, receiving, w.receiver.cpu)
}

// blameEnds gives what nothing else explains to the ends that can do no more, half of it to
// each of two.
func (d *division) blameEnds(sending bool, sender result.Cause, receiving bool, receiver result.Cause) {
	if sending && receiving {
		d.shares.move(sender, 0.5, result.CauseUnknown)
	} else if sending {
		d.shares.move(sender, 1, result.CauseUnknown)
	}
	if receiving {
		d.shares.move(receiver, 1, result.CauseUnknown)
	}
}
