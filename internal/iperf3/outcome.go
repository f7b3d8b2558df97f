package iperf3

import "github.com/hopbench/hopbench/internal/measurement"

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
		if stream.ReceivedSeconds == 0 {
			stream.ReceivedSeconds = r.Took.Seconds() // an iperf3 before 3.2 does not say
		}
		if t.udp {
			t.addPackets(&stream, s, received)
		}
		if t.infos[i] != nil {
			stream.Final, stream.Info = t.infos[i].final, t.infos[i].samples
		}
		if !t.udp {
			r.MSSBytes = s.conn.MSS()
		}
		if !s.sender {
			r.DiscardsInKernel = s.conn.DiscardsInKernel()
		}
		r.Streams = append(r.Streams, stream)
	}
	r.Bins, r.Facts = t.bins(), t.facts
	return r
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
		// say how much of it is that: this end knows what it had sent by then.
		stream.Packets = max(stream.Packets-s.omitPacket, 0)
		t.facts = []string{"the iperf3 server is older than 3.14: its count of lost datagrams includes those of the omitted start"}
	}
}

// bins sums what this end received.
func (t *client) bins() *measurement.Bins {
	var sum *measurement.Bins
	for _, s := range t.streams {
		if s.sender || s.bins == nil {
			continue
		}
		if sum == nil {
			sum = &measurement.Bins{Width: measurement.SecondsOf(s.width), Bytes: make([]float64, len(s.bins))}
		}
		for i, n := range s.bins {
			sum.Bytes[i] += float64(n)
		}
	}
	return sum
}

// binsFor gives a receiving stream its bins.
func (t *client) binsFor(s *stream) {
	if s.sender || t.req.BinWidth <= 0 {
		return
	}
	s.width = t.req.BinWidth
	s.bins = make([]int64, (t.until+s.width-1)/s.width)
}
