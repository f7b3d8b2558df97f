package analysis

import (
	"math"
	"slices"

	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

const (
	// cpuSaturated is the busy share of an end's CPUs from which on the
	// end is held responsible for what nothing else explains.
	cpuSaturated = 0.9
	// capReached is the share of an egress cap that counts as reaching it: a
	// token bucket is a little slower than its rate while congestion control
	// fills it again after a loss.
	capReached = 0.95
	// windowFilled is the share of the congestion window in flight that counts
	// as full; a whole offloaded segment may not fit into the rest.
	windowFilled = 0.85
	// paced is how far a pacing rate may exceed what was carried and still be
	// the limit. Linux lets loss-based congestion control pace at 1.2 times
	// the rate of the window or more (tcp_pacing_ca_ratio), so that is not.
	paced = 1.05
	// windowExplains is how much faster window/smallest RTT may be than what
	// was carried for the window alone to explain the rate. Beyond it segments
	// wait in a queue.
	windowExplains = 1.5
	// frameOverhead is what Ethernet, IPv4 and TCP with timestamps add to a
	// segment's payload: 14 + 20 + 32 bytes.
	frameOverhead = 66
	usualMSS      = 1448
)

// shares divides time among causes; they add to 1.
type shares map[result.Cause]float64

func (s shares) move(to result.Cause, fraction float64, from ...result.Cause) {
	for _, cause := range from {
		moved := s[cause] * fraction
		s[cause] -= moved
		s[to] += moved
	}
}

// attributeAll divides the time of every test with TCP flows that fill the path,
// on every path. What holds datagrams back no kernel counts.
func attributeAll(set *dataset, opts Options) []result.Attribution {
	var out []result.Attribution
	for _, p := range set.paths {
		for _, t := range set.tests {
			trials := set.cells[cellKey{p.Name, t.Name}]
			if (t.Spec.Kind != measurement.TCP && t.Spec.Kind != measurement.Load) || len(trials) == 0 {
				continue
			}
			a := attribute(trials, t.Spec.Defaults(), opts)
			a.Path, a.Test = p.Name, t.Name
			out = append(out, a)
		}
	}
	return out
}

// attribute averages the division over the trials of one cell.
func attribute(trials []measurement.Trial, spec measurement.Spec, opts Options) result.Attribution {
	sum := shares{}
	var observed []flowFacts
	for _, t := range trials {
		s, facts := trialShares(t, spec, opts)
		observed = append(observed, facts...)
		for cause, share := range s {
			sum[cause] += share / float64(len(trials))
		}
	}
	a := result.Attribution{N: len(trials), Shares: map[result.Cause]float64{}}
	for cause, share := range sum {
		// Below a millionth it is rounding, not a cause.
		if share > 1e-6 {
			a.Shares[cause] = share
		}
	}
	normalise(a.Shares)
	a.InFlightBytes = medianOver(observed, func(f flowFacts) float64 { return f.inFlight })
	a.RTT = measurement.Seconds(medianOver(observed, func(f flowFacts) float64 { return f.rtt }))
	a.MinRTT = measurement.Seconds(medianOver(observed, func(f flowFacts) float64 { return f.minRTT }))
	a.Queued = queued(observed)
	a.SourceEgressBitsPerSecond, a.DestinationEgressBitsPerSecond = opts.SourceEgressBitsPerSecond, opts.DestinationEgressBitsPerSecond
	return a
}

func normalise(s shares) {
	total := 0.0
	for _, cause := range result.Causes() {
		total += s[cause]
	}
	for cause := range s {
		s[cause] /= total
	}
}

// oneWay is the flows of a trial that go one way, and their rate together.
type oneWay struct {
	flows   []measurement.Flow
	goodput float64 // bit/s
	reverse bool    // the destination sends
}

// directionsOf divides a trial's flows by the end that sends.
func directionsOf(t measurement.Trial, spec measurement.Spec) []oneWay {
	goodput := t.Metrics["goodput_bits_per_second"]
	if spec.Kind == measurement.Load {
		goodput = t.Metrics["load_bits_per_second"]
	}
	if spec.Direction != measurement.Both {
		return []oneWay{{t.Flows, goodput, spec.Direction == measurement.Receive}}
	}
	forward, reverse := oneWay{}, oneWay{reverse: true}
	var bytes, reverseBytes float64
	for _, f := range t.Flows {
		bytes += float64(f.ReceivedBytes)
		if f.Reverse {
			reverseBytes += float64(f.ReceivedBytes)
			reverse.flows = append(reverse.flows, f)
		} else {
			forward.flows = append(forward.flows, f)
		}
	}
	if bytes > 0 {
		reverse.goodput = goodput * reverseBytes / bytes
		forward.goodput = goodput - reverse.goodput
	}
	return []oneWay{forward, reverse}
}

// trialShares divides the measured time of one trial. In a test of both
// directions in each direction counts by its number of flows.
func trialShares(t measurement.Trial, spec measurement.Spec, opts Options) (shares, []flowFacts) {
	out := shares{}
	var observed []flowFacts
	if len(t.Flows) == 0 {
		out[result.CauseUnknown] = 1
		return out, nil
	}
	for _, w := range directionsOf(t, spec) {
		if len(w.flows) == 0 {
			continue
		}
		s, facts := w.shares(t, opts)
		for cause, share := range s {
			out[cause] += share * float64(len(w.flows)) / float64(len(t.Flows))
		}
		observed = append(observed, facts...)
	}
	return out, observed
}

// shares divides the time of the flows of one way: first by the kernel's own
// account of each flow, then by what is known of the ends.
func (w oneWay) shares(t measurement.Trial, opts Options) (shares, []flowFacts) {
	out := shares{}
	var observed []flowFacts
	mss := int64(usualMSS)
	for _, f := range w.flows {
		facts := flowFactsOf(f, t.Warmup, w.goodput/float64(len(w.flows)))
		for cause, share := range facts.shares {
			out[cause] += share / float64(len(w.flows))
		}
		if facts.mss > 0 {
			mss = facts.mss
		}
		observed = append(observed, facts)
	}
	sender, receiver := t.Source, t.Destination
	senderCPU, receiverCPU := result.CauseSourceCPU, result.CauseDestinationCPU
	egress, egressCap := result.CauseSourceCap, opts.SourceEgressBitsPerSecond
	if w.reverse {
		sender, receiver = receiver, sender
		senderCPU, receiverCPU = receiverCPU, senderCPU
		egress, egressCap = result.CauseDestinationCap, opts.DestinationEgressBitsPerSecond
	}
	wire := w.goodput * float64(mss+frameOverhead) / float64(mss)
	if egressCap > 0 && wire >= capReached*egressCap {
		// At its cap the endpoint queues what it may not send yet. Whatever
		// window fills first only bounds that queue: raising it would not
		// raise the rate, so it is not the cause.
		out.move(egress, 1, result.CauseSendBuffer, result.CauseReceiveWindow, result.CauseCongestionWindowLoss,
			result.CauseCongestionWindowDelay, result.CausePacing, result.CauseUnknown)
	}
	blameCPUs(out, observed, busy(sender), busy(receiver), senderCPU, receiverCPU)
	return out, observed
}

func busy(e measurement.End) bool { return e.CPUBusy >= cpuSaturated }

// blameCPUs gives an end without CPU time to spare what nothing
// else explains: an idle sender to the sending end, a full window that does
// not explain the rate to the receiving end, the unknown to either.
func blameCPUs(s shares, observed []flowFacts, sender, receiver bool, senderCPU, receiverCPU result.Cause) {
	if sender {
		s.move(senderCPU, 1, result.CauseSenderApplication)
	}
	if receiver && queued(observed) {
		s.move(receiverCPU, 1, result.CauseReceiveWindow)
	}
	switch {
	case sender && receiver:
		s.move(senderCPU, 0.5, result.CauseUnknown)
		s.move(receiverCPU, 1, result.CauseUnknown)
	case sender:
		s.move(senderCPU, 1, result.CauseUnknown)
	case receiver:
		s.move(receiverCPU, 1, result.CauseUnknown)
	}
}

// flowFacts is what the sender's TCP_INFO says of one flow in the measured
// window.
type flowFacts struct {
	shares shares
	// inFlight is the median of what was in flight, in bytes, or the window
	// the peer advertised where that is all there is; 0 when neither is known.
	inFlight float64
	rtt      float64 // median of the smoothed round-trip time, seconds
	minRTT   float64 // seconds
	rate     float64 // goodput of the flow, bit/s
	mss      int64
}

// flowFactsOf divides a flow's time. The kernel splits the time since the
// connection began into idle, busy, receive-window limited and send-buffer
// limited (linux/tcp.h, tcpi_busy_time, tcpi_rwnd_limited,
// tcpi_sndbuf_limited; the last two are part of the first). What of the busy
// time remains is divided by the samples taken in the window.
func flowFactsOf(f measurement.Flow, warmup measurement.Seconds, rate float64) flowFacts {
	samples := slices.Clone(f.Info)
	slices.SortStableFunc(samples, func(a, b measurement.TCPInfo) int {
		switch {
		case a.At < b.At:
			return -1
		case a.At > b.At:
			return 1
		}
		return 0
	})
	// The sample nearest to the end of the warm-up opens the window; at the
	// very start of the flow every counter is zero.
	var start, end measurement.TCPInfo
	var inside []measurement.TCPInfo
	for i, s := range samples {
		if math.Abs(float64(s.At-warmup)) <= math.Abs(float64(start.At-warmup)) {
			start, inside = s, samples[i+1:]
		} else if i == 0 {
			inside = samples
		}
		end = s
	}
	if f.Final != nil {
		end = *f.Final
	}
	facts := flowFacts{shares: shares{}, rate: rate, mss: end.MSS, minRTT: float64(end.MinRTT)}
	facts.observe(inside)
	elapsed := float64(end.At - start.At)
	if !(elapsed > 0) || end.Busy <= 0 {
		facts.shares[result.CauseUnknown] = 1
		return facts
	}
	part := func(from, to measurement.Seconds) float64 {
		return math.Max(0, math.Min(1, float64(to-from)/elapsed))
	}
	active := part(start.Busy, end.Busy)
	window := part(start.ReceiveWindowTime, end.ReceiveWindowTime)
	buffer := part(start.SendBufferTime, end.SendBufferTime)
	// The counters are read one after the other while they run.
	if window+buffer > active {
		scale := active / (window + buffer)
		window, buffer = window*scale, buffer*scale
	}
	facts.shares[result.CauseSenderApplication] = 1 - active
	facts.shares[result.CauseReceiveWindow] = window
	facts.shares[result.CauseSendBuffer] = buffer
	lossCause := result.CauseCongestionWindowDelay
	if end.Retransmits > start.Retransmits {
		lossCause = result.CauseCongestionWindowLoss
	}
	facts.divideRest(active-window-buffer, inside, lossCause)
	return facts
}

// divideRest divides the share of the time that the kernel counts as busy and
// limited by neither receive window nor send buffer, in proportion to samples
// with a full congestion window, samples at the pacing rate, and others.
func (f *flowFacts) divideRest(rest float64, inside []measurement.TCPInfo, windowCause result.Cause) {
	if len(inside) == 0 {
		f.shares[result.CauseUnknown] += rest
		return
	}
	for _, s := range inside {
		cause := result.CauseUnknown
		switch {
		case windowFull(s, f.rate):
			cause = windowCause
		case s.PacingRate > 0 && f.rate > 0 && s.PacingRate <= paced*f.rate:
			cause = result.CausePacing
		}
		f.shares[cause] += rest / float64(len(inside))
	}
}

// windowFull says whether the congestion window was used up. Without a count
// of bytes in flight Little's law gives it: rate times round-trip time.
func windowFull(s measurement.TCPInfo, rate float64) bool {
	inFlight := float64(s.InFlight)
	if inFlight == 0 {
		inFlight = rate / 8 * float64(s.RTT)
	}
	return s.CongestionWindow > 0 && inFlight >= windowFilled*float64(s.CongestionWindow)
}

// observe fills in the medians over the samples.
func (f *flowFacts) observe(inside []measurement.TCPInfo) {
	var inFlight, window, rtt []float64
	for _, s := range inside {
		if s.InFlight > 0 {
			inFlight = append(inFlight, float64(s.InFlight))
		}
		if s.SendWindow > 0 {
			window = append(window, float64(s.SendWindow))
		}
		if s.RTT > 0 {
			rtt = append(rtt, float64(s.RTT))
		}
		if f.minRTT == 0 || (s.MinRTT > 0 && float64(s.MinRTT) < f.minRTT) {
			f.minRTT = float64(s.MinRTT)
		}
	}
	if len(inFlight) == 0 {
		inFlight = window
	}
	if len(inFlight) > 0 {
		f.inFlight = Median(inFlight)
	}
	if len(rtt) > 0 {
		f.rtt = Median(rtt)
	}
}

// medianOver is the median of a fact over the flows that know it, 0 if none.
func medianOver(observed []flowFacts, fact func(flowFacts) float64) float64 {
	var values []float64
	for _, f := range observed {
		if v := fact(f); v > 0 && finite(v) {
			values = append(values, v)
		}
	}
	return Median(values)
}

// queued says that what is in flight would allow a much higher rate at the
// smallest round-trip time: most of the round trip is waiting.
func queued(observed []flowFacts) bool {
	ratio := medianOver(observed, func(f flowFacts) float64 {
		if f.minRTT == 0 || f.rate == 0 {
			return 0
		}
		return f.inFlight * 8 / f.minRTT / f.rate
	})
	return ratio > windowExplains
}
