package iperf3

import (
	"fmt"
	"math"
	"time"

	"github.com/hopbench/hopbench/internal/measurement"
)

const (
	// maxPercent bounds the CPU time of the server, in percent of one.
	maxPercent = 1e6
	// leastPart of the test's time is what a server may say that it counted: one whose
	// host is busy begins late. slack is how many seconds more it may say.
	leastPart = 0.05
	slack     = 60
	// mostCopies is how many times as many bytes of datagrams as were sent a server may
	// say that it received: a path may make copies, and iperf3 counts them.
	mostCopies = 10
	// maxJitter is in seconds. A server need not believe what its client says of it: an old
	// iperf3 counts the difference of the clocks (clock).
	maxJitter = 1e6
)

// believe compares what the server counted with what this end did: nobody receives
// more than was sent, or in no time.
func (t *client) believe(theirs results, far []streamResult) error {
	took := (t.until - t.omit).Seconds()
	if !(theirs.CPUTotal >= 0 && theirs.CPUTotal <= maxPercent) {
		return fmt.Errorf("%w: %g %% of a CPU", ErrMalformed, theirs.CPUTotal)
	}
	for i, s := range t.streams {
		r, moved := far[i], float64(s.bytes.Load())
		omitted, omittedLost := valueOf(r.OmittedPackets), valueOf(r.OmittedLost)
		seconds := r.seconds()
		switch {
		case seconds != 0 && !(seconds >= leastPart*took && seconds <= 2*took+slack):
			return fmt.Errorf("%w: stream %d took %g s of %g s", ErrMalformed, i+1, seconds, took)
		case s.sender && (!t.udp && r.Bytes > moved || r.Bytes > mostCopies*moved):
			return fmt.Errorf("%w: %.0f bytes were received of stream %d, of which %.0f were sent", ErrMalformed, r.Bytes, i+1, moved)
		case !s.sender && t.omit == 0 && min(moved, s.distinct()) > r.Bytes: // else those sent before count, too
			return fmt.Errorf("%w: %.0f bytes of stream %d came, and %.0f were sent", ErrMalformed, moved, i+1, r.Bytes)
		case s.sender && r.Jitter > maxJitter:
			return fmt.Errorf("%w: a jitter of %g s of stream %d", ErrMalformed, r.Jitter, i+1)
		case t.udp && s.sender && r.Packets > float64(s.packets):
			return fmt.Errorf("%w: %.0f packets were received of stream %d, of which %d were sent", ErrMalformed, r.Packets, i+1, s.packets)
		case t.udp && !(math.Abs(r.Lost) <= r.Packets && math.Abs(omittedLost) <= r.Packets && omitted >= 0 && omitted <= r.Packets):
			return fmt.Errorf("%w: %.0f of %.0f packets of stream %d were lost", ErrMalformed, r.Lost, r.Packets, i+1)
		}
	}
	return nil
}

// distinct is how many bytes the receiver of datagrams has without copies, as far as it
// can tell.
func (s *stream) distinct() float64 {
	if !s.udp {
		return math.Inf(1)
	}
	return float64(s.arrivals.highest-s.arrivals.lost) * float64(s.block)
}

// result joins the two ends' results: of each stream the receiver's count is
// what was received, the sender's what was sent.
func (t *client) result(ours, theirs results, far []streamResult) Result {
	r := Result{
		Took: t.until - t.omit, ServerCPUPercent: theirs.CPUTotal, ServerCongestion: theirs.Congestion,
		Congestion: ours.Congestion,
	}
	if t.udp {
		r.PacketBytes = t.block
	}
	var copies, ended int64
	for i, s := range t.streams {
		near := ours.Streams[i]
		sent, received := near, far[i]
		if !s.sender {
			sent, received = received, sent
		}
		stream := StreamResult{
			Reverse: !s.sender, Local: t.ends[i].local, Remote: t.ends[i].remote,
			Received: int64(received.Bytes), ReceivedSeconds: received.seconds(),
			Sent: int64(sent.Bytes), SentSeconds: sent.seconds(), Retransmits: int64(sent.Retransmits), OutOfOrder: -1,
		}
		for _, seconds := range []*float64{&stream.ReceivedSeconds, &stream.SentSeconds} {
			if *seconds == 0 {
				*seconds = r.Took.Seconds() // an iperf3 before 3.2 does not say
			}
		}
		if t.udp {
			t.addPackets(&stream, s, received)
			copies += t.leaveOutCopies(&stream, received)
			ended += t.addEnd(&stream, s, int64(sent.Packets), int64(received.Packets))
		}
		if t.infos[i] != nil {
			stream.Final, stream.Info = t.infos[i].Final, t.infos[i].Series
		}
		if !t.udp {
			r.MSSBytes = s.conn.MSS()
		}
		if !s.sender {
			r.DiscardsInKernel = s.conn.DiscardsInKernel()
		}
		r.Streams = append(r.Streams, stream)
	}
	if copies > askew*int64(len(t.streams)) {
		t.facts = append(t.facts, fmt.Sprintf("at least %d packets that arrived were copies, which the path made: they do not count as received, and may hide losses from iperf3's count", copies))
	}
	if ended > 0 {
		t.facts = append(t.facts, fmt.Sprintf("the last %d packets did not arrive by the end: they count as lost here, and not in iperf3's count, which ends with the last that arrived", ended))
	}
	r.Bins, r.Facts = t.bins(), t.facts
	return r
}

// askew is by how many packets the counts of one stream may differ that are read one
// after the other while packets arrive.
const askew = 10

// omitTolerance is by which factor more than was sent may have come in the measured time
// of a server that ended the omitted start at another moment.
const omitTolerance = 1.05

// leaveOutCopies leaves the packets that arrived again out of what was received, and says
// how many they were. Each packet that arrived is the next, one that made up for a loss,
// or a copy.
func (t *client) leaveOutCopies(stream *StreamResult, received streamResult) (copies int64) {
	most := max(stream.Packets-stream.Lost, 0) * int64(t.block)
	if t.omit > 0 && (received.OmittedPackets == nil || received.OmittedLost == nil) {
		// What the omitted start lost is not known, nor exactly when it ended there.
		most = stream.Packets * int64(t.block)
		if float64(stream.Received) <= omitTolerance*float64(most) {
			return 0
		}
	}
	if stream.Received <= most {
		return 0
	}
	copies = (stream.Received - most) / int64(t.block)
	stream.Received = most
	return copies
}

func (t *client) addPackets(stream *StreamResult, s *stream, received streamResult) {
	stream.Packets = int64(received.Packets - valueOf(received.OmittedPackets))
	stream.Lost = int64(received.Lost - valueOf(received.OmittedLost))
	stream.JitterSeconds = received.Jitter
	if !s.sender {
		stream.OutOfOrder = s.arrivals.outOfOrder - s.arrivals.omitDisorder
	}
	if s.sender && received.OmittedPackets == nil && t.omit > 0 {
		// An iperf3 before 3.14 counts the omitted start in both, and does not
		// say how much of it is that: this end knows what it had sent by then. Of
		// what was lost the same share is taken to be from then on.
		all := stream.Packets
		if stream.Packets = max(all-s.omitPacket, 0); all > 0 {
			stream.Lost = int64(math.Round(float64(stream.Lost) * float64(stream.Packets) / float64(all)))
		}
		t.facts = []string{"the iperf3 server is older than 3.14: its loss is that of the whole test, the omitted start included"}
	}
}

// leastEnd is for how long nothing may arrive at the end of a test for another reason than that the
// path lost it: packets are on the way, or in the receiving program's queue.
const leastEnd = 250 * time.Millisecond

// addEnd counts as lost the packets after the last that arrived, where they are those of leastEnd or
// more, and says how many they are: iperf3 counts gaps, and there is none after the last packet.
func (t *client) addEnd(stream *StreamResult, s *stream, sent, highest int64) int64 {
	missing := sent - highest
	least := leastEnd
	if !s.sender { // the other end went on sending until it heard of the end
		silent := min(t.until-time.Duration(s.last.Load()), t.until-t.omit)
		if silent < leastEnd {
			return 0
		}
		missing, least = min(missing, int64(float64(sent)*silent.Seconds()/t.until.Seconds())), 0
	}
	if missing <= askew || float64(missing) < float64(sent)*least.Seconds()/t.until.Seconds() {
		return 0
	}
	if s.sender { // of the omitted start none count
		missing = max(min(missing, sent-s.omitPacket-stream.Packets), 0)
	}
	stream.Packets += missing
	stream.Lost += missing
	return missing
}

// bins sums what this end received.
func (t *client) bins() *measurement.Bins {
	var counts [][]int64
	for _, s := range t.streams {
		if !s.sender && s.bins != nil {
			counts = append(counts, s.bins)
		}
	}
	if len(counts) == 0 {
		return nil
	}
	sum := measurement.BinsOf(t.req.BinWidth, counts...)
	return &sum
}

// binsFor gives a receiving stream its bins.
func (t *client) binsFor(s *stream) {
	if s.sender || t.req.BinWidth <= 0 {
		return
	}
	s.width = t.req.BinWidth
	s.bins = make([]int64, (t.until+s.width-1)/s.width)
}
