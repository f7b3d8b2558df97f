package probe

import (
	"fmt"
	"math"
	"time"

	"github.com/hopbench/hopbench/internal/ftp"
	"github.com/hopbench/hopbench/internal/measurement"
	"github.com/hopbench/hopbench/internal/protocol"
)

// A message that was decoded holds numbers that somebody could have counted
// (protocol.Decode). Here is what they could not have been in this very test: more
// received than was sent, by this end's own count, or in other bins than both ends
// agreed on. What this end counted itself is checked as well, because the other one
// may have sent anything. Every error wraps protocol.ErrMalformed.

// checkBins holds a count against the layout that the spec demands.
func checkBins(b measurement.Bins, want int, width time.Duration) error {
	if math.Abs(float64(b.Width)-width.Seconds()) > 1e-9 || len(b.Bytes) != want {
		return fmt.Errorf("%w: %d bins of %v s, want %d of %v s", protocol.ErrMalformed, len(b.Bytes), b.Width, want, width.Seconds())
	}
	return nil
}

// checkFlow holds what the two ends of a tcp flow counted against each other.
func checkFlow(f *flow, bins int, width time.Duration) error {
	if err := checkBins(f.received.Bins, bins, width); err != nil {
		return err
	}
	if f.send != nil {
		return atMost("bytes", sumOf(f.received.Bins.Bytes), f.send.sent.Load())
	}
	if f.untold {
		return nil // which the outcome says
	}
	return atMost("bytes", float64(f.receive.count.Load()), f.sent.Bytes)
}

// checkPackets does so for a flow of a udp or pps test.
func checkPackets(f *packetFlow, bins int, width time.Duration) error {
	p := f.received.Packets
	if p == nil {
		return fmt.Errorf("%w: no count of packets", protocol.ErrMalformed)
	}
	if err := checkBins(f.received.Bins, bins, width); err != nil {
		return err
	}
	if err := f.received.Check(); err != nil {
		return err
	}
	if err := atMost("bytes", sumOf(f.received.Bins.Bytes), f.sent.Bytes); err != nil {
		return err
	}
	if p.Sent != f.sent.MeasuredPackets {
		return fmt.Errorf("%w: %d packets of the %d that were sent in the measured time", protocol.ErrMalformed, p.Sent, f.sent.MeasuredPackets)
	}
	if f.send != nil {
		return atMost("packets", sumOf(p.Bins), f.send.sent.Load())
	}
	if size := f.sent.PacketBytes; size < dataBytes || size > maxDatagram {
		return fmt.Errorf("%w: packets of %d bytes", protocol.ErrMalformed, size)
	}
	return nil
}

// checkAnswered holds the transactions that a server says it served against those
// that this end began.
func checkAnswered(r protocol.Report, began int64) error {
	if r.Answered > began {
		return fmt.Errorf("%w: %d connections were served of %d", protocol.ErrMalformed, r.Answered, began)
	}
	return nil
}

// checkTransfers holds the server's view of the segments of a file that it sent
// against what came of each.
func checkTransfers(r protocol.Report, segments []ftp.Segment, size int64) error {
	arrived := map[int64]int64{}
	for _, s := range segments {
		arrived[s.Offset] = s.Bytes
	}
	for _, x := range r.Transfers {
		came, known := arrived[x.Offset]
		if !known || x.Bytes < came || x.Bytes > size-x.Offset {
			return fmt.Errorf("%w: %d bytes were sent of a file of %d from byte %d on, of which %d came", protocol.ErrMalformed, x.Bytes, size, x.Offset, came)
		}
	}
	return nil
}

// checkStored holds the server's view of the file that it received, in less than
// took, against itself.
func checkStored(r protocol.Report, took time.Duration) error {
	if len(r.Transfers) != 1 {
		return fmt.Errorf("%w: %d files were stored, want 1", protocol.ErrMalformed, len(r.Transfers))
	}
	x := r.Transfers[0]
	if x.Offset != 0 || x.Bins == nil || !(x.Took > 0 && x.Took <= measurement.SecondsOf(took)) {
		return fmt.Errorf("%w: a file was stored from byte %d on in %v s of %v", protocol.ErrMalformed, x.Offset, x.Took, took)
	}
	if sum := sumOf(x.Bins.Bytes); !(x.Bins.Width > 0) || sum != float64(x.Bytes) {
		return fmt.Errorf("%w: a file of %d bytes in bins of %v s with %.0f bytes", protocol.ErrMalformed, x.Bytes, x.Bins.Width, sum)
	}
	return nil
}

func atMost(what string, received float64, sent int64) error {
	if received > float64(sent) {
		return fmt.Errorf("%w: %.0f %s were received of %d that were sent", protocol.ErrMalformed, received, what, sent)
	}
	return nil
}

func sumOf(values []float64) (sum float64) {
	for _, v := range values {
		sum += v
	}
	return sum
}
