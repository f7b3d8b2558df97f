package cause

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/hopbench/hopbench/internal/analysis/statistics"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/result"
)

const (
	// windowFilled is the share of the congestion window in flight that counts
	// as full; a whole offloaded segment may not fit into the rest.
	windowFilled = 0.85
	// paced is how far a pacing rate may exceed what was carried and still be
	// the limit. Linux lets loss-based congestion control pace at 1.2 times
	// the rate of the window or more (tcp_pacing_ca_ratio), so that is not.
	paced = 1.05
	// pacedAtLeast is the share of the pacing rate that was asked for that a flow at it
	// carries at least.
	pacedAtLeast = 0.75
	// windowExplains is how much faster window/smallest RTT may be than what
	// was carried for the window alone to explain the rate. Beyond it segments
	// wait in a queue.
	windowExplains = 1.5
	// waits is how many times the smallest round-trip time is one that is mostly
	// waiting.
	waits = 2
	// frameOverhead is what Ethernet, IPv4 and TCP with timestamps add to a
	// segment's payload: 14 + 20 + 32 bytes.
	frameOverhead = 66
	// linkOverhead is what a link takes for each frame in addition: preamble, checksum
	// and gap, 8 + 4 + 12 bytes (IEEE 802.3).
	linkOverhead = 24
	usualMSS     = 1448
)

// flowFacts is what the two ends' kernels say of one flow in the measured window.
type flowFacts struct {
	shares shares
	// inFlight is the median of what was in flight, in bytes, or the window
	// the peer advertised where that is all there is; 0 when neither is known.
	inFlight float64
	rtt      float64 // median of the smoothed round-trip time, seconds
	minRTT   float64 // seconds
	// longestRTT is the largest smoothed one, seconds.
	longestRTT float64
	rate       float64 // goodput of the flow, bit/s
	mss        int64
	elapsed    float64 // seconds

	// Counts in the window.
	retransmits, duplicates, reorderings float64
	// lossEvents is in how many round trips something was sent again, at least.
	lossEvents float64
	// lossesTook is how many seconds more a flow that was watched from its beginning took from
	// its first loss on than at the window that it had before, at most.
	lossesTook float64
	// marked is the share of the delivered segments that carried a mark of congestion,
	// markEvents in how many round trips some did, at least.
	marked, markEvents float64
	// growth is by how much the congestion window grew, as a factor; slowStart
	// says that the flow never left slow start.
	growth    float64
	slowStart bool
	// windowGrowth is the same of the receive window.
	windowGrowth float64
	// unread is the median of what waited for the receiving program, largestWindow
	// the largest window that it advertised; bytes.
	unread, largestWindow float64
	// senderThread and receiverThread are the shares of the time in which the
	// thread ran or waited for a CPU; threads says that they are known.
	senderThread, receiverThread     float64
	senderThreaded, receiverThreaded bool
}

// account divides a flow's time. The kernel splits the time since the
// connection began into idle, busy, receive-window limited and send-buffer
// limited (linux/tcp.h, tcpi_busy_time, tcpi_rwnd_limited,
// tcpi_sndbuf_limited; the last two are part of the first). What of the busy
// time remains is divided by the samples taken in the window.
//
// What is asked for as pacing is asked in bit/s, 0 for none. Whole is how many bytes a file has,
// 0 where a test lasts for a time.
func account(f measurement.Flow, whole int64, warmup measurement.Seconds, rate, pacing float64, congestionControl string) flowFacts {
	start, end, inside := window(f, warmup)
	facts := flowFacts{shares: shares{}, rate: rate, mss: end.MSS, minRTT: float64(end.MinRTT)}
	facts.observe(start, end, inside)
	facts.observeReceiver(f.Receiver, warmup)
	if !(facts.elapsed > 0) || end.Busy <= 0 {
		facts.shares[result.CauseUnknown] = 1
		return facts
	}
	part := func(from, to measurement.Seconds) float64 {
		return math.Max(0, math.Min(1, float64(to-from)/facts.elapsed))
	}
	active := part(start.Busy, end.Busy)
	receive := part(start.ReceiveWindowTime, end.ReceiveWindowTime)
	buffer := part(start.SendBufferTime, end.SendBufferTime)
	// The counters are read one after the other while they run.
	if receive+buffer > active {
		scale := active / (receive + buffer)
		receive, buffer = receive*scale, buffer*scale
	}
	facts.shares[result.CauseSenderApplication] = 1 - active
	facts.shares[result.CauseReceiveWindow] = receive
	facts.shares[result.CauseSendBuffer] = buffer
	facts.divideRest(active-receive-buffer, unfinished(inside, whole), pacing, pacesItself(congestionControl))
	return facts
}

// unfinished are the samples in which a sender still had some of a file to send: afterwards its
// windows are not filled, whatever limits it. All are, where there is no file.
func unfinished(samples []measurement.TCPInfo, whole int64) []measurement.TCPInfo {
	if i := slices.IndexFunc(samples, func(s measurement.TCPInfo) bool { return s.SentBytes-s.RetransmittedBytes >= whole }); whole > 0 && i >= 0 {
		return samples[:i]
	}
	return samples
}

// pacesItself says that a congestion control paces at what it takes the path to carry.
func pacesItself(congestionControl string) bool { return strings.HasPrefix(congestionControl, "bbr") }

// window is the samples of a flow in the measured time, the one before them that is
// nearest to the end of the warm-up, and the last.
func window(f measurement.Flow, warmup measurement.Seconds) (start, end measurement.TCPInfo, inside []measurement.TCPInfo) {
	samples := slices.Clone(f.Info)
	slices.SortStableFunc(samples, func(a, b measurement.TCPInfo) int { return cmp.Compare(a.At, b.At) })
	// At the very start of the flow every counter is zero.
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
	return start, end, inside
}

// divideRest divides the share of the time that the kernel counts as busy and
// limited by neither receive window nor send buffer, in proportion to samples
// with a full congestion window, samples at the pacing rate, samples with nothing left
// to send, and others. A congestion control that paces by itself, at what it takes the
// path to carry, fills no window.
func (f *flowFacts) divideRest(rest float64, inside []measurement.TCPInfo, pacing float64, pacesItself bool) {
	if len(inside) == 0 {
		f.shares[result.CauseUnknown] += rest
		return
	}
	full := result.CauseCongestionWindowDelay
	if f.retransmits > 0 && !pacesItself {
		full = result.CauseCongestionWindowLoss
	}
	for _, s := range inside {
		cause := result.CauseUnknown
		atPace := s.PacingRate > 0 && f.rate > 0 && s.PacingRate <= paced*f.rate
		asked := s.PacingRate > 0 && s.PacingRate <= paced*pacing && f.rate >= pacedAtLeast*pacing
		switch {
		case windowFull(s, f.rate):
			cause = full
		case atPace && pacesItself && !asked:
			cause = result.CauseCongestionWindowDelay
		case atPace || asked:
			cause = result.CausePacing
		case s.Delivered > 0 && s.NotSent == 0 && s.SendBufferFull: // no kernel tells the one without the other
			cause = result.CauseSendBuffer
		case s.Delivered > 0 && s.NotSent == 0:
			cause = result.CauseSenderApplication
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

// observe fills in what the sender's samples say.
func (f *flowFacts) observe(start, end measurement.TCPInfo, inside []measurement.TCPInfo) {
	f.elapsed = float64(end.At - start.At)
	f.retransmits = float64(end.Retransmits - start.Retransmits)
	f.duplicates = float64(end.DuplicateSegments - start.DuplicateSegments)
	f.reorderings = float64(end.ReorderingSeen - start.ReorderingSeen)
	f.slowStart = end.SlowStartThreshold == 0 && end.Delivered > 0
	var inFlight, advertised, rtt []float64
	if delivered := end.Delivered - start.Delivered; delivered > 0 {
		f.marked = float64(end.CongestionMarks-start.CongestionMarks) / float64(delivered)
	}
	before, lastEvent, lastMark := start, math.Inf(-1), math.Inf(-1)
	for _, s := range inside {
		if s.CongestionMarks > before.CongestionMarks && float64(s.At)-lastMark >= float64(s.RTT) {
			f.markEvents++
			lastMark = float64(s.At)
		}
		if s.Retransmits > before.Retransmits && float64(s.At)-lastEvent >= float64(s.RTT) {
			f.lossEvents++
			lastEvent = float64(s.At)
		}
		before = s
		if s.InFlight > 0 {
			inFlight = append(inFlight, float64(s.InFlight))
		}
		if s.SendWindow > 0 {
			advertised = append(advertised, float64(s.SendWindow))
			f.largestWindow = max(f.largestWindow, float64(s.SendWindow))
		}
		if s.RTT > 0 {
			rtt = append(rtt, float64(s.RTT))
			f.longestRTT = max(f.longestRTT, float64(s.RTT))
		}
		if f.minRTT == 0 || (s.MinRTT > 0 && float64(s.MinRTT) < f.minRTT) {
			f.minRTT = float64(s.MinRTT)
		}
	}
	if len(inFlight) == 0 {
		inFlight = advertised
	}
	f.inFlight, f.rtt = statistics.Median(inFlight), statistics.Median(rtt)
	f.observeLosses(start, end, inside)
	from := start
	if from.CongestionWindow == 0 && len(inside) > 0 { // there was no warm-up: what grew at first may have come to its end
		from = inside[len(inside)/2]
	}
	if from.SendWindow > 0 {
		f.windowGrowth = float64(end.SendWindow) / float64(from.SendWindow)
	}
	if from.CongestionWindow > 0 {
		f.growth = float64(end.CongestionWindow) / float64(from.CongestionWindow)
	}
	if f.elapsed > 0 && end.Thread > 0 {
		f.senderThread, f.senderThreaded = float64(end.Thread-start.Thread)/f.elapsed, true
	}
}

// observeLosses compares what followed the first loss with the largest window before it.
func (f *flowFacts) observeLosses(start, end measurement.TCPInfo, inside []measurement.TCPInfo) {
	if start.CongestionWindow > 0 {
		return
	}
	before, largest := start, 0.0
	for _, s := range inside {
		if s.Retransmits > start.Retransmits {
			break
		}
		before, largest = s, max(largest, float64(s.CongestionWindow))
	}
	if largest > 0 {
		f.lossesTook = float64(end.At-before.At) - float64(end.Delivered-before.Delivered)*float64(end.MSS)*f.rtt/largest
	}
}

// observeReceiver fills in what the receiver's samples after the warm-up say.
func (f *flowFacts) observeReceiver(all []measurement.ReceiverInfo, warmup measurement.Seconds) {
	var unread []float64
	var first, last measurement.ReceiverInfo
	for _, s := range all {
		if s.At < warmup {
			continue
		}
		if len(unread) == 0 {
			first = s
		}
		last = s
		unread = append(unread, float64(s.Unread))
	}
	if len(unread) == 0 {
		return
	}
	f.unread = statistics.Median(unread)
	if elapsed := float64(last.At - first.At); elapsed > 0 && last.Thread > 0 {
		f.receiverThread, f.receiverThreaded = float64(last.Thread-first.Thread)/elapsed, true
	}
}

// medianOver is the median of a fact over the flows that know it, 0 if none.
func medianOver(observed []flowFacts, fact func(flowFacts) float64) float64 {
	var values []float64
	for _, f := range observed {
		if v := fact(f); v > 0 && statistics.Finite(v) {
			values = append(values, v)
		}
	}
	return statistics.Median(values)
}

// queued says that most of the round trip is waiting: the median round-trip time is far
// above the smallest, and what is in flight would allow a much higher rate at that.
func queued(observed []flowFacts) bool {
	// Without a smallest round-trip time or a rate these are not finite, and left out.
	faster := medianOver(observed, func(f flowFacts) float64 { return f.inFlight * 8 / f.minRTT / f.rate })
	longer := medianOver(observed, func(f flowFacts) float64 { return f.rtt / f.minRTT })
	return faster > windowExplains && longer > waits
}
